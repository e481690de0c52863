package sparse

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/optim"
)

// zipfJob returns a job with Zipf(1.2) keys in two tables and different gradients on every
// rank.
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

// withCopies runs the job and refreshes the replicated rows after every given number of steps.
// With ahead, the batches in between are prepared in advance.
func (j *job) withCopies(t *testing.T, size, every int, ahead bool) (out outcome, chosen int, counters []Counters) {
	t.Helper()
	norms, rows := make([][]float64, size), make([][]map[uint64][]float32, size)
	counters = make([]Counters, size)
	for range j.steps {
		out.pooled = append(out.pooled, make([][][][]float32, size))
	}
	out.norms = make([]float64, len(j.steps))
	background := newGroup(size)
	onRanks(t, size, j.cfg, func(s *Store) error {
		defer s.Close()
		if err := s.Pipeline().Start(member{background, s.rank}); err != nil {
			return err
		}
		l := s.NewLookup()
		for i := range j.steps {
			var err error
			if ahead {
				err = errors.Join(s.Pipeline().Prepare(l, j.steps[i].bags[s.rank], true), s.Pipeline().Complete(l))
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
				n, err := s.Copies().Refresh()
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

// TestReplicatedGivesTheSameBits replicates one table, both tables, or one while the other is
// pooled. Batches are prepared in advance or not.
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
			got, chosen, counters := j.withCopies(t, size, 10, size != 2)
			if err := got.compare(want, 0); err != nil {
				t.Fatalf("P=%d %v: %v", size, how, err)
			}
			held := 0
			for _, c := range counters {
				held += int(c.RowsHeld)
			}
			if all := len(want.rows[0]) + len(want.rows[1]); held != all {
				t.Errorf("P=%d %v: the ranks hold %d rows, want %d", size, how, held, all)
			}
			rows := len(want.rows[1])
			if _, both := how["item"]; !both && size > 1 && (chosen < rows/2 || chosen > rows) {
				t.Errorf("P=%d %v: %d rows are on every rank, want the %d of table user", size, how, chosen, rows)
			}
		}
	}
}

// TestReplicatedBytes compares the estimate of Bytes with the bytes sent when every row is
// replicated. Reading sends only counts.
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
		_, chosen := s.Copies().Refresh()
		was := s.Counters()
		for n := range int64(steps) {
			err = errors.Join(err, step(n+2, keys[:100+10*s.rank]))
		}
		now := s.Counters()
		if now.RowBytesSent != was.RowBytesSent || now.KeyBytesSent != was.KeyBytesSent || now.GradBytesSent != was.GradBytesSent {
			return fmt.Errorf("replicated rows were exchanged: %+v, before %+v", now, was)
		}
		all[s.rank] = Counters{CopyBytesSent: now.CopyBytesSent - was.CopyBytesSent, CountBytesSent: now.CountBytesSent - was.CountBytesSent}
		return errors.Join(err, chosen)
	})
	for _, c := range all {
		sent, counts = sent+c.CopyBytesSent, counts+c.CountBytesSent
	}
	bits := int64(8 * (rows + 63) / 64 * (size - 1) * size)
	if plain := counts - steps*bits; plain != steps*8*(announceWords+1)*(size-1)*size {
		t.Errorf("%d bytes of counts, %d of them bits", counts, steps*bits)
	}
	d := Demand{Steps: steps, Values: 330 * steps, Bags: 330 * steps, Sums: 220 * steps, Unique: 330 * steps, Union: 120 * steps}
	expected := Replicated.Bytes(d, cfg.Tables[0], rows, size)
	if got := sent/steps + bits; float64(expected) < 0.9*float64(got) || float64(expected) > 1.1*float64(got) {
		t.Errorf("%d bytes per step estimated, %d sent", expected, got)
	}
	if rowsBytes := Rows.Bytes(d, cfg.Tables[0], rows, size); rowsBytes <= expected {
		t.Errorf("%d bytes estimated for strategy Rows", rowsBytes)
	}
	// Only keys are saved, so replication pays for narrow rows.
	if how := Choose([]Strategy{Pooled, Replicated}, d, cfg.Tables[0], rows, 100, size); how != Rows {
		t.Errorf("strategy %v is chosen", how)
	}
	narrow := plainConfig(1).Tables[0]
	if how := Choose([]Strategy{Pooled, Replicated}, d, narrow, rows, 100, size); how != Replicated {
		t.Errorf("for narrow rows %v is chosen", how)
	}
	if how := Choose([]Strategy{Pooled, Replicated}, d, narrow, maxReplicated, 100, size); how != Rows {
		t.Errorf("for a large table %v is chosen", how)
	}
}

// owned returns the rows of this rank's shards, without guests.
func owned(s *Store) []map[uint64][]float32 {
	all := records(s)
	for t, x := range s.tables {
		for key := range all[t] {
			if int(s.shards.owner[x.ShardOf(key)]) != s.rank {
				delete(all[t], key)
			}
		}
	}
	return all
}

// TestGuestsAreEqual compares the copy on every rank with the owner's row after some steps.
func TestGuestsAreEqual(t *testing.T) {
	const size, rows = 3, 30
	cfg := plainConfig(4)
	cfg.Tables[0].Strategy = Replicated
	cfg.Tables[0].Parts[0].Rule = optim.Rule{Kind: "adam"}
	var keys []uint64
	for key := range uint64(rows) {
		keys = append(keys, key)
	}
	stores := make([]*Store, size)
	onRanks(t, size, cfg, func(s *Store) error {
		stores[s.rank] = s
		l := s.NewLookup()
		for n := range int64(20) {
			if err := s.Pull(l, oneBag(keys...), true); err != nil {
				return err
			}
			l.PoolGrad(0, 0, []float32{1, 2, 3, float32(s.rank)}, 4)
			if err := errors.Join(s.Push(l), s.Apply(Step{N: n + 1, Scale: 1, Rate: 1})); err != nil {
				return err
			}
			if n == 9 {
				if _, err := s.Copies().Refresh(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	record, first := make([]float32, 12), make([]float32, 12)
	for _, key := range keys {
		for r, s := range stores {
			held, err := s.tables[0].Get(key, record)
			if err != nil || !held {
				t.Fatalf("rank %d has no row of key %d: %v", r, key, err)
			}
			if r > 0 && !slices.Equal(record, first) {
				t.Errorf("key %d is %v on rank %d, %v on rank 0", key, record, r, first)
			}
			if r == 0 {
				copy(first, record)
			}
		}
	}
}

// TestReplicatedIsRefused: calls that cannot be combined with copied keys are rejected with the
// reason.
func TestReplicatedIsRefused(t *testing.T) {
	cfg := func(int) Config {
		c := plainConfig(1)
		c.Tables[0].Strategy = Replicated
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
			_, chosen := s.Copies().Refresh()
			return errors.Join(err, chosen)
		},
		"not staged by slot": func(s *Store, l *Lookup) error {
			err := warm(s, l)
			_, chosen := s.Copies().Refresh()
			return errors.Join(err, chosen, s.Pull(l, bags, true), s.Slots().Push(l, 0))
		},
		"was reset after the pull": func(s *Store, l *Lookup) error {
			err := errors.Join(warm(s, l), s.Pull(l, bags, true))
			_, chosen := s.Copies().Refresh()
			return errors.Join(err, chosen, s.Push(l))
		},
		"copied keys that there are not": func(s *Store, l *Lookup) error {
			err := warm(s, l)
			_, chosen := s.Copies().Refresh()
			if s.rank == 1 {
				s.copies.sets[0].Add([]uint64{77}, make([]uint32, 1)) // the rank announces this key below
			}
			return errors.Join(err, chosen, s.Pull(l, oneBag(77), true))
		},
	} {
		t.Run(want, func(t *testing.T) { wantFault(t, cfg, call, want) })
	}
}
