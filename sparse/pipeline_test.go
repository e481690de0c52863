package sparse

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

// ahead runs the job like onStores, but prepares each batch while the previous one is in flight.
// It also returns the counters of each rank. Without side, Prepare works synchronously.
func (j *job) ahead(t testing.TB, size int, side bool) (outcome, []Counters) {
	t.Helper()
	out := outcome{norms: make([]float64, len(j.steps))}
	norms, rows := make([][]float64, size), make([][]map[uint64][]float32, size)
	counters := make([]Counters, size)
	for i := range j.steps {
		out.pooled = append(out.pooled, make([][][][]float32, size))
		j.steps[i].background = side
	}
	background := newGroup(size)
	onRanks(t, size, j.cfg, func(s *Store) error {
		defer s.Close()
		if side {
			if err := s.Pipeline().Start(member{background, s.rank}); err != nil {
				return err
			}
		}
		now, next := s.NewLookup(), s.NewLookup()
		if err := s.Pipeline().Prepare(now, j.steps[0].bags[s.rank], true); err != nil {
			return err
		}
		for i := range j.steps {
			if err := s.Pipeline().Complete(now); err != nil {
				return err
			}
			if i+1 < len(j.steps) {
				if err := s.Pipeline().Prepare(next, j.steps[i+1].bags[s.rank], true); err != nil {
					return err
				}
			}
			pooled, norm, err := j.steps[i].train(s, now)
			if err != nil {
				return err
			}
			out.pooled[i][s.rank] = pooled
			norms[s.rank] = append(norms[s.rank], norm)
			now, next = next, now
		}
		rows[s.rank], counters[s.rank] = records(s), s.Counters()
		return nil
	})
	for _, of := range norms {
		for i, x := range of {
			out.norms[i] += x
		}
	}
	all, err := merge(rows)
	fatal.If(t, err)
	out.rows = all
	return out, counters
}

// TestPreparedBatchesGiveTheSameBits: batches that are prepared in advance give the bits of
// batches that are pulled.
func TestPreparedBatchesGiveTheSameBits(t *testing.T) {
	for size := 1; size <= 3; size++ {
		for _, side := range []bool{true, false} {
			t.Run(fmt.Sprintf("P=%d side=%t", size, side), func(t *testing.T) {
				rapid.Check(t, func(rt *rapid.T) {
					j := drawJob(rt, size)
					got, _ := j.ahead(t, size, side)
					fatal.If(rt, got.compare(j.onTwin(), 0))
				})
			})
		}
	}
}

// TestRowsThatNothingChangesTravelAhead counts bytes. A batch that shares no key with the
// previous one receives no rows at Complete, an equal one receives all rows there, and the sum
// equals the bytes of Pull.
func TestRowsThatNothingChangesTravelAhead(t *testing.T) {
	const size, dim, keys = 2, 3, 64
	cfg := plainConfig(dim)
	batch := func(from, to int) []Bags {
		b := Bags{Offsets: []int32{0}}
		for k := from; k < to; k++ {
			b.Values = append(b.Values, uint64(k))
			b.Offsets = append(b.Offsets, int32(len(b.Values)))
		}
		return []Bags{b}
	}
	background := newGroup(size)
	onRanks(t, size, cfg, func(s *Store) error {
		defer s.Close()
		if err := s.Pipeline().Start(member{background, s.rank}); err != nil {
			return err
		}
		now, next := s.NewLookup(), s.NewLookup()
		for n := int64(1); n <= 2; n++ { // all keys get rows
			if err := errors.Join(s.Pull(now, batch(0, 2*keys), true), s.Push(now), s.Apply(Step{N: n, Scale: 1, Rate: 1})); err != nil {
				return err
			}
		}
		for _, c := range []struct{ from, to, ahead int }{{0, keys, 0}, {keys, 2 * keys, keys}, {keys / 2, 3 * keys / 2, keys / 2}} {
			if err := s.Pull(now, batch(0, keys), true); err != nil {
				return err
			}
			if err := s.Pipeline().Prepare(next, batch(c.from, c.to), true); err != nil {
				return err
			}
			s.pipeline.wait()
			remote, ahead := 0, 0
			for k := c.from; k < c.to; k++ {
				if OwnerOf(ShardOf(Salt("x"), uint64(k), cfg.Shards), cfg.Shards, size) != s.rank {
					remote++
					if k >= keys {
						ahead++
					}
				}
			}
			if got := int(next.tally.RowBytesReceived); got != 4*dim*ahead {
				return fmt.Errorf("keys %d to %d after 0 to %d: %d bytes of rows received ahead, want %d", c.from, c.to, keys, got, 4*dim*ahead)
			}
			if err := errors.Join(s.Push(now), s.Apply(Step{N: 3, Scale: 1, Rate: 1}), s.Pipeline().Complete(next)); err != nil {
				return err
			}
			if got := int(next.tally.RowBytesReceived); got != 4*dim*remote {
				return fmt.Errorf("keys %d to %d: %d bytes of rows received in total, want %d", c.from, c.to, got, 4*dim*remote)
			}
			if n := next.Counters(); n.RowBytesReceived != int64(4*dim*remote) || n.KeyBytesSent != int64(8*remote) || n.GradBytesSent != int64(4*dim*remote) || n.UniqueKeys != int64(c.to-c.from) {
				return fmt.Errorf("%d keys of other ranks: %+v", remote, n)
			}
			if got := int(next.tally.MarkBytesReceived); got != (remote+7)/8 {
				return fmt.Errorf("%d bytes of marks for %d keys", got, remote)
			}
			if err := errors.Join(s.Push(next), s.Apply(Step{N: 4, Scale: 1, Rate: 1})); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestPreparedJobsSaveTheSameBytes compares prepared batches with Pull. The jobs also have rows
// that change without being in a batch, are evicted and inserted again, or move to disk and
// back.
func TestPreparedJobsSaveTheSameBytes(t *testing.T) {
	for name, change := range map[string]func(j *job){
		"plain": func(*job) {},
		"dense": func(j *job) { j.cfg.Tables[0].Parts[0].DenseL2 = true },
		"evict": func(j *job) { j.cfg.Tables[0].Evict.Age, j.cfg.Tables[0].Admit.After = 2, 2 },
		"tier":  func(j *job) { j.tier = t.TempDir() },
	} {
		for size := 1; size <= 3; size++ {
			j := fixedJob(optim.Rule{Kind: "adam"}, false, size, 12)
			change(j)
			plain, _, none := j.files(t, size, pulled)
			piped, counters, read := j.files(t, size, preparedConcurrently)
			told, _, readToo := j.files(t, size, preparedFirst)
			if len(plain) == 0 || !slices.Equal(piped, plain) || !slices.Equal(told, plain) {
				t.Errorf("P=%d %s: the saved shards differ", size, name)
			}
			if size > 1 && counters[0].MarkBytesSent == 0 {
				t.Errorf("P=%d %s: no marks were sent, so the test is void", size, name)
			}
			if tier := j.tier != ""; none != 0 || tier != (read > 0) || tier != (readToo > 0) {
				t.Errorf("P=%d %s: %d, %d and %d rows were read ahead", size, name, none, read, readToo)
			}
		}
	}
}

// How a job gets its batches: pulled when needed, prepared concurrently by a goroutine, or
// announced to the owners in advance.
const (
	pulled = iota
	preparedConcurrently
	preparedFirst
)

// files runs the job. It returns the saved shards of every rank in order, the counters, and the
// number of rows that tiers have read ahead.
func (j *job) files(t *testing.T, size, how int) (files []string, counters []Counters, read int64) {
	background, all, ahead := newGroup(size), make([][]string, size), how != pulled
	counters, reads := make([]Counters, size), make([]int64, size)
	onRanks(t, size, j.cfg, func(s *Store) error {
		defer s.Close()
		if how == preparedConcurrently {
			if err := s.Pipeline().Start(member{background, s.rank}); err != nil {
				return err
			}
		}
		if j.tier != "" {
			if err := s.Files().OpenTier(1, j.tier, 1); err != nil {
				return err
			}
		}
		now, next := s.NewLookup(), s.NewLookup()
		for i := range j.steps {
			var err error
			switch {
			case i == 0 || !ahead:
				err = s.Pull(now, j.steps[i].bags[s.rank], true)
			default:
				err = s.Pipeline().Complete(now)
			}
			if err != nil {
				return err
			}
			if ahead && i+1 < len(j.steps) {
				if err := s.Pipeline().Prepare(next, j.steps[i+1].bags[s.rank], true); err != nil {
					return err
				}
			}
			if _, _, err := j.steps[i].train(s, now); err != nil {
				return err
			}
			if ahead {
				now, next = next, now
			}
		}
		for _, section := range s.Files().Sections() {
			var b bytes.Buffer
			if err := s.Files().SaveShard(&b, section.Table, section.Shard); err != nil {
				return err
			}
			all[s.rank] = append(all[s.rank], section.Name+"\n"+b.String())
		}
		counters[s.rank] = s.Counters()
		for i := range s.tables {
			reads[s.rank] += s.Table(i).ReadAhead
		}
		return nil
	})
	for _, n := range reads {
		read += n
	}
	return slices.Sorted(slices.Values(slices.Concat(all...))), counters, read
}

// TestPreparingOutOfOrderIsNamed: calls in a wrong order are rejected with an error that names
// the call to make first.
func TestPreparingOutOfOrderIsNamed(t *testing.T) {
	cfg := func(int) Config { return plainConfig(1) }
	for want, call := range map[string]func(s *Store, l *Lookup) error{
		"the batch of pull 1 is prepared: Complete it first": func(s *Store, l *Lookup) error {
			return errors.Join(s.Pipeline().Prepare(l, nil, true), s.Pull(s.NewLookup(), nil, true))
		},
		"sparse: prepare: rank 0 of 2: the batch of pull 1 is prepared": func(s *Store, l *Lookup) error {
			return errors.Join(s.Pipeline().Prepare(l, nil, true), s.Pipeline().Prepare(s.NewLookup(), nil, true))
		},
		"the batch was not prepared": func(s *Store, l *Lookup) error { return s.Pipeline().Complete(l) },
		"nothing has been pulled":    func(s *Store, l *Lookup) error { return errors.Join(s.Pipeline().Prepare(l, nil, true), s.Push(l)) },
		"was reset since": func(s *Store, l *Lookup) error {
			err := s.Pipeline().Prepare(l, nil, true)
			s.Reset()
			return errors.Join(err, s.Pipeline().Complete(l))
		},
		"complete 1: rank 1 of 2: feature 0: table 7: there are 1": func(s *Store, l *Lookup) error {
			var bags []Bags
			if s.rank == 1 {
				bags = []Bags{{Table: 7}}
			}
			if err := s.Pipeline().Prepare(l, bags, true); err != nil {
				return err
			}
			return s.Pipeline().Complete(l)
		},
		"it was started before": func(s *Store, _ *Lookup) error {
			background := newGroup(2)
			defer s.Close()
			return errors.Join(s.Pipeline().Start(member{background, s.rank}), s.Pipeline().Start(member{background, s.rank}))
		},
		"of the same ranks": func(s *Store, _ *Lookup) error { return s.Pipeline().Start(Local{}) },
	} {
		t.Run(want, func(t *testing.T) { wantFault(t, cfg, call, want) })
	}
}

// TestLostPeerEndsPreparing: the goroutine of rank 0 waits for rank 1, which is lost. Preparing
// ends with an error.
func TestLostPeerEndsPreparing(t *testing.T) {
	background, lost := newGroup(2), errors.New("rank 1 is lost")
	errs := together(2, plainConfig(1), func(s *Store) error {
		defer s.Close()
		if err := s.Pipeline().Start(member{background, s.rank}); err != nil {
			return err
		}
		if s.rank == 1 {
			background.fail(lost)
			return lost
		}
		l := s.NewLookup()
		if err := s.Pipeline().Prepare(l, oneBag(1, 2, 3), true); err != nil {
			return err
		}
		return s.Pipeline().Complete(l)
	})
	if !errors.Is(errs[0], lost) || !strings.Contains(errs[0].Error(), "complete 1: rank 0 of 2: exchange of counts") {
		t.Fatalf("error of rank 0: %v", errs[0])
	}
}

// TestOnePushAtATime: while a push is in flight, another one is rejected.
func TestOnePushAtATime(t *testing.T) {
	s := open(t, plainConfig(1))
	defer s.Close()
	a, b := s.NewLookup(), s.NewLookup()
	err := errors.Join(s.Pipeline().Start(Local{}), s.Pull(a, oneBag(1), true), s.Pull(b, oneBag(2), true), s.Pipeline().Push(a))
	fatal.If(t, err)
	if err := s.Push(b); err == nil || !strings.Contains(err.Error(), "another batch has been pushed: call Apply first") {
		t.Fatalf("second push before the end of the first: %v", err)
	}
	fatal.If(t, errors.Join(s.Apply(Step{N: 1, Scale: 1, Rate: 1}), s.Push(b)))
}

// TestApplyReportsAPipelinePushThatFailed: Apply returns the error of a push that failed in the
// background.
func TestApplyReportsAPipelinePushThatFailed(t *testing.T) {
	background, lost := newGroup(2), errors.New("rank 1 is lost")
	errs := together(2, plainConfig(1), func(s *Store) error {
		defer s.Close()
		l := s.NewLookup()
		err := errors.Join(s.Pipeline().Start(member{background, s.rank}), s.Pull(l, oneBag(1, 2, 3), true))
		if err != nil || s.rank == 1 {
			background.fail(lost)
			return err
		}
		if err := s.Pipeline().Push(l); err != nil {
			return err
		}
		s.GradNormSq(1)
		return s.Apply(Step{N: 1, Scale: 1, Rate: 1})
	})
	if !errors.Is(errs[0], lost) || errs[1] != nil || !strings.Contains(errs[0].Error(), "sparse: push: rank 0 of 2: exchange of gradients") {
		t.Fatalf("%v and %v", errs[0], errs[1])
	}
}

// TestPreparingAllocatesNothing: after the first steps, a step with a prepared batch allocates
// no memory.
func TestPreparingAllocatesNothing(t *testing.T) {
	s := open(t, steadyConfig())
	fatal.If(t, s.Pipeline().Start(Local{}))
	defer s.Close()
	bags := steadyBags(64)
	now, next := s.NewLookup(), s.NewLookup()
	fatal.If(t, s.Pipeline().Prepare(now, bags, true))
	n := int64(0)
	step := func() {
		n++
		err := errors.Join(s.Pipeline().Complete(now), s.Pipeline().Prepare(next, bags, true), s.Pipeline().Push(now), s.Apply(Step{N: n, Scale: 1, Rate: 1}))
		fatal.If(t, err)
		now, next = next, now
	}
	for range 3 {
		step()
	}
	if n := testing.AllocsPerRun(20, step); n != 0 {
		t.Fatalf("%v allocations in a step", n)
	}
}
