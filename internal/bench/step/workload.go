package step

import (
	"math"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/synth"
)

// Workload is a training on a generated click log, whose rows package synth defines.
type Workload struct {
	Name  string
	Dim   int // E
	Rate  float64
	Train int64 // rows 0 to Train−1
	Test  int64 // rows after them

	*synth.Generator
	offsets []uint64 // start of each field's keys among all
}

// Workloads lists the names.
func Workloads() []string { return []string{"w1", "w2"} }

// NewWorkload returns the workload with that name; ok is false if there is none.
func NewWorkload(name string) (w *Workload, ok bool) {
	rows := ""
	switch name {
	case "w1":
		w, rows = &Workload{Name: name, Dim: 10, Rate: 0.02, Train: 400_000, Test: 100_000}, "meituan"
	case "w2":
		w, rows = &Workload{Name: name, Dim: 16, Rate: 0.05, Train: 1_000_000, Test: 200_000}, "criteo"
	default:
		return nil, false
	}
	g, err := synth.New(rows)
	if err != nil {
		return nil, false
	}
	w.generate(g)
	return w, true
}

// generate makes g the source of the rows.
func (w *Workload) generate(g *synth.Generator) {
	w.Generator = g
	offset := uint64(0)
	for _, n := range g.Values() {
		w.offsets = append(w.offsets, offset)
		offset += uint64(n)
	}
}

// Batch returns rows from ≤ n < to as a trainer reads them. A field has one key: the
// field's offset plus the token modulo its number of values. Dense fields are ln(1+x), or 0 if
// missing.
func (w *Workload) Batch(from, to int64) *encode.Batch {
	n, dense, values := int(to-from), w.Dense(), w.Values()
	b := &encode.Batch{Rows: n, Sparse: make([]encode.Jagged, len(values))}
	b.Label, b.RowID, b.Dense = make([]float32, n), make([]uint64, n), make([]float32, n*dense)
	for f := range b.Sparse {
		j := &b.Sparse[f]
		j.Values, j.Offsets = make([]uint64, n), make([]int32, n+1)
	}
	var r synth.Row
	for i := range n {
		w.Draw(from+int64(i), &r)
		b.RowID[i] = uint64(from) + uint64(i)
		if r.Label {
			b.Label[i] = 1
		}
		for f := range b.Sparse {
			key := uint64(0)
			if token, ok := r.Token(f); ok {
				key = uint64(token) % uint64(values[f])
			}
			b.Sparse[f].Values[i], b.Sparse[f].Offsets[i+1] = w.offsets[f]+key, int32(i+1)
		}
		for j, x := range r.Dense[:dense] {
			b.Dense[i*dense+j] = float32(math.Log1p(float64(max(x, 0))))
		}
	}
	return b
}
