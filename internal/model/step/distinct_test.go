package step

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/trace"
)

// repeating returns a batch of the fixture's columns: one key of few in a bag of the first,
// one of many in the second, and two of few in the third.
func repeating(seed uint64, rows int) *encode.Batch {
	rng := rand.New(rand.NewPCG(seed, 5))
	b := &encode.Batch{Rows: rows, Sparse: make([]encode.Jagged, parityFeatures)}
	for f := range b.Sparse {
		b.Sparse[f].Offsets = []int32{0}
	}
	for i := range rows {
		for f, keys := range [][]uint64{{rng.Uint64N(5)}, {uint64(i)}, {rng.Uint64N(3), rng.Uint64N(3)}} {
			j := &b.Sparse[f]
			j.Values = append(j.Values, keys...)
			j.Offsets = append(j.Offsets, int32(len(j.Values)))
		}
		b.Label, b.RowID = append(b.Label, float32(rng.IntN(2))), append(b.RowID, uint64(i))
		b.Dense = append(b.Dense, rng.Float32(), rng.Float32())
	}
	return b
}

// distinctRun is one way to train by distinct rows.
type distinctRun struct {
	kind          string
	size, threads int
	half          bool
}

// config returns the configuration of the run.
func (x distinctRun) config() (*config.Config, []encode.SparseColumn) {
	c, columns := parityConfig("adagrad")
	c.Model.Kind, c.Train.Threads = x.kind, x.threads
	if x.half {
		c.Train.Precision = "bf16"
	}
	return c, columns
}

// trainedDistinct returns the dense parameters and rows of one rank after some steps, and the
// number of these steps whose first layer was computed by distinct rows.
func trainedDistinct(t *testing.T, comm *collective.Comm, x distinctRun, by bool) (values []float32, rows []byte, distinct int, err error) {
	c, columns := x.config()
	tr, err := NewTrainer(comm, trace.New(0), c, layout.New(c, columns, []string{"d0", "d1"}), Tables{})
	if err != nil {
		return nil, nil, 0, err
	}
	defer tr.Close()
	tr.model.chunk = 16
	if !by {
		tr.model.distinct.layer = nil
	}
	for n := range 40 {
		if _, err := tr.Step(coming(int64(n+1), repeating(uint64(n*comm.Size()+comm.Rank()), 60), nil)); err != nil {
			return nil, nil, 0, err
		}
		if tr.model.distinct.on {
			distinct++
		}
	}
	var out bytes.Buffer
	store := tr.model.store
	for _, s := range store.Files().Sections() {
		if err := store.Files().SaveShard(&out, s.Table, s.Shard); err != nil {
			return nil, nil, 0, err
		}
	}
	return append([]float32(nil), tr.model.arena.Values()...), out.Bytes(), distinct, nil
}

// distance returns the largest difference between a number of x and its counterpart in y, and the root
// of the mean square of the differences.
func distance(x, y []float32) (most, rms float64) {
	for i, v := range x {
		d := math.Abs(float64(v) - float64(y[i]))
		most, rms = max(most, d), rms+d*d
	}
	return most, math.Sqrt(rms / float64(len(x)))
}

// TestDistinctRowsTrainTheSame: with the first layer computed by distinct rows, training
// gives the model of computing by samples, except for rounding, and repeats bit for bit: on
// one rank and on two, and with threads.
func TestDistinctRowsTrainTheSame(t *testing.T) {
	for _, x := range []distinctRun{
		{"wide_deep", 1, 1, false}, {"wide_deep", 2, 1, false}, {"wide_deep", 1, 2, false}, {"wide_deep", 1, 5, false},
		{"wide_deep", 2, 3, false}, {"wide_deep", 1, 1, true}, {"wide_deep", 2, 3, true},
		{"deepfm", 1, 1, false}, {"deepfm", 1, 3, false}, {"deepfm", 2, 2, false}, {"deepfm", 1, 2, true},
	} {
		if x.half && !f32.TilesBF16() {
			continue
		}
		onRanks(t, x.size, func(comm *collective.Comm) error {
			want, _, none, err := trainedDistinct(t, comm, x, false)
			if err != nil {
				return err
			}
			got, rows, steps, err := trainedDistinct(t, comm, x, true)
			if err != nil {
				return err
			}
			again, sameRows, _, err := trainedDistinct(t, comm, x, true)
			if err != nil {
				return err
			}
			if steps != 40 || none != 0 {
				t.Errorf("%+v: %d of 40 steps went by distinct rows, %d where none should", x, steps, none)
			}
			near, nearRMS := 1e-4, 1e-4
			if x.half {
				// Errors of bfloat16 grow over the steps with either method. The two may differ by as
				// much as one of them differs from float32, in the maximum and in the mean.
				whole := x
				whole.half = false
				exact, _, _, err := trainedDistinct(t, comm, whole, false)
				if err != nil {
					return err
				}
				near, nearRMS = distance(want, exact)
			}
			if most, rms := distance(got, want); most > near || rms > nearRMS {
				t.Fatalf("%+v: parameters differ by up to %v and on average by %v from those by samples, at most %v and %v are allowed", x, most, rms, near, nearRMS)
			}
			if !slices.Equal(got, again) {
				t.Fatalf("%+v: parameters have other bits in another run", x)
			}
			if !bytes.Equal(rows, sameRows) {
				t.Errorf("%+v: rows have other bits in another run", x)
			}
			return nil
		})
	}
}

// TestDistinctRowsAllocateNothing: a step allocates nothing in the steady state.
func TestDistinctRowsAllocateNothing(t *testing.T) {
	for i := range 12 {
		x := distinctRun{kind: []string{"wide_deep", "deepfm"}[i/6], threads: 1 + i%3, half: i/3%2 > 0}
		if x.half && !f32.TilesBF16() {
			continue
		}
		c, columns := x.config()
		tr, err := NewTrainer(single(), trace.New(16), c, layout.New(c, columns, []string{"d0", "d1"}), Tables{})
		fatal.If(t, err)
		defer tr.Close()
		next := coming(0, repeating(1, 60), nil)
		step := func() {
			next.N++
			if _, err := tr.Step(next); err != nil {
				t.Fatal(err)
			}
		}
		step()
		if allocs := testing.AllocsPerRun(20, step); allocs != 0 {
			t.Errorf("%+v: %v allocations a step", x, allocs)
		}
	}
}
