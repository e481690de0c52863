package sparse

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// mirrored performs a step up to and including Mirror. Only Apply is missing.
func (j *jobStep) mirrored(s *Store, l *Lookup) error {
	if err := s.Pull(l, j.bags[s.rank], true); err != nil {
		return err
	}
	grads(l, j.dy[s.rank], s.cfg)
	return errors.Join(s.Push(l), s.Replica().Mirror(j.at))
}

// bytesOfShards returns the saved form of all shards that have rows.
func bytesOfShards(t *testing.T, tables []*table.Table) map[string][]byte {
	all := map[string][]byte{}
	for _, x := range sections(tables, false) {
		var b bytes.Buffer
		save := x.from.SaveShard
		if x.seen {
			save = x.from.SaveSeen
		}
		if err := save(&b, x.shard); err != nil {
			t.Error(err)
		}
		all[fmt.Sprint(x.table, " ", x.shard, " ", x.seen)] = b.Bytes()
	}
	return all
}

// sameCopies checks that the copy on each rank's buddy equals the rank's shards.
func sameCopies(t *testing.T, stores []*Store) {
	t.Helper()
	for r, s := range stores {
		own, copied := bytesOfShards(t, s.tables), bytesOfShards(t, stores[s.replica.own()].replica.tables)
		if len(own) == 0 || len(own) != len(copied) {
			t.Errorf("rank %d has %d shards, the copy on its buddy has %d", r, len(own), len(copied))
		}
		for name := range own {
			if !bytes.Equal(own[name], copied[name]) {
				t.Errorf("rank %d: the copy on its buddy of table and shard %s differs", r, name)
			}
		}
	}
}

// onGroup runs f on every rank of a new group.
func onGroup(t *testing.T, size int, f func(m member) error) {
	t.Helper()
	g, errs := newGroup(size), make([]error, size)
	var wg sync.WaitGroup
	for r := range size {
		wg.Go(func() {
			if errs[r] = f(member{g, r}); errs[r] != nil {
				g.fail(fmt.Errorf("aborted: %w", errs[r]))
			}
		})
	}
	wg.Wait()
	fatal.If(t, errors.Join(errs...))
}

// The moments at which a rank is lost.
const (
	between  = iota // between two steps
	untaken         // some ranks have mirrored the step, which is repeated
	finished        // a rank has applied the step, so the others apply it too
)

// TestLostRankIsHealed loses each rank at each moment. The job ends with the bits of an
// undisturbed job and with complete copies.
func TestLostRankIsHealed(t *testing.T) {
	for _, size := range []int{2, 3} {
		for _, rule := range []string{"adam", "rowwise_adagrad"} {
			j := fixedJob(optim.Rule{Kind: rule}, rule == "adam", size, 14)
			if rule != "adam" {
				j.cfg.Tables[0].Evict.MaxRows, j.cfg.Tables[0].Admit = 16, table.Admit{After: 3, Counters: 64}
				j.cfg.Tables[1].Values = table.BFloat16
			}
			want := j.onStores(t, size).rows
			for lost := range size {
				for moment := between; moment <= finished; moment++ {
					t.Run(fmt.Sprintf("%s/%d ranks/rank %d/moment %d", rule, size, lost, moment), func(t *testing.T) {
						loseAndHeal(t, j, nil, size, []int{lost}, moment, want)
					})
				}
			}
		}
	}
}

// TestLostHostIsHealed loses half of the ranks at once. Their buddies are the other half.
func TestLostHostIsHealed(t *testing.T) {
	j := fixedJob(optim.Rule{Kind: "adam"}, true, 4, 14)
	want := j.onStores(t, 4).rows
	for _, lost := range [][]int{{0, 1}, {2, 3}} {
		for moment := between; moment <= finished; moment++ {
			t.Run(fmt.Sprintf("ranks %v/moment %d", lost, moment), func(t *testing.T) {
				loseAndHeal(t, j, []int{2, 3, 0, 1}, 4, lost, moment, want)
			})
		}
	}
}

// marked returns a flag for each rank, set for the given ranks.
func marked(size int, ranks []int) []bool {
	all := make([]bool, size)
	for _, r := range ranks {
		all[r] = true
	}
	return all
}

func loseAndHeal(t *testing.T, j *job, buddy []int, size int, lost []int, moment int, want []map[uint64][]float32) {
	const at = 6 // the number of steps before the loss
	stores, empty := make([]*Store, size), marked(size, lost)
	open := func(m member) (err error) {
		if stores[m.rank], err = Open(m, j.cfg); err == nil {
			err = stores[m.rank].Replica().Start(buddy)
		}
		return err
	}
	onGroup(t, size, func(m member) error {
		if err := open(m); err != nil {
			return err
		}
		s := stores[m.rank]
		l := s.NewLookup()
		for _, step := range j.steps[:at] {
			if err := errors.Join(step.mirrored(s, l), s.Apply(step.at)); err != nil {
				return err
			}
		}
		if moment == between {
			return nil
		}
		return j.steps[at].mirrored(s, l)
	})
	rows := make([][]map[uint64][]float32, size)
	onGroup(t, size, func(m member) error {
		if empty[m.rank] {
			if err := open(m); err != nil {
				return err
			}
		}
		s, next := stores[m.rank], at
		if !empty[m.rank] {
			if err := s.Replica().Rejoin(m); err != nil {
				return err
			}
			if moment == finished {
				if err := s.Apply(j.steps[at].at); err != nil {
					return err
				}
			}
			s.Replica().Discard()
		}
		if moment == finished {
			next++
		}
		if err := s.Replica().Heal(empty, j.steps[next-1].at.N); err != nil {
			return err
		}
		l := s.NewLookup()
		for _, step := range j.steps[next:] {
			if err := errors.Join(step.mirrored(s, l), s.Apply(step.at)); err != nil {
				return err
			}
		}
		rows[m.rank] = records(s)
		return nil
	})
	sameCopies(t, stores)
	got, err := merge(rows)
	fatal.If(t, err)
	fatal.If(t, differ(got, want, 0))
}

// TestReplicaBytes counts the bytes that Mirror sends: a key and a gradient for each distinct
// key of a step, and the counts.
func TestReplicaBytes(t *testing.T) {
	const size = 3
	j := fixedJob(optim.Rule{Kind: "sgd"}, false, size, 5)
	onGroup(t, size, func(m member) error {
		s, err := Open(m, j.cfg)
		if err != nil {
			return err
		}
		if err := s.Replica().Start(nil); err != nil {
			return err
		}
		want, l := int64(0), s.NewLookup()
		for _, step := range j.steps {
			if err := step.mirrored(s, l); err != nil {
				return err
			}
			want += int64(8 * len(s.tables) * (size - 1))
			for i, x := range s.tables {
				want += int64(s.staged[i].set.Len()) * int64(8+4*x.Width())
			}
			if err := s.Apply(step.at); err != nil {
				return err
			}
		}
		if c := s.Counters(); c.ReplicaBytesSent != want || want == 0 || c.RowsHeld != int64(s.tables[0].Rows()+s.tables[1].Rows()) {
			return fmt.Errorf("%d bytes sent, want %d; %d rows", c.ReplicaBytesSent, want, c.RowsHeld)
		}
		return nil
	})
}

// TestReplicaRefusals: calls in a wrong order and invalid copies are rejected with an error that
// names the cause.
func TestReplicaRefusals(t *testing.T) {
	cfg := plainConfig(1)
	says := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	says(open(t, cfg).Replica().Start(nil), "second rank")
	says(open(t, cfg).Replica().Rejoin(member{newGroup(2), 0}), "same place")
	onGroup(t, 3, func(m member) error {
		s, err := Open(m, cfg)
		if err != nil {
			return err
		}
		if err := s.Replica().Start(nil); err != nil {
			return err
		}
		says(s.Replica().Start(nil), "before")
		for _, bad := range [][]int{{1, 2}, {1, 0, 2}, {1, 2, 1}, {1, 2, 3}, {1, 2, -1}} {
			_, _, err := s.replica.pairUp(bad)
			says(err, "each rank must have another rank as its buddy")
		}
		says(s.Replica().Heal([]bool{true, false, true}, 1), "rank 2 and its buddy, rank 0, are both empty")
		for _, part := range [][]byte{make([]byte, 8), append(make([]byte, 16), 255, 0, 0, 0, 0, 0, 0, 0), {0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}} {
			says(s.replica.receiveHealed(1, part), "shards of rank 1")
		}
		return nil
	})
}

// FuzzHealed passes arbitrary bytes as shards to a rank that is healed.
func FuzzHealed(f *testing.F) {
	f.Add(make([]byte, healHead))
	f.Add(append(append([]byte{1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 16}, make([]byte, 7)...), "WDLSHARD12345678"...))
	f.Fuzz(func(t *testing.T, part []byte) {
		s, err := Open(member{newGroup(2), 0}, plainConfig(2))
		fatal.If(t, err)
		defer s.Close()
		fatal.If(t, s.Replica().Start(nil))
		if s.replica.receiveHealed(1, part) == nil && len(part)%8 != 0 {
			t.Errorf("%d bytes were accepted, although shards consist of whole words", len(part))
		}
	})
}
