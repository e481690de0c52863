package evaluate

import (
	"slices"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
)

// Breakdown collects the samples of an evaluation for curves and for metrics by group.
type Breakdown struct {
	fields []splitField   // each once
	group  *byField       // for the AUC by group; nil: none
	slices []*byField     // for the metrics by field
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
	entry     int // index in Breakdown.fields
	groups    *metrics.Groups
	intervals *metrics.Intervals // instead of groups
}

// NewBreakdown returns the breakdown of an evaluation of the given number of samples: by the
// values of group, unless it is empty, and if report is set, for curves and by the given
// fields. A field whose numbers e divides into intervals is broken down by interval. The result
// is nil if there is nothing to keep.
func NewBreakdown(group string, report bool, fields []string, samples int64, e *encode.Encoder) *Breakdown {
	if group == "" && !report {
		return nil
	}
	b := &Breakdown{}
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
	if group != "" {
		b.group = by(group, nil)
	}
	for _, field := range fields {
		b.slices = append(b.slices, by(field, e.Intervals(field, metrics.MaxSlices)))
	}
	if report {
		b.tally = metrics.NewTally()
	}
	return b
}

// add adds a batch of the model, the entries of the fields, and the logits.
func (b *Breakdown) add(batch *encode.Batch, entries []encode.Jagged, logit []float32) {
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

// coverage counts, by sparse column, the samples with a value and the values.
type coverage struct{ covered, values []int64 }

func (c *coverage) add(b *encode.Batch) {
	if c.covered == nil {
		c.covered, c.values = make([]int64, len(b.Sparse)), make([]int64, len(b.Sparse))
	}
	for f := range b.Sparse {
		j := &b.Sparse[f]
		c.values[f] += int64(len(j.Values))
		for row := range b.Rows {
			for _, key := range j.Values[j.Offsets[row]:j.Offsets[row+1]] {
				if key != encode.KeyMissing {
					c.covered[f]++
					break
				}
			}
		}
	}
}
