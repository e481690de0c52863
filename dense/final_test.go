package dense

import (
	"slices"
	"testing"
)

// TestReportsAreFinal: gradients have their final values when Backward reports them as final,
// and all are reported in the end.
func TestReportsAreFinal(t *testing.T) {
	for name, s := range map[string]Spec{
		"float32":    {In: 20, Hidden: []int{33, 16, 8}, Out: 1},
		"bf16":       {In: 20, Hidden: []int{33, 16, 8}, Out: 1, BF16: true},
		"batch norm": {In: 20, Hidden: []int{33, 16}, Out: 1, BatchNorm: true},
		"dropout":    {In: 20, Hidden: []int{16}, Out: 1, Activation: "tanh", Dropout: .3},
	} {
		m := newModel(t, s, 7, adam())
		watch := watchFinal(m.arena)
		m.backprop(t)
		watch.check(t, name, len(s.Hidden)+1)
	}
}

// watchedFinal records which gradients an arena reported as final, with their values at that
// time.
type watchedFinal struct {
	arena *Arena
	from  []int
	was   [][]float32
}

func watchFinal(a *Arena) *watchedFinal {
	w := &watchedFinal{arena: a}
	a.Final(func(from int) {
		w.from, w.was = append(w.from, from), append(w.was, slices.Clone(a.Grads()[from:]))
	})
	return w
}

// check checks a pass in which the arena had to report a given number of times.
func (w *watchedFinal) check(t *testing.T, name string, times int) {
	t.Helper()
	if len(w.from) != times || w.from[times-1] != 0 || !slices.IsSortedFunc(w.from, func(a, b int) int { return b - a }) {
		t.Errorf("%s: gradients reported final from %v, want %d descending places down to 0", name, w.from, times)
	}
	for i, from := range w.from {
		if !slices.Equal(w.was[i], w.arena.Grads()[from:]) {
			t.Errorf("%s: gradients from %d on have changed after they were final", name, from)
		}
	}
}
