package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/text/cut"
	"github.com/wdlrun/wdlrun/internal/train/evaluate"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/save"
)

// maxBy is the largest number of fields that break an evaluation down.
const maxBy = 16

// reduce adds the breakdowns of all ranks to a result.
func (e Evaluation) reduce(ctx context.Context, b *evaluate.Breakdown, m *report.Evaluated, res *EvalResult) (err error) {
	if res.Groups, res.Quality, err = b.Reduce(&e.Setup, m); err != nil || res.Quality == nil {
		return err
	}
	fault, err := save.First(e.Comm, e.Rec, func() error { return e.name(ctx, res.Quality.Slices) })
	if err == nil && fault != "" {
		err = errors.New(fault)
	}
	return err
}

// maxNamed is the largest number of records that rank 0 reads to find the values of slices.
// Values with many samples are found early.
const maxNamed = 1 << 22

// name sets the values of slices, on rank 0, by comparing hashes of the values in the data. A
// value that is not found is named by its hash.
func (e Evaluation) name(ctx context.Context, lists []metrics.SliceList) error {
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
	lines, err := e.In.Train.Lines(e.eval.By)
	if err != nil {
		return err
	}
	defer lines.Close()
	var text []byte
	for n := 0; left > 0 && n < maxNamed; n++ {
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
					s.Value = cut.To(longestValue, string(text))
					delete(wanted[i], s.Key)
					left--
				}
			}
		}
		if n%(1<<14) == 0 {
			e.Shown.Advance(1)
		}
	}
	return nil
}

// longestValue bounds the bytes of a displayed value.
const longestValue = 200

// checkBy returns an error if an evaluation cannot be broken down by the fields of o.By.
func (o *EvalOptions) checkBy(d *data.Dataset) error {
	for i, field := range o.By {
		if slices.Contains(o.By[:i], field) {
			return fmt.Errorf("eval: -by: %s is named twice: name it once", field)
		}
	}
	if len(o.By) > maxBy {
		return fmt.Errorf("eval: -by: %d fields: name at most %d", len(o.By), maxBy)
	}
	if err := d.HasFields(o.By); err != nil {
		return fmt.Errorf("eval: -by: %w", err)
	}
	return nil
}
