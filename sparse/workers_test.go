package sparse

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// atOnce calls f for n workers, each on its own goroutine.
func atOnce(n int) func(f func(i int)) {
	return func(f func(i int)) {
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { f(i) })
		}
		all.Wait()
	}
}

// TestWorkersShareTables: every row has the same bits for any number of workers, even for more
// workers than tables.
func TestWorkersShareTables(t *testing.T) {
	var want []map[uint64][]float32
	for _, n := range []int{1, 2, 3, 5} {
		cfg := steadyConfig()
		cfg.Tables[1].Strategy = Pooled
		s := open(t, cfg)
		s.Share(n, atOnce(n))
		l, next := s.NewLookup(), s.NewLookup()
		rng, x := rand.New(rand.NewPCG(1, 2)), make([]float32, 50*8)
		for step := range int64(6) {
			if step == 0 {
				fatal.If(t, s.Pipeline().Prepare(l, steadyBags(50), true))
			}
			fatal.If(t, s.Pipeline().Complete(l))
			fatal.If(t, s.Pipeline().Prepare(next, steadyBags(50-int(step)), true))
			for f := range 26 {
				for i := range x {
					x[i] = rng.Float32()
				}
				l.PoolGrad(f, 0, x, 8)
			}
			fatal.If(t, errors.Join(s.Push(l), s.Apply(Step{N: step + 1, Scale: 1, Rate: 1})))
			l, next = next, l
		}
		got := records(s)
		if n == 1 {
			want = got
		} else if err := differ(got, want, 0); err != nil {
			t.Errorf("%d workers: %v", n, err)
		}
		if c := s.Counters(); c.StepsOfRows == 0 || c.RowsInserted == 0 {
			t.Errorf("%d workers: %+v", n, c)
		}
	}
}

// TestWorkersReportAGradient: a gradient that is not a number is reported, whichever worker has
// its table, and no row changes.
func TestWorkersReportAGradient(t *testing.T) {
	s := open(t, steadyConfig())
	s.Share(2, atOnce(2))
	step := steadyStep(t, s, 20)
	step()
	l, before := s.NewLookup(), records(s)
	fatal.If(t, s.Pull(l, steadyBags(20), true))
	x := make([]float32, 20*8)
	x[3] /= x[4]
	l.PoolGrad(1, 0, x, 8)
	err := errors.Join(s.Push(l), s.Apply(Step{N: 2, Scale: 1, Rate: 1}))
	if bad := new(nonFiniteError); !errors.As(err, &bad) || bad.Table != "b" {
		t.Errorf("error %v, want one that names table b", err)
	}
	if err := differ(records(s), before, 0); err != nil {
		t.Error(err)
	}
}
