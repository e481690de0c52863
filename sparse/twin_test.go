package sparse

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// twin is the specification of a store: one Go map for each table, no ranks, no exchange, and
// loops over float32. It receives the batches of all ranks.
type twin struct {
	cfg     Config
	tables  []map[uint64]*twinRow
	initial []*table.Table         // used for initial rows only
	staged  []map[uint64][]float32 // by table and key: V gradients
	past    []Step
}

type twinRow struct {
	values []float32
	state  [][]float32 // by part
}

func newTwin(cfg Config) *twin {
	w := &twin{cfg: cfg.withDefaults()}
	for _, c := range cfg.Tables {
		t, err := table.Open(c.engine(), cfg.Seed, 1)
		if err != nil {
			panic(err)
		}
		w.initial = append(w.initial, t)
		w.tables = append(w.tables, map[uint64]*twinRow{})
		w.staged = append(w.staged, map[uint64][]float32{})
	}
	return w
}

func (w *twin) width(t int) (v int) {
	for _, p := range w.cfg.Tables[t].Parts {
		v += p.Dim
	}
	return v
}

func (w *twin) row(t int, key uint64) *twinRow {
	if r := w.tables[t][key]; r != nil {
		return r
	}
	r := &twinRow{values: make([]float32, w.width(t))}
	w.initial[t].Initial(key, r.values)
	at := 0
	for _, p := range w.cfg.Tables[t].Parts {
		state := make([]float32, p.Rule.StateLen(p.Dim))
		p.Rule.InitState(r.values[at:at+p.Dim], state)
		at += p.Dim
		r.state = append(r.state, state)
	}
	for _, at := range w.past {
		for part, p := range w.cfg.Tables[t].Parts {
			if !p.DenseL2 {
				continue
			}
			lo := w.place(t, part)
			values, g := r.values[lo:lo+p.Dim], make([]float32, p.Dim)
			for d := range g {
				if g[d] = float32(float32(p.L2) * values[d]); at.Clip != 0 {
					g[d] *= at.Clip
				}
			}
			var u optim.Update = p.Rule.At(optim.Step{N: at.N, Rate: at.Rate, Samples: at.Samples, Batch: at.Batch})
			u.Apply(0, values, g, r.state[part])
		}
	}
	return r
}

func (w *twin) wire(t int) Wire { return w.cfg.Tables[t].Wire }

// rounded defines a precision: bf16 is the nearest float32 whose lower 16 bits are zero. Ties go
// to the value with an even last bit.
func rounded(p Precision, x []float32) {
	for i, v := range x {
		if p == FP32 {
			continue
		}
		down := math.Float32frombits(math.Float32bits(v) &^ 0xffff)
		up := math.Float32frombits(math.Float32bits(v)&^0xffff + 0x10000)
		a, b := math.Abs(float64(v)-float64(down)), math.Abs(float64(up)-float64(v))
		if a < b || a == b && math.Float32bits(down)&0x10000 == 0 {
			x[i] = down
		} else {
			x[i] = up
		}
	}
}

// place returns the index of a part's first value.
func (w *twin) place(t, part int) (at int) {
	for _, p := range w.cfg.Tables[t].Parts[:part] {
		at += p.Dim
	}
	return at
}

// factors returns the coefficients of a bag's values by their definition.
func factors(b Bags, bag int) []float32 {
	lo, hi := b.Offsets[bag], b.Offsets[bag+1]
	weights := make([]float64, hi-lo)
	var sum, squares float64
	for i := range weights {
		weights[i] = 1
		if b.Weights != nil {
			weights[i] = float64(b.Weights[int(lo)+i])
		}
		sum += weights[i]
		squares += weights[i] * weights[i]
	}
	denominator := map[Pooling]float64{Sum: 1, Mean: sum, SqrtN: math.Sqrt(squares)}[b.Pooling]
	out := make([]float32, len(weights))
	for i, x := range weights {
		if denominator != 0 {
			out[i] = float32(x * (1 / denominator))
		}
	}
	return out
}

func (w *twin) pool(b Bags, part int) (out []float32) {
	dim := w.cfg.Tables[b.Table].Parts[part].Dim
	at := w.place(b.Table, part)
	for bag := range len(b.Offsets) - 1 {
		sum := make([]float32, dim)
		for i, c := range factors(b, bag) {
			row := slices.Clone(w.row(b.Table, b.Values[int(b.Offsets[bag])+i]).values[at:])
			rounded(w.wire(b.Table).Rows, row)
			for d := range sum {
				sum[d] += float32(c * row[d])
			}
		}
		out = append(out, sum...)
	}
	return out
}

// push adds the gradients of one rank's batch; dy is by feature and part.
func (w *twin) push(bags []Bags, dy [][][]float32) {
	for t := range w.tables {
		unique := map[uint64][]float32{}
		for f, b := range bags {
			if b.Table != t {
				continue
			}
			for part, p := range w.cfg.Tables[t].Parts {
				for bag := range len(b.Offsets) - 1 {
					for i, c := range factors(b, bag) {
						key := b.Values[int(b.Offsets[bag])+i]
						if unique[key] == nil {
							unique[key] = make([]float32, w.width(t))
						}
						for d := range p.Dim {
							unique[key][w.place(t, part)+d] += float32(c * dy[f][part][bag*p.Dim+d])
						}
					}
				}
			}
		}
		for key, g := range unique {
			rounded(w.wire(t).Gradients, g)
			if have := w.staged[t][key]; have == nil {
				w.staged[t][key] = g
			} else {
				for d := range g {
					have[d] += g[d]
				}
			}
		}
	}
}

// gradient returns the gradient of a part before clipping, or nil if the part is not updated.
func (w *twin) gradient(t, part int, key uint64, scale float32) []float32 {
	p, row := w.cfg.Tables[t].Parts[part], w.row(t, key)
	staged := w.staged[t][key]
	if staged == nil && !p.DenseL2 {
		return nil
	}
	g := make([]float32, p.Dim)
	for d := range g {
		if staged != nil {
			g[d] = scale * staged[w.place(t, part)+d]
		}
		if p.L2 != 0 {
			g[d] += float32(float32(p.L2) * row.values[w.place(t, part)+d])
		}
	}
	return g
}

// keys returns all keys that a step may update.
func (w *twin) keys(t int) (all []uint64) {
	for key := range w.tables[t] {
		all = append(all, key)
	}
	for key := range w.staged[t] {
		if w.tables[t][key] == nil {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	return all
}

func (w *twin) normSq(scale float32) (sum float64) {
	for t := range w.tables {
		for _, key := range w.keys(t) {
			for part := range w.cfg.Tables[t].Parts {
				for _, x := range w.gradient(t, part, key, scale) {
					sum += float64(x) * float64(x)
				}
			}
		}
	}
	return sum
}

func (w *twin) apply(at Step) {
	for t := range w.tables {
		for _, key := range w.keys(t) {
			row := w.row(t, key)
			for part, p := range w.cfg.Tables[t].Parts {
				g := w.gradient(t, part, key, at.Scale)
				if g == nil {
					continue
				}
				for d := range g {
					if at.Clip != 0 {
						g[d] *= at.Clip
					}
				}
				lo := w.place(t, part)
				var u optim.Update = p.Rule.At(optim.Step{N: at.N, Rate: at.Rate, Samples: at.Samples, Batch: at.Batch})
				u.Apply(0, row.values[lo:lo+p.Dim], g, row.state[part])
			}
			w.tables[t][key] = row
		}
		clear(w.staged[t])
	}
	w.past = append(w.past, at)
}

// records returns all rows, values and state, by table and key.
func (w *twin) records() []map[uint64][]float32 {
	var all []map[uint64][]float32
	for _, rows := range w.tables {
		m := map[uint64][]float32{}
		for key, row := range rows {
			m[key] = append(slices.Clone(row.values), slices.Concat(row.state...)...)
		}
		all = append(all, m)
	}
	return all
}

// records returns the rows of this rank and checks each against a lookup.
func records(s *Store) []map[uint64][]float32 {
	var all []map[uint64][]float32
	for _, t := range s.tables {
		m := map[uint64][]float32{}
		for shard := range t.Shards() {
			t.Each(shard, func(key uint64, record []float32) error {
				m[key] = slices.Clone(record)
				return nil
			})
		}
		all = append(all, m)
	}
	return all
}

// merge joins the rows of all ranks and fails if two ranks have a row of the same key.
func merge(ranks [][]map[uint64][]float32) ([]map[uint64][]float32, error) {
	all := make([]map[uint64][]float32, len(ranks[0]))
	for t := range all {
		all[t] = map[uint64][]float32{}
		for _, r := range ranks {
			for key, rec := range r[t] {
				if all[t][key] != nil {
					return nil, fmt.Errorf("table %d: two ranks have key %d", t, key)
				}
				all[t][key] = rec
			}
		}
	}
	return all, nil
}

// differ returns an error that names the first row in which two sets of rows differ by more than
// the tolerance. Tolerance 0 compares bits.
func differ(got, want []map[uint64][]float32, tolerance float64) error {
	for t := range want {
		if len(got[t]) != len(want[t]) {
			return fmt.Errorf("table %d: %d rows, want %d", t, len(got[t]), len(want[t]))
		}
		for key, w := range want[t] {
			if err := near(got[t][key], w, tolerance); err != nil {
				return fmt.Errorf("table %d key %d: %w", t, key, err)
			}
		}
	}
	return nil
}

func near(got, want []float32, tolerance float64) error {
	if tolerance == 0 && bytes.Equal(raw.Bytes(got), raw.Bytes(want)) {
		return nil
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d values, want %d", len(got), len(want))
	}
	for i := range want {
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= tolerance*max(1, math.Abs(float64(want[i])))) || tolerance == 0 {
			return fmt.Errorf("got %v\nwant %v", got, want)
		}
	}
	return nil
}
