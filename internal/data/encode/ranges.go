package encode

import (
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// Range is the range of the values of a numeric field in the training data.
type Range struct {
	Field       string
	Least, Most float64
	Unknown     bool // training has not determined it: every value is inside
}

// WithRanges returns e for batches with one more entry of Batch.Sparse per range, from
// place first. Its keys are KeyMissing or valid for Outside. all adds the fields of dense
// inputs whose range is unknown, except dates.
func (e *Encoder) WithRanges(all bool) (with *Encoder, ranges []Range, first int, err error) {
	s, stats, no := e.schema, slices.Clip(e.stats), false
	s.Features = slices.Clip(s.Features)
	for i := range e.schema.Features {
		f, r := &e.schema.Features[i], e.stats[i].Range
		unknown := r == nil
		if unknown && all && (f.Encode == "log" || f.Encode == "raw") {
			r = []float64{-math.MaxFloat64 / 2, math.MaxFloat64 / 2} // boundaries are finite
		}
		if r == nil || slices.ContainsFunc(ranges, func(x Range) bool { return x.Field == f.Field }) {
			continue
		}
		ranges = append(ranges, Range{f.Field, r[0], r[1], unknown})
		name := "range of " + f.Field
		s.Features = append(s.Features, schema.Feature{
			Name: name, Field: f.Field, Encode: "boundaries", Table: name, Wide: &no, Deep: &no,
			Boundaries: []float64{r[0], math.Nextafter(r[1], math.Inf(1))},
		})
		stats = append(stats, statistics{})
	}
	if with, err = compile(s, stats); err != nil {
		return nil, nil, 0, err
	}
	return with, ranges, len(e.sparse) - len(e.schema.Crosses), nil
}

// Outside counts the keys of an entry added by WithRanges: the keys of values, and the keys of
// values outside the range.
func Outside(keys []uint64) (values, outside int64) {
	const inside = 1 // the second of three intervals
	for _, k := range keys {
		if k != KeyMissing {
			values++
			if k != inside {
				outside++
			}
		}
	}
	return values, outside
}
