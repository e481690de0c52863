package step

import (
	"crypto/md5"
	"fmt"
	"io"
	"math"
	"testing"
)

// TestTheRowsAreThoseOfTheSpecification compares the logs with checksums that
// two other programs made of the same specification.
func TestTheRowsAreThoseOfTheSpecification(t *testing.T) {
	for _, x := range []struct {
		workload string
		from, to int64
		sum      string
	}{
		{"w2", 0, 1000, "2accb5916213fa95c2a123920f3dda71"},
		{"w2", 0, 20000, "8cb7fdfd0d842566f133208edea8a372"},
		{"w1", 0, 1000, "324a1a54d647c49438928c68004f9161"},
		{"w1", 0, 20000, "0d3271ed4255238b69303d2eaf8fe04d"},
	} {
		w, _ := NewWorkload(x.workload)
		h := md5.New()
		w.write(h, x.from, x.to)
		if got := fmt.Sprintf("%x", h.Sum(nil)); got != x.sum {
			t.Errorf("%s, rows %d to %d: md5 %s, want %s", x.workload, x.from, x.to, got, x.sum)
		}
	}
}

// write writes rows as lines in Criteo's layout: label, dense, categorical.
func (w *Workload) write(out io.Writer, from, to int64) {
	r := w.newRow()
	for n := from; n < to; n++ {
		w.row(n, r)
		label := 0
		if r.label {
			label = 1
		}
		fmt.Fprint(out, label)
		for _, x := range r.dense {
			if x < 0 {
				fmt.Fprint(out, "\t")
			} else {
				fmt.Fprintf(out, "\t%d", x)
			}
		}
		for f, token := range r.token {
			if r.missing[f] {
				fmt.Fprint(out, "\t")
			} else {
				fmt.Fprintf(out, "\t%08x", token)
			}
		}
		fmt.Fprint(out, "\n")
	}
}

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
		if got, want := b.Sparse[f].Values[0], offset+token%uint64(w.Vocabulary[f]); got != want {
			t.Errorf("key of field %d is %d, want %d", f, got, want)
		}
	}
	keys := 0
	for _, n := range w.Vocabulary {
		keys += n
	}
	if keys != 2_000_000 {
		t.Errorf("%d keys, want 2 million", keys)
	}
	if _, ok := NewWorkload("w9"); ok {
		t.Error("w9 is a workload")
	}
}
