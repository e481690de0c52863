package sparse

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// pooledBy sets the strategy of all tables of a job to Pooled.
func (j *job) pooledBy() *job {
	for i := range j.cfg.Tables {
		j.cfg.Tables[i].Strategy, j.cfg.Tables[i].Wire = Pooled, Wire{}
	}
	return j
}

// TestOwnersPoolLikeReaders: random jobs with strategy Pooled agree with the twin. On one rank
// they have its bits.
func TestOwnersPoolLikeReaders(t *testing.T) {
	for size := 1; size <= 3; size++ {
		rapid.Check(t, func(rt *rapid.T) {
			j := drawJob(rt, size).pooledBy()
			tolerance := 1e-2
			if size == 1 {
				tolerance = 0
			}
			fatal.If(rt, j.onStores(t, size).compare(j.onTwin(), tolerance))
		})
	}
}

// TestShortBagsPooledToTheBit: the sum of two keys of a bag does not depend on their order, and
// gradients are summed by key and rank as with strategy Rows, so the bits are the same.
func TestShortBagsPooledToTheBit(t *testing.T) {
	for size := 2; size <= 3; size++ {
		rapid.Check(t, func(rt *rapid.T) {
			j := drawJob(rt, size).pooledBy()
			for i := range j.steps {
				for _, bags := range j.steps[i].bags {
					for f := range bags {
						shorten(&bags[f])
					}
				}
			}
			fatal.If(rt, j.onStores(t, size).compare(j.onTwin(), 0))
		})
	}
}

// shorten keeps at most two keys of each bag.
func shorten(b *Bags) {
	short := Bags{Table: b.Table, Pooling: b.Pooling, Offsets: []int32{0}}
	for i := range len(b.Offsets) - 1 {
		lo, hi := b.Offsets[i], min(b.Offsets[i]+2, b.Offsets[i+1])
		short.Values = append(short.Values, b.Values[lo:hi]...)
		if b.Weights != nil {
			short.Weights = append(short.Weights, b.Weights[lo:hi]...)
		}
		short.Offsets = append(short.Offsets, int32(len(short.Values)))
	}
	if b.Weights != nil && short.Weights == nil {
		short.Weights = []float32{}
	}
	*b = short
}

// TestLongBagsCostLessPooled counts the bytes of a batch of long bags with the strategies Rows
// and Pooled, and compares them with the estimate of Bytes.
func TestLongBagsCostLessPooled(t *testing.T) {
	const size, bags = 2, 400
	for _, n := range []int{1, 100} {
		var sent [2]int64
		var demand Demand
		for i, how := range []Strategy{Rows, Pooled} {
			cfg := plainConfig(16)
			cfg.Tables[0].Strategy = how
			of, ds := make([]int64, size), make([]Demand, size)
			onRanks(t, size, cfg, func(s *Store) error {
				rng := rand.New(rand.NewPCG(uint64(s.rank), 1))
				b := Bags{Offsets: []int32{0}}
				for range bags {
					for range n {
						b.Values = append(b.Values, rng.Uint64N(100_000))
					}
					b.Offsets = append(b.Offsets, int32(len(b.Values)))
				}
				l := s.NewLookup()
				if err := errors.Join(s.Pull(l, []Bags{b}, true), s.Push(l), s.Apply(Step{N: 1, Scale: 1, Rate: 1})); err != nil {
					return err
				}
				c := s.Counters()
				of[s.rank] = c.KeyBytesSent + c.RowBytesSent + c.GradBytesSent
				ds[s.rank] = Demand{Values: int64(len(b.Values)), Bags: bags, Unique: c.UniqueKeys}
				if n > 1 {
					ds[s.rank].Sums = bags // each bag has keys of both ranks
				} else {
					ds[s.rank].Sums = bags / size
				}
				return nil
			})
			for r := range size {
				sent[i] += of[r]
				if how == Rows {
					demand.Values, demand.Bags = demand.Values+ds[r].Values, demand.Bags+ds[r].Bags
					demand.Sums, demand.Unique = demand.Sums+ds[r].Sums, demand.Unique+ds[r].Unique
				}
			}
			demand.Steps = 1
			expected := how.Bytes(demand, cfg.Tables[0], size)
			if x := float64(expected) / float64(sent[i]); x < 0.85 || x > 1.15 {
				t.Errorf("bags of %d, %v: %d bytes estimated, %d sent", n, how, expected, sent[i])
			}
		}
		if (n > 1) != (sent[1] < sent[0]) {
			t.Errorf("bags of %d: %d bytes as rows, %d pooled", n, sent[0], sent[1])
		}
		want := Rows
		if n > 1 {
			want = Pooled
		}
		if got := Choose(demand, plainConfig(16).Tables[0], size); got != want {
			t.Errorf("bags of %d: strategy %v is chosen", n, got)
		}
	}
}

// FuzzPooledRequest lets a peer request arbitrary bags. They must be rejected, or every key must
// be in a bag.
func FuzzPooledRequest(f *testing.F) {
	cfg := plainConfig(1)
	cfg.Tables[0].Strategy = Pooled
	s, err := Open(Local{}, cfg)
	fatal.If(f, err)
	p := s.NewLookup().bagged
	f.Add(uint8(4), uint8(2), []byte{16: 1, 24: 0, 28: 2, 32: 1, 36: 1, 39: 0})
	f.Add(uint8(2), uint8(0), []byte{0: 0, 4: 200, 7: 0})
	f.Fuzz(func(t *testing.T, counts, keys uint8, b []byte) {
		n := streamBytes(int(counts), int(keys))
		part := bytesOf(make([]uint64, n/8))
		copy(part, b)
		if p.readAnnouncement(0, []int64{int64(counts), int64(keys)}) != nil || p.receiveRequest(0, part) != nil {
			return
		}
		end := 0
		each(p.asked[0].counts, func(_, table, _, lo, hi int) {
			if table != 0 || lo != end || hi <= lo {
				t.Fatalf("table %d, keys %d to %d after %d", table, lo, hi, end)
			}
			end = hi
		})
		if end != int(keys) {
			t.Fatalf("%d of %d keys are in bags", end, keys)
		}
	})
}

// TestPooledSlots stages the gradients of pooled bags by slot. In every other step no slot of
// rank 1 counts, and the result is as if rank 1 had no bags.
func TestPooledSlots(t *testing.T) {
	const size, steps = 3, 4
	run := func(slots bool) []map[uint64][]float32 {
		cfg := plainConfig(2)
		cfg.Tables[0].Strategy = Pooled
		rows := make([][]map[uint64][]float32, size)
		onRanks(t, size, cfg, func(s *Store) error {
			l := s.NewLookup()
			for n := range int64(steps) {
				silent := s.rank == 1 && n%2 == 1
				bags := oneBag(1, 2, uint64(100*n+10*int64(s.rank)+3), 2)
				if silent && !slots {
					bags = nil
				}
				if err := s.Pull(l, bags, true); err != nil {
					return err
				}
				if len(bags) > 0 {
					l.PoolGrad(0, 0, []float32{1.25, 0.1 * float32(s.rank+1)}, 2)
				}
				var err error
				switch {
				case !slots:
					err = s.Push(l)
				case silent:
					err = s.Slots().PushNone(l)
				default:
					err = s.Slots().Push(l, s.rank)
				}
				if err == nil && slots {
					err = s.Slots().Commit([][]int{{0, 1, 2}, {0, 2}}[n%2])
				}
				if err = errors.Join(err, s.Apply(Step{N: n + 1, Scale: 1, Rate: 1})); err != nil {
					return err
				}
			}
			rows[s.rank] = records(s)
			return nil
		})
		all, err := merge(rows)
		fatal.If(t, err)
		return all
	}
	want := run(false)
	if len(want[0]) != 2+size*steps-steps/2 {
		t.Fatalf("%d rows", len(want[0]))
	}
	fatal.If(t, differ(run(true), want, 0))
}

// TestPoolingByOwnersAllocatesNothing: after the first steps, a step with strategy Pooled
// allocates no memory.
func TestPoolingByOwnersAllocatesNothing(t *testing.T) {
	cfg := steadyConfig()
	cfg.Tables[0].Strategy, cfg.Tables[0].Wire = Pooled, Wire{}
	s := open(t, cfg)
	bags := steadyBags(16)
	l, n := s.NewLookup(), int64(0)
	step := func() {
		n++
		fatal.If(t, errors.Join(s.Pull(l, bags, true), s.Push(l), s.Apply(Step{N: n, Scale: 1, Rate: 1})))
	}
	step()
	step()
	if n := testing.AllocsPerRun(20, step); n != 0 {
		t.Fatalf("%v allocations in a step", n)
	}
}

// TestStrategiesAreRefused: a table rejects a strategy that it cannot use, with the reason.
func TestStrategiesAreRefused(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"strategy 7 is not one of":        func(c *Config) { c.Tables[0].Strategy = 7 },
		"pooled table sends sums as fp32": func(c *Config) { c.Tables[0].Strategy, c.Tables[0].Wire = Pooled, Wire{Rows: BF16} },
	} {
		c := plainConfig(1)
		change(&c)
		if err := c.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
