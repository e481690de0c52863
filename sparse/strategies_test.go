package sparse_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/simnet"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse"
)

// poolTime returns the modelled time of a step of 8 ranks that only exchange, each 32 bags of
// 200 keys of dim 16, drawn evenly from ten million.
func poolTime(t *testing.T, how sparse.Strategy, gigabits float64) (took time.Duration) {
	const size = 8
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		errs := make([]error, size)
		for r, tr := range simnet.New(size, 1, simnet.Model{Latency: 20 * time.Microsecond, BytesPerSecond: gigabits * 1e9 / 8}) {
			wg.Go(func() {
				c := collective.New(tr)
				d, err := poolSteps(c, how)
				if errs[r] = err; err != nil {
					c.Abort(err)
				}
				if r == 0 {
					took = d
				}
			})
		}
		wg.Wait()
		fatal.If(t, errors.Join(errs...))
	})
	return took
}

func poolSteps(c *collective.Comm, how sparse.Strategy) (time.Duration, error) {
	const warm, steps = 3, 4
	s, err := sparse.Open(c, sparse.Config{Tables: []sparse.Table{{Name: "x", Strategy: how, Parts: []sparse.Part{
		{Name: "deep", Dim: 16, Rule: optim.Rule{Kind: "adagrad"}, Init: sparse.Init{Kind: "zero"}}}}}})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	rng := rand.New(rand.NewPCG(uint64(c.Rank()), 1))
	l, begin := s.NewLookup(), time.Now()
	for n := range warm + steps {
		if n == warm {
			begin = time.Now()
		}
		b := sparse.Bags{Offsets: []int32{0}}
		for range 32 {
			for range 200 {
				b.Values = append(b.Values, rng.Uint64N(10_000_000))
			}
			b.Offsets = append(b.Offsets, int32(len(b.Values)))
		}
		if err := errors.Join(s.Pull(l, []sparse.Bags{b}, true), s.Push(l), s.Apply(sparse.Step{N: int64(n + 1), Scale: 1, Rate: 1})); err != nil {
			return 0, err
		}
	}
	return time.Since(begin) / steps, nil
}

// TestPooledSavesTime: owner-side pooling saves most of the exchange of long bags of rare keys on
// a slow network, and some of it on a fast one. Modelled times vary by a few percent with the
// order of messages.
func TestPooledSavesTime(t *testing.T) {
	for gigabits, least := range map[float64]float64{1: 0.6, 10: 0.05} {
		rows, pooled := poolTime(t, sparse.Rows, gigabits), poolTime(t, sparse.Pooled, gigabits)
		if saved := 1 - float64(pooled)/float64(rows); saved < least {
			t.Errorf("%v Gbit/s: rows %v, pooled %v: saved %.0f %%, want at least %.0f %%", gigabits, rows, pooled, 100*saved, 100*least)
		}
	}
}
