package sparse_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/simnet"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse"
)

// stepTime returns the modelled time of a step of 4 ranks on a network of 10 Gbit/s. Each rank
// has 8192 keys of dim 16, drawn by Zipf(1.05) from 30,000 keys, and computes for the given
// time. The arithmetic of the store takes no modelled time.
func stepTime(t *testing.T, compute time.Duration, how string) (d spans) {
	const size, warm, steps = 4, 9, 4
	synctest.Test(t, func(t *testing.T) {
		net := simnet.Model{Latency: 20 * time.Microsecond, BytesPerSecond: 1.25e9}
		var wg sync.WaitGroup
		errs, took := make([]error, size), make([]spans, size)
		for r, tr := range simnet.New(size, 2, net) {
			wg.Go(func() {
				c := collective.New(tr)
				if took[r], errs[r] = simulate(c, compute, how, warm, steps); errs[r] != nil {
					c.Abort(errs[r])
				}
			})
		}
		wg.Wait()
		fatal.If(t, errors.Join(errs...))
		d = took[0]
	})
	return d
}

// spans contains the time of a step and the parts of it spent waiting for the exchange: for rows
// when the previous batch has been applied, and for gradients.
type spans struct{ step, rows, grads time.Duration }

func simulate(c *collective.Comm, compute time.Duration, how string, warm, steps int) (took spans, err error) {
	s, err := sparse.Open(c, sparse.Config{Tables: []sparse.Table{{
		Name: "x", Parts: []sparse.Part{{Name: "deep", Dim: 16, Rule: optim.Rule{Kind: "adagrad"}, Init: sparse.Init{Kind: "zero"}}},
	}}})
	if err != nil {
		return took, err
	}
	defer s.Close()
	if how != "pull" {
		if err := s.Pipeline().Start(c.Channel(1)); err != nil {
			return took, err
		}
	}
	zipf := rand.NewZipf(rand.New(rand.NewPCG(uint64(c.Rank()), 1)), 1.05, 1, 30_000)
	draw := func() []sparse.Bags {
		b := sparse.Bags{Offsets: []int32{0}}
		for range 8192 {
			b.Values = append(b.Values, zipf.Uint64())
			b.Offsets = append(b.Offsets, int32(len(b.Values)))
		}
		return []sparse.Bags{b}
	}
	now, next := s.NewLookup(), s.NewLookup()
	bring := func(l *sparse.Lookup, bags []sparse.Bags) error { return s.Pull(l, bags, true) }
	if how != "pull" {
		bring = func(l *sparse.Lookup, bags []sparse.Bags) error { return s.Pipeline().Prepare(l, bags, true) }
		if err := bring(now, draw()); err != nil {
			return took, err
		}
	}
	var begin time.Time
	for n := range warm + steps {
		if n == warm {
			begin, took = time.Now(), spans{}
		}
		at := time.Now()
		if how == "pull" {
			err = bring(now, draw())
		} else {
			err = s.Pipeline().Complete(now)
		}
		took.rows += time.Since(at)
		if how != "pull" && err == nil {
			err = bring(next, draw())
		}
		time.Sleep(compute)
		at = time.Now()
		err = errors.Join(err, s.Push(now))
		took.grads += time.Since(at)
		if err := errors.Join(err, s.Apply(sparse.Step{N: int64(n + 1), Scale: 1, Rate: 1})); err != nil {
			return took, err
		}
		if how != "pull" {
			now, next = next, now
		}
	}
	n := time.Duration(steps)
	return spans{time.Since(begin) / n, took.rows / n, took.grads / n}, nil
}

// TestExchangeHides records how much of the exchange is hidden behind the computation. Not
// hidden are the gradients and the rows that two successive batches share.
func TestExchangeHides(t *testing.T) {
	exchange := stepTime(t, 0, "pull").step
	var b strings.Builder
	fmt.Fprintf(&b, "exchange alone %v\n", exchange.Round(time.Microsecond))
	for _, share := range []float64{0.5, 1, 2, 4} {
		compute := time.Duration(share * float64(exchange))
		of := func(d, bound time.Duration) float64 { return float64(d) / float64(bound) }
		pull, ahead := stepTime(t, compute, "pull"), stepTime(t, compute, "ahead")
		bound := max(compute, exchange)
		fmt.Fprintf(&b, "compute %.1f of it: step %.2f of the larger with Pull, %.2f ahead; ahead leaves gradients %.2f of the exchange, rows %.2f\n",
			share, of(pull.step, bound), of(ahead.step, bound), of(ahead.grads, exchange), of(ahead.rows, exchange))
	}
	golden.Check(t, "hidden.txt", b.String())
}
