package sparse

import (
	"fmt"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// TestKeysWithoutARowReadZeros: with every strategy, keys without a row read as zeros outside
// training. If the table admits keys later, they also read as zeros in training. The ranks
// together count them.
func TestKeysWithoutARowReadZeros(t *testing.T) {
	for _, how := range []Strategy{Rows, Pooled} {
		for _, after := range []int{0, 3} {
			for size := 1; size <= 3; size++ {
				for _, side := range []bool{false, true} {
					t.Run(fmt.Sprintf("%v/admit=%d/P=%d/side=%t", how, after, size, side), func(t *testing.T) {
						readUnknown(t, how, after, size, side)
					})
				}
			}
		}
	}
}

// readUnknown trains keys 1 to 4 in four steps and reads them together with untrained keys.
func readUnknown(t *testing.T, how Strategy, after, size int, side bool) {
	const dim = 3
	cfg := plainConfig(dim)
	x := &cfg.Tables[0]
	x.Strategy, x.Admit.After, x.Parts[0].Init = how, after, Init{Kind: "normal", Scale: 1}
	engine, err := table.Open(x.engine(), 0, 1)
	fatal.If(t, err)
	initial := func(key uint64) []float32 {
		row := make([]float32, dim)
		engine.Initial(key, row)
		return row
	}
	unknown := make([]int64, size)
	background := newGroup(size)
	onRanks(t, size, cfg, func(s *Store) error {
		defer s.Close()
		if side {
			if err := s.Pipeline().Start(member{background, s.rank}); err != nil {
				return err
			}
		}
		if err := trainFour(s, initial, after); err != nil {
			return err
		}
		var err error
		unknown[s.rank], err = readMixed(s, initial, 5-max(1, after))
		return err
	})
	total := int64(0)
	for _, n := range unknown {
		total += n
	}
	if want := int64(3 * size * (1 + 2 + 2)); total != want {
		t.Errorf("%d values were unknown, want %d", total, want)
	}
}

// trainFour trains keys 1 to 4 in four steps, each prepared during the previous one, and checks
// the values that training reads.
func trainFour(s *Store, initial func(key uint64) []float32, after int) error {
	const dim = 3
	bags := []Bags{{Values: []uint64{1, 2, 3, 4}, Offsets: []int32{0, 1, 2, 3, 4}}}
	now, next := s.NewLookup(), s.NewLookup()
	if err := s.Pipeline().Prepare(now, bags, true); err != nil {
		return err
	}
	got, ones := make([]float32, 4*dim), slices.Repeat([]float32{1}, 4*dim)
	for n := 1; n <= 4; n++ {
		if err := s.Pipeline().Complete(now); err != nil {
			return err
		}
		now.Pool(0, 0, got, dim, false)
		for i, v := range got {
			want := initial(uint64(1 + i/dim))[i%dim]
			for range n - max(1, after) { // updates of the row
				want -= float32(s.size)
			}
			if n <= after {
				want = 0
			}
			if v != want {
				return fmt.Errorf("step %d: training reads %v at %d, want %v", n, v, i, want)
			}
		}
		if n < 4 {
			if err := s.Pipeline().Prepare(next, bags, true); err != nil {
				return err
			}
		}
		now.PoolGrad(0, 0, ones, dim)
		if err := s.Push(now); err != nil {
			return err
		}
		if err := s.Apply(Step{N: int64(n), Scale: 1, Rate: 1}); err != nil {
			return err
		}
		now, next = next, now
	}
	return nil
}

// readMixed reads bags of the trained keys 1 to 4, whose rows have been updated steps times, and
// of other keys. It returns the number of unknown values.
func readMixed(s *Store, initial func(key uint64) []float32, steps int) (unknown int64, err error) {
	l, got := s.NewLookup(), make([]float32, 3)
	for _, pooling := range []Pooling{Sum, Mean, SqrtN} {
		for _, keys := range [][]uint64{{9}, {1, 8, 9}, {7, 2, 8, 1}} {
			bags := oneBag(keys...)
			bags[0].Pooling = pooling
			if err := s.Pull(l, bags, false); err != nil {
				return 0, err
			}
			l.Pool(0, 0, got, len(got), false)
			want := make([]float32, len(got))
			for _, key := range keys {
				for d, v := range initial(key) {
					if key <= 4 {
						want[d] += (v - float32(steps*s.size)) * factors(bags[0], 0)[0]
					}
				}
			}
			if err := near(got, want, 1e-6); err != nil {
				return 0, fmt.Errorf("%v of %v: %w", pooling, keys, err)
			}
			unknown += l.Unknown(0)
		}
	}
	return unknown, nil
}
