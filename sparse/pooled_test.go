package sparse

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// pooledRun is train with every feature pooled by the owners.
func (j *jobStep) pooledRun(s *Store, p *Pooled) error {
	bags := j.bags[s.rank]
	if err := s.PullPooled(p, bags, true); err != nil {
		return err
	}
	var dy [][]float32
	for f, b := range bags {
		width := s.tables[b.Table].Width()
		g := make([]float32, (len(b.Offsets)-1)*width)
		for part := range s.cfg.Tables[b.Table].Parts {
			lo, hi := s.tables[b.Table].Part(part)
			for i := range len(b.Offsets) - 1 {
				copy(g[i*width+lo:i*width+hi], j.dy[s.rank][f][part][i*(hi-lo):])
			}
		}
		dy = append(dy, g)
	}
	if err := s.PushPooled(p, dy); err != nil {
		return err
	}
	return s.Apply(j.at)
}

func TestOwnersPoolLikeReaders(t *testing.T) {
	for size := 1; size <= 3; size++ {
		rapid.Check(t, func(rt *rapid.T) {
			j := drawJob(rt, size)
			clear(j.cfg.Wire)
			want := j.onTwin()
			rows := make([][]map[uint64][]float32, size)
			onRanks(t, size, j.cfg, func(s *Store) error {
				p := s.NewPooled()
				for i := range j.steps {
					if err := j.steps[i].pooledRun(s, p); err != nil {
						return err
					}
					for f, b := range j.steps[i].bags[s.rank] {
						for part := range s.cfg.Tables[b.Table].Parts {
							lo, hi := s.tables[b.Table].Part(part)
							var got []float32
							for v := p.Values(f); len(v) > 0; v = v[s.tables[b.Table].Width():] {
								got = append(got, v[lo:hi]...)
							}
							if err := near(got, want.pooled[i][s.rank][f][part], 1e-3); err != nil {
								return fmt.Errorf("step %d feature %d part %d: %w", i, f, part, err)
							}
						}
					}
				}
				rows[s.rank] = records(s)
				return nil
			})
			got, err := merge(rows)
			if err != nil {
				rt.Fatal(err)
			}
			if err := differ(got, want.rows, 1e-2); err != nil {
				rt.Fatal(err)
			}
		})
	}
}

// TestLongBagsCostLessPooled counts both ways of one batch of long bags, and holds
// what Compare expects against what is sent.
func TestLongBagsCostLessPooled(t *testing.T) {
	cfg := plainConfig(16)
	onRanks(t, 2, cfg, func(s *Store) error {
		rng := rand.New(rand.NewPCG(uint64(s.rank), 1))
		for _, long := range []bool{true, false} {
			b := Bags{Offsets: []int32{0}}
			for range 40 {
				n := 1
				if long {
					n = 100
				}
				for range n {
					b.Values = append(b.Values, rng.Uint64N(100_000))
				}
				b.Offsets = append(b.Offsets, int32(len(b.Values)))
			}
			l, p := s.NewLookup(), s.NewPooled()
			c0 := s.Counters()
			if err := errors.Join(s.Pull(l, []Bags{b}, true), s.Push(l)); err != nil {
				return err
			}
			c1 := s.Counters()
			if err := errors.Join(s.PullPooled(p, []Bags{b}, true), s.PushPooled(p, [][]float32{make([]float32, 40*16)})); err != nil {
				return err
			}
			c2 := s.Counters()
			asked := func(a, b Counters) int64 { // this rank's part: what it asked, got and pushed
				return b.KeyBytesSent - a.KeyBytesSent + b.RowBytesReceived - a.RowBytesReceived + b.GradBytesSent - a.GradBytesSent
			}
			unique, pooled := asked(c0, c1), asked(c1, c2)
			if long != (pooled < unique) {
				return fmt.Errorf("long bags %t: %d bytes as rows, %d pooled", long, unique, pooled)
			}
			u, q := l.Compare()
			if u != unique || float64(q) < 0.8*float64(pooled) || float64(q) > 1.25*float64(pooled) {
				return fmt.Errorf("long bags %t: Compare expects %d and %d bytes, %d and %d are sent", long, u, q, unique, pooled)
			}
			if err := s.Apply(Step{N: 1, Scale: 1, Rate: 1}); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestPooledOutOfOrderIsNamed(t *testing.T) {
	s := open(t, plainConfig(1))
	p, l := s.NewPooled(), s.NewLookup()
	for want, call := range map[string]func() error{
		"nothing has been pulled to train": func() error { return s.PushPooled(s.NewPooled(), nil) },
		"table 9: there are 1":             func() error { return s.PullPooled(p, []Bags{{Table: 9}}, true) },
		"was reset after the pull": func() error {
			return errors.Join(s.PullPooled(p, nil, true), s.Reset(), s.PushPooled(p, nil))
		},
		"is prepared: Complete it first": func() error {
			defer func() { s.Complete(l) }()
			return errors.Join(s.Prepare(l, nil, true), s.PullPooled(p, nil, true))
		},
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// FuzzPooledRequest lets a peer ask for any bags: they are refused, or every key
// is in one.
func FuzzPooledRequest(f *testing.F) {
	s, err := Open(Local{}, plainConfig(1))
	if err != nil {
		f.Fatal(err)
	}
	p := s.NewPooled()
	f.Add(uint8(4), uint8(2), []byte{16: 1, 24: 0, 28: 2, 32: 1, 36: 1, 39: 0})
	f.Add(uint8(2), uint8(0), []byte{0: 0, 4: 200, 7: 0})
	f.Fuzz(func(t *testing.T, counts, keys uint8, b []byte) {
		n := streamBytes(int(counts), int(keys))
		part := bytesOf(make([]uint64, n/8))
		copy(part, b)
		p.heard[2], p.heard[3] = int64(counts), int64(keys)
		if p.takeAsked(0, part) != nil {
			return
		}
		end := 0
		each(p.asked[0].counts, func(_, table, _, lo, hi int) {
			if table != 0 || lo != end || hi <= lo {
				t.Fatalf("table %d, keys %d to %d behind %d", table, lo, hi, end)
			}
			end = hi
		})
		if end != int(keys) {
			t.Fatalf("%d of %d keys are in bags", end, keys)
		}
	})
}

func TestPoolingByOwnersAllocatesNothing(t *testing.T) {
	s := open(t, steadyConfig())
	bags := steadyBags(16)
	p, n := s.NewPooled(), int64(0)
	dy := make([][]float32, len(bags))
	for f := range dy {
		dy[f] = make([]float32, 16*s.tables[bags[f].Table].Width())
	}
	step := func() {
		n++
		if err := errors.Join(s.PullPooled(p, bags, true), s.PushPooled(p, dy), s.Apply(Step{N: n, Scale: 1, Rate: 1})); err != nil {
			t.Fatal(err)
		}
	}
	step()
	step()
	if n := testing.AllocsPerRun(20, step); n != 0 {
		t.Fatalf("%v allocations in a step", n)
	}
}
