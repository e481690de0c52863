package sparse

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

// steadyBags returns the bags of 26 features in 3 tables.
func steadyBags(batch int) (bags []Bags) {
	rng := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(rng, 1.2, 1, 1<<20)
	for f := range 26 {
		b := Bags{Table: f % 3, Offsets: make([]int32, 1, batch+1), Pooling: Pooling(f % 3)}
		for range batch {
			for range 1 + f%2 {
				b.Values = append(b.Values, zipf.Uint64())
			}
			b.Offsets = append(b.Offsets, int32(len(b.Values)))
		}
		bags = append(bags, b)
	}
	return bags
}

// steadyStep returns one training step over 26 features in 3 tables.
func steadyStep(tb testing.TB, s *Store, batch int) func() {
	tb.Helper()
	bags := steadyBags(batch)
	l, dst := s.NewLookup(), make([]float32, batch*8)
	n := int64(0)
	return func() {
		n++
		fatal.If(tb, s.Pull(l, bags, true))
		for f := range bags {
			l.Pool(f, 0, dst, 8, false)
			l.PoolGrad(f, 0, dst, 8)
			l.Pool(f, 1, dst, 8, true)
			l.PoolGrad(f, 1, dst, 8)
		}
		fatal.If(tb, s.Push(l))
		s.GradNormSq(0.1)
		fatal.If(tb, s.Apply(Step{N: n, Scale: 0.1, Rate: 1, Clip: 0.5}))
	}
}

func steadyConfig() Config {
	cfg := Config{Shards: 64}
	for i, name := range []string{"a", "b", "c"} {
		cfg.Tables = append(cfg.Tables, Table{Name: name, Parts: []Part{
			{Name: "deep", Dim: 8, Rule: optim.Rule{Kind: []string{"adam", "adagrad", "rowwise_adagrad"}[i]}, L2: 0.01, DenseL2: i == 1},
			{Name: "wide", Dim: 1, Rule: optim.Rule{Kind: "ftrl"}},
		}})
	}
	return cfg
}

// TestSteadyStateAllocatesNothing: after the first steps, a step on one rank allocates no
// memory.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	step := steadyStep(t, open(t, steadyConfig()), 64)
	step()
	if n := testing.AllocsPerRun(20, step); n != 0 {
		t.Fatalf("%v allocations in a step", n)
	}
}

// TestStrategiesAllocateNothing counts the allocations of two ranks in a hundred steps. A few
// are allowed, because the runtime allocates too.
func TestStrategiesAllocateNothing(t *testing.T) {
	for _, how := range []Strategy{Rows, Pooled} {
		cfg := steadyConfig()
		cfg.Tables[1].Parts[0].DenseL2 = false
		for i := range cfg.Tables {
			cfg.Tables[i].Strategy = how
		}
		onRanks(t, 2, cfg, func(s *Store) error {
			l, bags, n := s.NewLookup(), steadyBags(64), int64(0)
			steps := func(count int) (err error) {
				for range count {
					n++
					err = errors.Join(err, s.Pull(l, bags, true), s.Push(l), s.Apply(Step{N: n, Scale: 1, Rate: 1}))
				}
				return err
			}
			err := steps(10)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err = errors.Join(err, steps(100))
			runtime.ReadMemStats(&after)
			if n := after.Mallocs - before.Mallocs; n >= 50 {
				err = errors.Join(err, fmt.Errorf("%v: %d allocations in 100 steps", how, n))
			}
			return err
		})
	}
}

func BenchmarkStep(b *testing.B) {
	const batch = 1024
	s := open(b, steadyConfig())
	step := steadyStep(b, s, batch)
	step()
	for b.Loop() {
		step()
	}
	c := s.Counters()
	b.ReportMetric(float64(c.KeysPulled)/b.Elapsed().Seconds()/1e6, "Mkeys/s")
	b.ReportMetric(float64(c.StepsOfRows)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}
