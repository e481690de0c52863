package sparse

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

// TestSlotsEqualRanks trains a job whose microbatch k is computed by rank k. Then it deals the
// microbatches to ranks in another order in every step and pushes them as slots, one of them
// twice. The rows have the same bits.
func TestSlotsEqualRanks(t *testing.T) {
	const size, steps = 3, 15
	j := fixedJob(optim.Rule{Kind: "adam"}, false, size, steps)
	want := j.onStores(t, size)
	rows := make([][]map[uint64][]float32, size)
	onRanks(t, size, j.cfg, func(s *Store) error {
		rng, a, b := rand.New(rand.NewPCG(1, 1)), s.NewLookup(), s.NewLookup()
		for i, step := range j.steps {
			deal := rng.Perm(size)
			for _, push := range []struct {
				l    *Lookup
				slot int
			}{{a, deal[s.rank]}, {b, deal[(s.rank+1)%size]}} { // another rank repeats each microbatch
				if err := s.Pull(push.l, step.bags[push.slot], true); err != nil {
					return err
				}
				grads(push.l, step.dy[push.slot], j.cfg)
				var err error
				if push.l == b && s.rank == i%size {
					err = s.Slots().PushNone(push.l)
				} else {
					err = s.Slots().Push(push.l, push.slot)
				}
				if err != nil {
					return err
				}
			}
			all := []int{0, 1, 2}
			if got := s.Slots().stagedSlots(); !slices.Equal(got, all) {
				return fmt.Errorf("slots %v of step %d are staged", got, i+1)
			}
			if err := errors.Join(s.Slots().Commit(rng.Perm(size)), s.Apply(step.at)); err != nil {
				return err
			}
		}
		rows[s.rank] = records(s)
		return nil
	})
	got, err := merge(rows)
	fatal.If(t, err)
	fatal.If(t, differ(got, want.rows, 0))
}

// grads computes the gradients of a batch.
func grads(l *Lookup, dy [][][]float32, cfg Config) {
	for f := range dy {
		for p, g := range dy[f] {
			l.PoolGrad(f, p, g, cfg.Tables[l.features[f].table].Parts[p].Dim)
		}
	}
}

// pushOnes pushes a gradient of 1 for each key as one slot of a rank. The table has dim 1.
func pushOnes(t *testing.T, s *Store, l *Lookup, slot int, keys ...uint64) {
	t.Helper()
	fatal.If(t, s.Pull(l, oneBag(keys...), true))
	l.PoolGrad(0, 0, []float32{1}, 1)
	fatal.If(t, s.Slots().Push(l, slot))
}

// TestOnlyCommittedSlotsCount: Commit sums only the given slots, and rejects slots that are
// missing or given twice.
func TestOnlyCommittedSlotsCount(t *testing.T) {
	s := open(t, plainConfig(1))
	l := s.NewLookup()
	pushOnes(t, s, l, 5, 7, 9)
	pushOnes(t, s, l, 0, 7)
	pushOnes(t, s, l, 2, 7, 8)
	pushOnes(t, s, l, 2, 7) // a second attempt at the slot
	if err := s.Slots().Commit([]int{0, 1}); err == nil || !strings.Contains(err.Error(), "slot 1 is not staged, only [0 2 5] are") {
		t.Fatalf("committing a missing slot: %v", err)
	}
	if err := s.Slots().Commit([]int{2, 2}); err == nil || !strings.Contains(err.Error(), "given twice") {
		t.Fatalf("committing twice: %v", err)
	}
	if s.staged[0].set.Len() != 0 {
		t.Fatal("a Commit that failed has added gradients")
	}
	fatal.If(t, errors.Join(s.Slots().Commit([]int{2, 0}), s.Apply(Step{N: 1, Scale: 1, Rate: 1})))
	for key, want := range map[uint64]float32{7: -2, 8: -1, 9: 0} {
		if v := read(t, s, key)[0]; v != want {
			t.Errorf("key %d is %v, want %v", key, v, want)
		}
	}
	if n := s.Rows(0); n != 2 {
		t.Errorf("%d rows: a slot that does not count inserted one", n)
	}
	if got := s.Slots().stagedSlots(); got != nil {
		t.Errorf("after Commit, slots %v are staged", got)
	}
	if err := errors.Join(s.Pull(l, oneBag(7), true), s.Slots().Push(l, -1)); err == nil || !strings.Contains(err.Error(), "slots count from 0") {
		t.Errorf("slot -1: %v", err)
	}
}

// TestResetForgetsSlots: after Reset no slot is staged, so that a group that returns to a
// checkpoint can repeat the step.
func TestResetForgetsSlots(t *testing.T) {
	s := open(t, plainConfig(1))
	pushOnes(t, s, s.NewLookup(), 0, 7)
	if err := s.Reset(); err != nil || s.Slots().stagedSlots() != nil {
		t.Fatalf("%v; slots %v are staged", err, s.Slots().stagedSlots())
	}
}

// TestStagingAllocatesNothing: after the first steps, a step with slots allocates no memory.
func TestStagingAllocatesNothing(t *testing.T) {
	s := open(t, plainConfig(1))
	l, bags := s.NewLookup(), oneBag(1, 2, 3)
	step := func() {
		for slot := range 2 {
			fatal.If(t, s.Pull(l, bags, true))
			fatal.If(t, s.Slots().Push(l, slot))
		}
		fatal.If(t, s.Slots().Commit(nil))
	}
	step()
	if n := testing.AllocsPerRun(20, step); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
