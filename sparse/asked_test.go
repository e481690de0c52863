package sparse

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestOwnersFindAKeyOnce counts the lookups in tables of keys that three ranks request.
func TestOwnersFindAKeyOnce(t *testing.T) {
	const ranks, distinct = 3, 100
	var found [ranks]int64
	onRanks(t, ranks, plainConfig(1), func(s *Store) error {
		keys := make([]uint64, distinct)
		for i, k := range rand.New(rand.NewPCG(1, uint64(s.rank))).Perm(distinct) {
			keys[i] = uint64(k)
		}
		l := s.NewLookup()
		if err := s.Pull(l, oneBag(keys...), true); err != nil {
			return err
		}
		c := s.tables[0].Counters()
		found[s.rank] = c.Hits + c.Misses
		if err := s.Push(l); err != nil {
			return err
		}
		if g := s.staged[0]; int64(g.set.Len()) != found[s.rank] || len(g.rows) != g.set.Len() {
			return fmt.Errorf("%d keys and %d rows are staged, want the %d found", g.set.Len(), len(g.rows), found[s.rank])
		}
		return s.Apply(Step{N: 1, Scale: 1, Rate: 1})
	})
	if n := found[0] + found[1] + found[2]; n != distinct {
		t.Errorf("%d lookups, want one for each of %d keys", n, distinct)
	}
}

// TestTwoPushesBeforeAnApply pushes two batches of every rank before the step is applied. The
// sum of the gradients equals the sum on a single rank.
func TestTwoPushesBeforeAnApply(t *testing.T) {
	const ranks = 3
	onRanks(t, ranks, plainConfig(1), func(s *Store) error {
		for push := range uint64(2) {
			l := s.NewLookup()
			own := 10 + uint64(s.rank) + 3*push
			if err := s.Pull(l, oneBag(own, 7, 8+push), true); err != nil {
				return err
			}
			l.PoolGrad(0, 0, []float32{1}, 1)
			if err := s.Push(l); err != nil {
				return err
			}
		}
		if err := s.Apply(Step{N: 1, Scale: 1, Rate: 1}); err != nil {
			return err
		}
		want := []float32{-6, -3, -3, -1, -1, -1} // by key, from 7 on
		l, got := s.NewLookup(), make([]float32, 1)
		for i, w := range want {
			if err := s.Pull(l, oneBag(uint64(7+i)), false); err != nil {
				return err
			}
			if l.Pool(0, 0, got, 1, false); got[0] != w {
				return fmt.Errorf("key %d: %v, want %v", 7+i, got[0], w)
			}
		}
		return nil
	})
}
