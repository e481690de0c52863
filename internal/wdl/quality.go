package wdl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/wdl/metrics"
	"github.com/wdlrun/wdlrun/internal/wdl/report"
	"github.com/wdlrun/wdlrun/internal/wdl/save"
)

// mostBy is the largest number of fields that break an evaluation down.
const mostBy = 16

// breakdown collects the samples of an evaluation for curves and for metrics by group.
type breakdown struct {
	fields []splitField   // each once
	group  *byField       // for EvalOptions.Group; nil: none
	slices []*byField     // for EvalOptions.By
	tally  *metrics.Tally // for curves; nil: none
	covers coverage       // with tally
	dense  []metrics.DenseInput
	all    []*byField // group and slices
}

// splitField is a field by whose values or intervals samples are kept.
type splitField struct {
	name  string
	edges []float64 // between the intervals; nil: by value
}

// byField keeps samples by the value of a field, or by its interval.
type byField struct {
	entry     int // index in breakdown.fields
	groups    *metrics.Groups
	intervals *metrics.Intervals // instead of groups
}

// newBreakdown returns the breakdown of an evaluation of the given number of samples; nil if
// none is requested. A field of EvalOptions.By whose numbers e divides into intervals is
// broken down by interval.
func (o *EvalOptions) newBreakdown(samples int64, e *encode.Encoder) *breakdown {
	if o.Group == "" && !o.Report {
		return nil
	}
	b := &breakdown{}
	by := func(field string, edges []float64) *byField {
		at := slices.IndexFunc(b.fields, func(f splitField) bool { return f.name == field && (f.edges == nil) == (edges == nil) })
		if at < 0 {
			at = len(b.fields)
			b.fields = append(b.fields, splitField{field, edges})
		}
		g := &byField{entry: at}
		if edges != nil {
			g.intervals = metrics.NewIntervals(edges)
		} else {
			g.groups = metrics.NewGroups(samples)
		}
		b.all = append(b.all, g)
		return g
	}
	if o.Group != "" {
		b.group = by(o.Group, nil)
	}
	for _, field := range o.By {
		b.slices = append(b.slices, by(field, e.Intervals(field, metrics.MostSlices)))
	}
	if o.Report {
		b.tally = metrics.NewTally()
	}
	return b
}

// add adds a batch of the model, the entries of the fields, and the logits.
func (b *breakdown) add(batch *encode.Batch, entries []encode.Jagged, logit []float32) {
	if b.tally != nil {
		b.covers.add(batch)
		b.tally.Add(logit[:batch.Rows], batch.Label, batch.Weight)
	}
	for _, f := range b.all {
		for i, key := range entries[f.entry].Values {
			f.add(key, batch, i, logit[i:i+1])
		}
	}
}

// add adds sample i of a batch with the given key and logit.
func (f *byField) add(key uint64, batch *encode.Batch, i int, logit []float32) {
	var weight []float32
	if batch.Weight != nil {
		weight = batch.Weight[i : i+1]
	}
	switch {
	case f.intervals != nil && key == encode.KeyMissing:
		f.intervals.Miss()
	case f.intervals != nil:
		f.intervals.Add(int(key), logit, batch.Label[i:i+1], weight)
	case key == encode.KeyMissing:
		f.groups.Miss()
	case weight != nil:
		f.groups.Add(key, logit[0], batch.Label[i], weight[0])
	default:
		f.groups.Add(key, logit[0], batch.Label[i], 1)
	}
}

// slices returns the metrics by value or by interval.
func (f *byField) slices(c *collective.Comm) (metrics.SliceList, error) {
	if f.intervals != nil {
		return f.intervals.Slices(c)
	}
	return f.groups.Slices(c)
}

// reduce adds the breakdowns of all ranks to a result.
func (j *job) reduce(ctx context.Context, b *breakdown, m *report.Evaluated, res *EvalResult) (err error) {
	if b == nil {
		return nil
	}
	if b.group != nil {
		res.Groups = &metrics.GroupMetrics{}
		if *res.Groups, err = b.group.groups.Reduce(j.comm); err != nil {
			return err
		}
		res.Groups.Field = j.eval.Group
	}
	if b.tally == nil {
		return nil
	}
	if _, err := b.tally.Reduce(j.comm); err != nil {
		return err
	}
	q := b.tally.Quality()
	for i, f := range b.slices {
		list, err := f.slices(j.comm)
		if err != nil {
			return err
		}
		list.Field = j.eval.By[i]
		q.Slices = append(q.Slices, list)
	}
	q.DenseInputs = b.dense
	if q.Features, err = j.features(&b.covers, m); err != nil {
		return err
	}
	res.Quality = &q
	fault, err := save.First(j.comm, j.rec, func() error { return j.name(ctx, q.Slices) })
	if err == nil && fault != "" {
		err = errors.New(fault)
	}
	return err
}

// mostNamed is the largest number of records that rank 0 reads to find the values of slices.
// Values with many samples are found early.
const mostNamed = 1 << 22

// name sets the values of slices, on rank 0, by comparing hashes of the values in the data. A
// value that is not found is named by its hash.
func (j *job) name(ctx context.Context, lists []metrics.SliceList) error {
	if len(lists) == 0 {
		return nil
	}
	wanted := make([]map[uint64]*metrics.Slice, len(lists))
	left := 0
	for i := range lists {
		wanted[i] = map[uint64]*metrics.Slice{}
		if lists[i].Intervals {
			continue // they have names
		}
		for k := range lists[i].Top {
			s := &lists[i].Top[k]
			s.Value = fmt.Sprintf("hash %016x", s.Key)
			wanted[i][s.Key] = s
			left++
		}
	}
	lines, err := j.in.Train.Lines(j.eval.By)
	if err != nil {
		return err
	}
	defer lines.Close()
	var text []byte
	for n := 0; left > 0 && n < mostNamed; n++ {
		_, values, err := lines.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range values {
			if len(wanted[i]) == 0 {
				continue
			}
			for k := range values[i].Len() {
				text = values[i].Append(text[:0], k)
				if s := wanted[i][encode.KeyOf(text)]; s != nil {
					s.Value = cutValue(string(text))
					delete(wanted[i], s.Key)
					left--
				}
			}
		}
		if n%(1<<14) == 0 {
			j.shown.Advance(1)
		}
	}
	return nil
}

// cutValue shortens a value for display.
func cutValue(text string) string {
	const longest = 200
	if len(text) > longest {
		return text[:longest] + "…"
	}
	return text
}

// checkBy returns an error if an evaluation cannot be broken down by the fields of o.By.
func (o *EvalOptions) checkBy(d *data.Dataset) error {
	for i, field := range o.By {
		if slices.Contains(o.By[:i], field) {
			return fmt.Errorf("eval: -by: %s is named twice: name it once", field)
		}
	}
	if len(o.By) > mostBy {
		return fmt.Errorf("eval: -by: %d fields: name at most %d", len(o.By), mostBy)
	}
	if err := d.HasFields(o.By); err != nil {
		return fmt.Errorf("eval: -by: %w", err)
	}
	return nil
}
