package metrics

import (
	"math"
	"reflect"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
)

// TestIntervals compares the metrics of each interval with their definitions. They have the
// same bits on any number of ranks, and an interval without samples is left out.
func TestIntervals(t *testing.T) {
	logit, label, weight := samples(900, 4)
	edges := []float64{-1, 0.5, 7}
	of := func(i int) int { return []int{0, 1, 3}[i%3] } // none is from 0.5 to 7
	var first SliceList
	for _, ranks := range []int{1, 3} {
		for _, list := range onRanks(t, ranks, len(logit), func(c *collective.Comm, mine func(i int) bool) (SliceList, error) {
			x := NewIntervals(edges)
			for i := range logit {
				if mine(i) {
					x.Add(of(i), logit[i:i+1], label[i:i+1], weight[i:i+1])
				}
			}
			x.Miss()
			return x.Slices(c)
		}) {
			if list.Missing != int64(ranks) {
				t.Errorf("%d samples are missing of %d", list.Missing, ranks)
			}
			if list.Missing = 0; first.Top == nil {
				first = list
			}
			if !reflect.DeepEqual(list, first) {
				t.Errorf("%d ranks: %+v, want %+v", ranks, list, first)
			}
		}
	}
	if len(first.Top) != 3 || first.Values != 3 || !first.Intervals {
		t.Fatalf("%+v", first)
	}
	for k, name := range []string{"below -1", "-1 to below 0.5", "from 7"} {
		var x, y, w []float32
		for i := range logit {
			if i%3 == k {
				x, y, w = append(x, logit[i]), append(y, label[i]), append(w, weight[i])
			}
		}
		m, got := plainMetrics(x, y, w), first.Top[k]
		if got.Value != name || got.Samples != int64(len(x)) || math.Abs(*got.AUC-*m.AUC) > 0.002 || math.Abs(got.LogLoss-m.LogLoss) > 1e-6 {
			t.Errorf("%+v, want %s with AUC %v, log-loss %v", got, name, *m.AUC, m.LogLoss)
		}
	}
}
