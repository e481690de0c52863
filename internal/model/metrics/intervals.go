package metrics

import (
	"fmt"
	"strconv"

	"github.com/wdlrun/wdlrun/collective"
)

// Intervals collects the predictions of an evaluation by the interval that holds a number.
type Intervals struct {
	edges   []float64
	tallies []*Tally // of numbers below each edge, and of the others
	missing int64
}

// NewIntervals returns the intervals between ascending edges. An edge belongs to the interval
// above it.
func NewIntervals(edges []float64) *Intervals {
	x := &Intervals{edges: edges}
	for range len(edges) + 1 {
		x.tallies = append(x.tallies, NewTally())
	}
	return x
}

// Add adds samples of interval i.
func (x *Intervals) Add(i int, logit, label, weight []float32) {
	x.tallies[i].Add(logit, label, weight)
}

// Miss counts a sample without a number.
func (x *Intervals) Miss() { x.missing++ }

// Slices returns the metrics of each interval that has samples, the same on all ranks.
func (x *Intervals) Slices(c *collective.Comm) (SliceList, error) {
	list := SliceList{Share: 1, Top: []Slice{}, Intervals: true}
	for i, t := range x.tallies {
		m, err := t.Reduce(c)
		if err != nil {
			return SliceList{}, err
		}
		if m.Samples > 0 {
			list.Top = append(list.Top, Slice{Value: x.name(i), Samples: m.Samples, Positives: m.Positives, AUC: m.AUC, LogLoss: m.LogLoss, BaseRate: m.BaseRate, Calibration: m.Calibration})
		}
	}
	missing := []int64{x.missing}
	err := collective.AllReduce(c, missing, collective.Sum)
	list.Values, list.Missing = int64(len(list.Top)), missing[0]
	return list, err
}

// name returns the limits of interval i.
func (x *Intervals) name(i int) string {
	at := func(i int) string { return strconv.FormatFloat(x.edges[i], 'g', -1, 64) }
	switch {
	case i == 0:
		return "below " + at(0)
	case i == len(x.edges):
		return "from " + at(i-1)
	}
	return fmt.Sprintf("%s to below %s", at(i-1), at(i))
}
