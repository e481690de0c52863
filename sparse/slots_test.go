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

// TestSlotsEqualRanks trains a job whose microbatch k is computed by rank k, and
// again with the microbatches dealt to ranks in another order in every step and
// pushed as slots, one of them twice: the rows are the same bits.
func TestSlotsEqualRanks(t *testing.T) {
	const size, steps = 3, 15
	j := fixedJob(optim.Rule{Kind: "adam"}, false, size, steps)
	want := j.onStores(t, size)
	rows := make([][]map[uint64][]float32, size)
	onRanks(t, size, j.cfg, func(s *Store) error {
		rng, a, b := rand.New(rand.NewPCG(1, 1)), s.NewLookup(), s.NewLookup()
		for i, step := range j.steps {
			n := int64(i + 1)
			deal := rng.Perm(size)
			for _, push := range []struct {
				l    *Lookup
				slot int
			}{{a, deal[s.rank]}, {b, deal[(s.rank+1)%size]}} { // a spare rank computes each again
				if err := s.Pull(push.l, step.bags[push.slot], true); err != nil {
					return err
				}
				grads(push.l, step.dy[push.slot], j.cfg)
				at := Slot{Generation: 1, Step: n, Slot: push.slot}
				if push.l == b && s.rank == i%size {
					at.Slot = -1
				}
				if err := s.PushSlot(push.l, at); err != nil {
					return err
				}
			}
			all := []int{0, 1, 2}
			if got := s.Staged(1, n); !slices.Equal(got, all) {
				return fmt.Errorf("slots %v of step %d are staged", got, n)
			}
			if err := errors.Join(s.Commit(1, n, rng.Perm(size)), s.Apply(step.at)); err != nil {
				return err
			}
		}
		rows[s.rank] = records(s)
		return nil
	})
	got, err := merge(rows)
	if err != nil {
		t.Fatal(err)
	}
	if err := differ(got, want.rows, 0); err != nil {
		t.Fatal(err)
	}
}

// grads runs the backward of a batch.
func grads(l *Lookup, dy [][][]float32, cfg Config) {
	for f := range dy {
		for p, g := range dy[f] {
			l.PoolGrad(f, p, g, cfg.Tables[l.features[f].table].Parts[p].Dim)
		}
	}
}

// ones are gradients of 1 for a table of dim 1.
func ones(keys ...uint64) []SlotGradients {
	return []SlotGradients{{Keys: keys, Values: slices.Repeat([]float32{1}, len(keys))}}
}

func stage(t *testing.T, s *Store, at Slot, g []SlotGradients) {
	t.Helper()
	if first, err := s.Stage(at, g); err != nil || !first {
		t.Fatalf("stage %+v: first %t, %v", at, first, err)
	}
}

func TestOnlyCommittedSlotsCount(t *testing.T) {
	s := open(t, plainConfig(1))
	stage(t, s, Slot{0, 1, 0}, ones(7))
	stage(t, s, Slot{0, 1, 2}, ones(7, 8))
	stage(t, s, Slot{0, 1, 5}, ones(7, 9))
	stage(t, s, Slot{0, 2, 1}, ones(9))
	if first, err := s.Stage(Slot{0, 1, 2}, ones(7)); first || err != nil {
		t.Fatalf("a second copy of a slot: first %t, %v", first, err)
	}
	if err := s.Commit(0, 1, []int{0, 1}); err == nil || !strings.Contains(err.Error(), "slot 1 is not staged, only [0 2 5] are") {
		t.Fatalf("committing what is missing: %v", err)
	}
	if err := s.Commit(0, 1, []int{2, 2}); err == nil || !strings.Contains(err.Error(), "given twice") {
		t.Fatalf("committing twice: %v", err)
	}
	if s.staged[0].set.Len() != 0 {
		t.Fatal("a Commit that failed changed what waits")
	}
	if err := errors.Join(s.Commit(0, 1, []int{2, 0}), s.Apply(Step{N: 1, Scale: 1, Rate: 1})); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[uint64]float32{7: -2, 8: -1, 9: 0} {
		if v := read(t, s, key)[0]; v != want {
			t.Errorf("key %d is %v, want %v", key, v, want)
		}
	}
	if n := s.Rows(0); n != 2 {
		t.Errorf("%d rows are held: a slot that does not count inserted one", n)
	}
	var stale *StaleError
	if _, err := s.Stage(Slot{0, 1, 5}, ones(9)); !errors.As(err, &stale) || stale.Slot.Slot != 5 || stale.Applied != 1 {
		t.Errorf("a late slot: %v", err)
	}
	if err := s.Commit(0, 1, nil); !errors.As(err, &stale) {
		t.Errorf("a step committed twice: %v", err)
	}
	if got := s.Staged(0, 2); !slices.Equal(got, []int{1}) {
		t.Errorf("of the next step %v are staged", got)
	}
	s.Discard(0, 2)
	if got := s.Staged(0, 2); got != nil {
		t.Errorf("after Discard %v are staged", got)
	}
}

func TestFenceEndsAGeneration(t *testing.T) {
	s := open(t, plainConfig(1))
	stage(t, s, Slot{1, 5, 0}, ones(7))
	stage(t, s, Slot{2, 4, 0}, ones(7))
	s.Fence(2, 3) // the group went back to step 3
	if a, b := s.Staged(1, 5), s.Staged(2, 4); a != nil || !slices.Equal(b, []int{0}) {
		t.Fatalf("staged %v of the old generation and %v of the new", a, b)
	}
	var stale *StaleError
	if _, err := s.Stage(Slot{1, 6, 0}, ones(7)); !errors.As(err, &stale) || stale.Fence != 2 {
		t.Fatalf("a slot of the old generation: %v", err)
	}
	if err := s.Commit(2, 4, []int{0}); err != nil {
		t.Fatal(err)
	}
}

func TestStalePushEndsItsSenderAlone(t *testing.T) {
	onRanks(t, 2, plainConfig(1), func(s *Store) error {
		l := s.NewLookup()
		if err := s.Pull(l, oneBag(1, 2, 3, 4), true); err != nil {
			return err
		}
		s.Fence(1, 0)
		err := s.PushSlot(l, Slot{Generation: int64(s.rank), Step: 1, Slot: s.rank})
		var stale *StaleError
		if is := errors.As(err, &stale); is != (s.rank == 0) || !is && err != nil {
			return fmt.Errorf("rank %d: %v", s.rank, err)
		}
		if got := s.Staged(1, 1); !slices.Equal(got, []int{1}) {
			return fmt.Errorf("slots %v are staged", got)
		}
		return nil
	})
}

func TestBadSlotsAreNamed(t *testing.T) {
	onRanks(t, 2, plainConfig(2), func(s *Store) error {
		var mine, other uint64
		for key := range uint64(100) {
			if s.tables[0].ShardOf(key)*2/8 == s.rank {
				mine = key
			} else {
				other = key
			}
		}
		for want, g := range map[string]SlotGradients{
			"table 3: there are 1":                              {Table: 3},
			"1 values for 1 keys, want":                         {Keys: []uint64{mine}, Values: []float32{1}},
			fmt.Sprintf("rank %d owns key %d", 1-s.rank, other): {Keys: []uint64{other}, Values: []float32{1, 2}},
		} {
			if _, err := s.Stage(Slot{Step: 1}, []SlotGradients{g}); err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("%+v: %v, want %q", g, err, want)
			}
		}
		if _, err := s.Stage(Slot{Step: 1, Slot: -1}, nil); err == nil {
			return errors.New("slot -1 was staged")
		}
		return nil
	})
}

func TestStagingAllocatesNothing(t *testing.T) {
	s := open(t, plainConfig(1))
	g, n := ones(1, 2, 3), int64(0)
	step := func() {
		n++
		for slot := range 2 {
			if _, err := s.Stage(Slot{0, n, slot}, g); err != nil {
				t.Fatal(err)
			}
		}
		s.Discard(0, n)
	}
	step()
	if n := testing.AllocsPerRun(20, step); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
