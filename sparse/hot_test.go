package sparse

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/optim"
)

// zipfJob is a job of Zipf(1.2) keys in two tables, with gradients of its own for
// every rank.
func zipfJob(ranks, steps int) *job {
	j := fixedJob(optim.Rule{Kind: "adam"}, false, ranks, 0)
	for i := range j.cfg.Tables {
		if t := &j.cfg.Tables[i]; t.Name == "user" {
			t.Wire = Wire{Rows: BF16, Gradients: BF16}
		}
	}
	for n := range steps {
		step := jobStep{at: Step{N: int64(n + 1), Scale: 0.1, Rate: 1, Clip: 0.5}}
		for r := range ranks {
			rng := rand.New(rand.NewPCG(uint64(n), uint64(r)))
			zipf := rand.NewZipf(rng, 1.2, 1, 1<<20)
			a, b := zipfBags(zipf, 24)[0], zipfBags(zipf, 24)[0]
			b.Table = 1
			grad := func(n int) []float32 {
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(rng.NormFloat64())
				}
				return x
			}
			step.bags = append(step.bags, []Bags{a, b})
			step.dy = append(step.dy, [][][]float32{{grad(24 * 4), grad(24)}, {grad(24 * 3)}})
		}
		j.steps = append(j.steps, step)
	}
	return j
}

// withHot runs the job and chooses hot keys anew after every given number of
// steps, preparing batches ahead in between or not.
func (j *job) withHot(t *testing.T, size, every int, ahead bool) (out outcome, chosen int, counters []Counters) {
	t.Helper()
	norms, rows := make([][]float64, size), make([][]map[uint64][]float32, size)
	counters = make([]Counters, size)
	for range j.steps {
		out.pooled = append(out.pooled, make([][][][]float32, size))
	}
	out.norms = make([]float64, len(j.steps))
	beside := newGroup(size)
	onRanks(t, size, j.cfg, func(s *Store) error {
		defer s.Close()
		if err := s.Ahead(member{beside, s.rank}); err != nil {
			return err
		}
		l := s.NewLookup()
		for i := range j.steps {
			var err error
			if ahead {
				err = errors.Join(s.Prepare(l, j.steps[i].bags[s.rank], true), s.Complete(l))
			} else {
				err = s.Pull(l, j.steps[i].bags[s.rank], true)
			}
			if err != nil {
				return err
			}
			pooled, norm, err := j.steps[i].train(s, l)
			if err != nil {
				return err
			}
			out.pooled[i][s.rank] = pooled
			norms[s.rank] = append(norms[s.rank], norm)
			if (i+1)%every == 0 {
				n, err := s.ChooseHot()
				if err != nil {
					return err
				}
				if s.rank == 0 {
					chosen = max(chosen, n)
				}
			}
		}
		rows[s.rank], counters[s.rank] = owned(s), s.Counters()
		return nil
	})
	for _, of := range norms {
		for i, x := range of {
			out.norms[i] += x
		}
	}
	var err error
	if out.rows, err = merge(rows); err != nil {
		t.Fatal(err)
	}
	return out, chosen, counters
}

// TestReplicatedGivesTheSameBits replicates one table, or both, or one beside hot
// keys of the other.
func TestReplicatedGivesTheSameBits(t *testing.T) {
	for _, size := range []int{1, 2, 3} {
		j := zipfJob(size, 60)
		want := j.onTwin()
		for _, how := range []map[string]Strategy{
			{"item": Replicated}, {"user": Replicated}, {"item": Replicated, "user": Replicated}, {"item": Pooled, "user": Replicated},
		} {
			for i := range j.cfg.Tables {
				t := &j.cfg.Tables[i]
				t.Strategy = how[t.Name]
			}
			j.cfg.HotKeys = 0
			if len(how) == 1 {
				j.cfg.HotKeys = 20
			}
			got, chosen, _ := j.withHot(t, size, 10, true)
			if err := got.compare(want, 0); err != nil {
				t.Fatalf("P=%d %v: %v", size, how, err)
			}
			rows := len(want.rows[1])
			if _, both := how["item"]; !both && size > 1 && (chosen < rows/2 || chosen > rows+20) {
				t.Errorf("P=%d %v: %d rows are on every rank, user has %d", size, how, chosen, rows)
			}
		}
	}
}

// TestReplicatedBytes holds what Bytes expects against what is sent when every
// row is a replica, and that reading sends nothing but counts.
func TestReplicatedBytes(t *testing.T) {
	const size, rows, steps = 3, 200, 4
	cfg := plainConfig(4)
	cfg.Tables[0].Strategy = Replicated
	var sent, counts int64
	all := make([]Counters, size)
	onRanks(t, size, cfg, func(s *Store) error {
		l := s.NewLookup()
		var keys []uint64
		for i := range uint64(rows) {
			keys = append(keys, i)
		}
		step := func(n int64, keys []uint64) error {
			return errors.Join(s.Pull(l, oneBag(keys...), true), s.Push(l), s.Apply(Step{N: n, Scale: 1, Rate: 1}))
		}
		err := step(1, keys)
		_, chosen := s.ChooseHot()
		was := s.Counters()
		for n := range int64(steps) {
			err = errors.Join(err, step(n+2, keys[:100+10*s.rank]))
		}
		now := s.Counters()
		if now.RowBytesSent != was.RowBytesSent || now.KeyBytesSent != was.KeyBytesSent || now.GradBytesSent != was.GradBytesSent {
			return fmt.Errorf("replicated rows travelled: %+v, before %+v", now, was)
		}
		all[s.rank] = Counters{HotBytesSent: now.HotBytesSent - was.HotBytesSent, CountBytesSent: now.CountBytesSent - was.CountBytesSent}
		return errors.Join(err, chosen)
	})
	for _, c := range all {
		sent, counts = sent+c.HotBytesSent, counts+c.CountBytesSent
	}
	bits := int64(8 * (rows + 63) / 64 * (size - 1) * size)
	if plain := counts - steps*bits; plain != steps*8*(announceWords+1)*(size-1)*size {
		t.Errorf("%d bytes of counts, %d of them bits", counts, steps*bits)
	}
	d := Demand{Steps: steps, Values: 330 * steps, Bags: 330 * steps, Sums: 220 * steps, Unique: 330 * steps, Union: 120 * steps}
	expected := Replicated.Bytes(d, cfg.Tables[0], rows, size)
	if got := sent/steps + bits; float64(expected) < 0.9*float64(got) || float64(expected) > 1.1*float64(got) {
		t.Errorf("%d bytes a step are expected, %d sent", expected, got)
	}
	if rowsBytes := Rows.Bytes(d, cfg.Tables[0], rows, size); rowsBytes <= expected {
		t.Errorf("%d bytes as rows", rowsBytes)
	}
	// What is saved are the keys, so it pays for narrow rows.
	if how := Choose([]Strategy{Pooled, Replicated}, d, cfg.Tables[0], rows, 100, size); how != Rows {
		t.Errorf("%v is chosen", how)
	}
	narrow := plainConfig(1).Tables[0]
	if how := Choose([]Strategy{Pooled, Replicated}, d, narrow, rows, 100, size); how != Replicated {
		t.Errorf("of narrow rows %v is chosen", how)
	}
	if how := Choose([]Strategy{Pooled, Replicated}, d, narrow, MaxReplicated, 100, size); how != Rows {
		t.Errorf("of a large table %v is chosen", how)
	}
}

// owned are the rows of this rank's shards, without guests.
func owned(s *Store) []map[uint64][]float32 {
	all := records(s)
	for t, x := range s.tables {
		for key := range all[t] {
			if int(s.owner[x.ShardOf(key)]) != s.rank {
				delete(all[t], key)
			}
		}
	}
	return all
}

func TestHotKeysGiveTheSameBits(t *testing.T) {
	for _, size := range []int{1, 2, 3} {
		for _, ahead := range []bool{false, true} {
			j := zipfJob(size, 60)
			want := j.onTwin()
			j.cfg.HotKeys = 20
			got, chosen, counters := j.withHot(t, size, 10, ahead)
			if err := got.compare(want, 0); err != nil {
				t.Fatalf("P=%d ahead=%t: %v", size, ahead, err)
			}
			if size > 1 && (chosen == 0 || counters[0].HotBytesSent == 0) {
				t.Errorf("P=%d: %d keys were hot, %d bytes sent: the test tests nothing", size, chosen, counters[0].HotBytesSent)
			}
			rows := 0
			for _, c := range counters {
				rows += int(c.RowsHeld)
			}
			if all := len(want.rows[0]) + len(want.rows[1]); rows != all {
				t.Errorf("P=%d: the ranks hold %d rows, want %d", size, rows, all)
			}
		}
	}
}

// TestGuestsAreEqualAndGo compares every rank's copy with the owner's row after
// steps, and then lets the traffic shift: other keys are chosen.
func TestGuestsAreEqualAndGo(t *testing.T) {
	const size = 3
	cfg := plainConfig(4)
	cfg.HotKeys = 4
	cfg.Tables[0].Parts[0].Rule = optim.Rule{Kind: "adam"}
	stores := make([]*Store, size)
	onRanks(t, size, cfg, func(s *Store) error {
		stores[s.rank] = s
		l := s.NewLookup()
		for shift := range uint64(2) {
			hot := []uint64{100 * shift, 100*shift + 1, 100*shift + 2}
			for n := range int64(40) {
				bags := oneBag(append(hot, uint64(1000+n)+1000*uint64(s.rank))...)
				if err := s.Pull(l, bags, true); err != nil {
					return err
				}
				l.PoolGrad(0, 0, []float32{1, 2, 3, float32(s.rank)}, 4)
				if err := errors.Join(s.Push(l), s.Apply(Step{N: 40*int64(shift) + n + 1, Scale: 1, Rate: 1})); err != nil {
					return err
				}
				if n == 19 || n == 39 { // the second forgets what was measured
					if _, err := s.ChooseHot(); err != nil {
						return err
					}
					if got := slices.Sorted(slices.Values(s.hot.sets[0].Keys())); !slices.Equal(got, hot) {
						return fmt.Errorf("keys %v are hot, want %v", got, hot)
					}
				}
			}
		}
		return nil
	})
	record, other := make([]float32, 12), make([]float32, 12)
	for _, key := range []uint64{100, 101, 102} {
		for r, s := range stores {
			held, err := s.tables[0].Get(key, record)
			if err != nil || !held {
				t.Fatalf("rank %d does not hold key %d: %v", r, key, err)
			}
			if r > 0 && !slices.Equal(record, other) {
				t.Errorf("key %d is %v on rank %d, %v on rank %d", key, record, r, other, r-1)
			}
			copy(other, record)
		}
	}
	for key := range uint64(3) {
		n := 0
		for _, s := range stores {
			if held, _ := s.tables[0].Get(key, record); held {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d ranks hold key %d, which is not hot any more", n, key)
		}
	}
}

func TestHotKeysAreRefused(t *testing.T) {
	cfg := func(int) Config {
		c := plainConfig(1)
		c.HotKeys = 2
		return c
	}
	bags := oneBag(1, 2, 3)
	warm := func(s *Store, l *Lookup) error {
		for n := range int64(8) {
			if err := errors.Join(s.Pull(l, bags, true), s.Push(l), s.Apply(Step{N: n + 1, Scale: 1, Rate: 1})); err != nil {
				return err
			}
		}
		return nil
	}
	for want, call := range map[string]func(s *Store, l *Lookup) error{
		"gradients wait": func(s *Store, l *Lookup) error {
			err := errors.Join(warm(s, l), s.Pull(l, bags, true), s.Push(l))
			_, chosen := s.ChooseHot()
			return errors.Join(err, chosen)
		},
		"not staged by slot": func(s *Store, l *Lookup) error {
			err := warm(s, l)
			_, chosen := s.ChooseHot()
			return errors.Join(err, chosen, s.Pull(l, bags, true), s.PushSlot(l, 0))
		},
		"was reset after the pull": func(s *Store, l *Lookup) error {
			err := errors.Join(warm(s, l), s.Pull(l, bags, true))
			_, chosen := s.ChooseHot()
			return errors.Join(err, chosen, s.Push(l))
		},
		"hot keys that there are not": func(s *Store, l *Lookup) error {
			err := warm(s, l)
			_, chosen := s.ChooseHot()
			if s.rank == 1 {
				s.hot.sets[0].Add([]uint64{77}, make([]uint32, 1)) // and tells of it below
			}
			return errors.Join(err, chosen, s.Pull(l, oneBag(77), true))
		},
	} {
		t.Run(want, func(t *testing.T) { wantFault(t, cfg, call, want) })
	}
	c := plainConfig(1)
	c.HotKeys = -1
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "-1 hot keys") {
		t.Errorf("%v", err)
	}
}

// TestPopularKeepsTheHead counts a Zipf stream of many more keys than there is
// room for: its head is counted to within what halving takes.
func TestPopularKeepsTheHead(t *testing.T) {
	s := open(t, plainConfig(1))
	p := &s.hot.popular[0]
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 1)), 1.1, 1, 1<<40)
	exact, keys := map[uint64]uint32{}, make([]uint64, 1000)
	for range 400 {
		for i := range keys {
			keys[i] = zipf.Uint64()
			exact[keys[i]]++
		}
		p.add(keys)
	}
	if n := p.set.Len(); n > popularLimit+len(keys) || len(exact) <= popularLimit {
		t.Fatalf("%d of %d keys are kept", n, len(exact))
	}
	for key := range uint64(20) {
		id, ok := p.set.Number(key)
		if !ok || p.counts[id] > exact[key] || p.counts[id] < exact[key]/4 {
			t.Errorf("key %d is counted %d times, it came %d times", key, p.counts[id], exact[key])
		}
	}
}
