package step

import (
	"math"
	"testing"
)

// TestBatch: the first line of w2 is, by the specification,
// 0 1 0 7 0 5 0 44 1 19 15 14 0 12 00000000 a1e687fe 8d251d39 …
func TestBatch(t *testing.T) {
	w, _ := NewWorkload("w2")
	b := w.Batch(0, 3)
	if b.Rows != 3 || b.Label[0] != 0 || b.RowID[2] != 2 {
		t.Errorf("rows %d, labels %v, ids %v", b.Rows, b.Label, b.RowID)
	}
	for i, x := range []float64{1, 0, 7, 0, 5, 0, 44, 1, 19, 15, 14, 0, 12} {
		if b.Dense[i] != float32(math.Log1p(x)) {
			t.Errorf("dense input %d is %v, want ln(1+%v)", i, b.Dense[i], x)
		}
	}
	for f, token := range []uint64{0x00000000, 0xa1e687fe, 0x8d251d39} {
		offset := []uint64{0, 1460, 1460 + 583}[f]
		if got, want := b.Sparse[f].Values[0], offset+token%uint64(w.Values()[f]); got != want {
			t.Errorf("key of field %d is %d, want %d", f, got, want)
		}
	}
	keys := 0
	for _, n := range w.Values() {
		keys += n
	}
	if keys != 2_000_000 {
		t.Errorf("%d keys, want 2 million", keys)
	}
	if _, ok := NewWorkload("w9"); ok {
		t.Error("w9 is a workload")
	}
}
