package sparse

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// scenario is a training that is independent of the number of ranks and of how tables are stored
// and exchanged. Its gradients are multiples of 1/8, so that every sum is exact in any order. The
// rows must be the same however the scenario is run.
type scenario struct {
	cfg     Config
	batches []globalBatch
}

// globalBatch contains the keys and weights of its samples by feature, and the gradients of the
// samples by feature and part.
type globalBatch struct {
	keys    [][][]uint64
	weights [][][]float32
	dy      [][][]float32
	rows    int
}

// newScenario draws a scenario of three tables. The first may evict rows or update every row in
// each step. The second may have any strategy. The keys of the third come in bursts, so that its
// segments split.
func newScenario(rng *rand.Rand) *scenario {
	x := &scenario{cfg: Config{Seed: rng.Uint64(), Shards: 1 << rng.IntN(6)}}
	for i, name := range []string{"policies", "any", "bursts"} {
		t := Table{Name: name}
		for p := range 1 + rng.IntN(2) {
			t.Parts = append(t.Parts, Part{
				Name: fmt.Sprint("p", p), Dim: 1 + rng.IntN(4), Rule: optim.Rule{Kind: optim.Kinds()[rng.IntN(len(optim.Kinds()))]},
				L2: []float64{0, 0.125}[rng.IntN(2)], DenseL2: i == 0 && rng.IntN(3) == 0,
			})
		}
		if i == 0 && rng.IntN(2) == 0 {
			t.Evict.Age = 1 + rng.IntN(3)
		}
		if i == 0 && rng.IntN(2) == 0 {
			t.Evict.HalfLife, t.Evict.MinScore = 2, 0.4
		}
		if i != 1 && rng.IntN(2) == 0 { // with sketches that are too small
			t.Admit = table.Admit{After: 2 + rng.IntN(2), Counters: 64}
		}
		x.cfg.Tables = append(x.cfg.Tables, t)
	}
	for range 4 + rng.IntN(6) {
		x.batches = append(x.batches, x.batch(rng))
	}
	return x
}

func (x *scenario) batch(rng *rand.Rand) (b globalBatch) {
	b.rows = rng.IntN(13)
	for f := range 4 {
		table := f % len(x.cfg.Tables)
		burst := table == 2 && rng.IntN(3) == 0
		var keys [][]uint64
		var weights [][]float32
		for range b.rows {
			n := rng.IntN(4)
			if burst {
				n = 400
			}
			var bag []uint64
			var w []float32
			for range n {
				key := rng.Uint64N(12)
				if burst {
					key = rng.Uint64N(1 << 15)
				}
				bag, w = append(bag, key), append(w, float32(1+rng.IntN(3))/2)
			}
			keys, weights = append(keys, bag), append(weights, w)
		}
		var parts [][]float32
		for _, p := range x.cfg.Tables[table].Parts {
			g := make([]float32, b.rows*p.Dim)
			for i := range g {
				g[i] = float32(rng.IntN(17)-8) / 8
			}
			parts = append(parts, g)
		}
		b.keys, b.weights, b.dy = append(b.keys, keys), append(b.weights, weights), append(b.dy, parts)
	}
	return b
}

// of returns a rank's share of a batch.
func (x *scenario) of(n, rank, size int) (bags []Bags, dy [][][]float32) {
	b := &x.batches[n]
	lo, hi := b.rows*rank/size, b.rows*(rank+1)/size
	for f := range b.keys {
		at := Bags{Table: f % len(x.cfg.Tables), Offsets: []int32{0}, Weights: []float32{}}
		for i := lo; i < hi; i++ {
			at.Values, at.Weights = append(at.Values, b.keys[f][i]...), append(at.Weights, b.weights[f][i]...)
			at.Offsets = append(at.Offsets, int32(len(at.Values)))
		}
		var parts [][]float32
		for p, part := range x.cfg.Tables[at.Table].Parts {
			parts = append(parts, b.dy[f][p][lo*part.Dim:hi*part.Dim])
		}
		bags, dy = append(bags, at), append(dy, parts)
	}
	return bags, dy
}

// stage is a sequence of steps on one group of ranks.
type stage struct {
	from, to int
	size     int
	cfg      Config
	owner    []int32
	tier     int  // table whose rows go to disk, −1 for none
	ahead    bool // batches are prepared and pushed concurrently
	slots    bool // gradients are staged by slot until they are committed
}

func (c stage) String() string {
	return fmt.Sprintf("steps %d to %d on %d ranks, strategies %v, tier %d, ahead %t, slots %t",
		c.from, c.to, c.size, strategies(c.cfg), c.tier, c.ahead, c.slots)
}

// strategies returns the strategies of the tables of a configuration.
func strategies(c Config) (all []Strategy) {
	for _, t := range c.Tables {
		all = append(all, t.Strategy)
	}
	return all
}

// stages draws the stages in which a scenario is run.
func (x *scenario) stages(rng *rand.Rand) (all []stage) {
	for from := 0; from < len(x.batches); {
		c := stage{from: from, to: min(from+1+rng.IntN(5), len(x.batches)), size: 1 + rng.IntN(4), cfg: x.cfg, tier: []int{-1, 1, 2}[rng.IntN(3)], ahead: rng.IntN(2) == 0}
		c.cfg.Tables = slices.Clone(x.cfg.Tables)
		for i := range c.cfg.Tables {
			t, how := &c.cfg.Tables[i], Strategy(rng.IntN(len(strategyNames())))
			if how.Refuses(*t) == nil {
				t.Strategy = how
			}
		}
		if rng.IntN(3) == 0 {
			c.slots, c.ahead = true, false
		}
		if rng.IntN(2) == 0 {
			for range x.cfg.Shards {
				c.owner = append(c.owner, int32(rng.IntN(c.size)))
			}
		}
		all, from = append(all, c), c.to
	}
	return all
}

// run loads the checkpoint of the previous stage, runs a stage and saves.
func (x *scenario) run(c stage, before *saved, dir string) (*saved, []map[uint64][]float32, error) {
	after, rows, background := &saved{}, make([][]map[uint64][]float32, c.size), newGroup(c.size)
	err := errors.Join(together(c.size, c.cfg, func(s *Store) error {
		defer s.Close()
		if c.owner != nil {
			if err := s.Shards().Place(c.owner); err != nil {
				return err
			}
		}
		if c.tier >= 0 {
			if err := s.Files().OpenTier(c.tier, dir, 1); err != nil {
				return err
			}
		}
		if c.ahead {
			if err := s.Pipeline().Start(member{background, s.rank}); err != nil {
				return err
			}
		}
		if before != nil {
			if err := before.load(s); err != nil {
				return err
			}
			for t := range s.tables {
				s.Files().SetNow(t, int64(c.from))
			}
		}
		if err := x.train(s, c); err != nil {
			return err
		}
		rows[s.rank] = records(s)
		return after.save(s)
	})...)
	if err != nil {
		return nil, nil, err
	}
	all, err := merge(rows)
	return after, all, err
}

func (x *scenario) train(s *Store, c stage) error {
	now, next, prepared := s.NewLookup(), s.NewLookup(), false
	for n := c.from; n < c.to; n++ {
		bags, dy := x.of(n, s.rank, c.size)
		err := error(nil)
		if prepared {
			now, next = next, now
			err = s.Pipeline().Complete(now)
		} else {
			err = s.Pull(now, bags, true)
		}
		if prepared = c.ahead && n+1 < c.to; prepared && err == nil {
			bags, _ := x.of(n+1, s.rank, c.size)
			err = s.Pipeline().Prepare(next, bags, true)
		}
		if err != nil {
			return err
		}
		for f := range dy {
			for p, g := range dy[f] {
				now.PoolGrad(f, p, g, x.cfg.Tables[f%len(x.cfg.Tables)].Parts[p].Dim)
			}
		}
		if err := c.push(s, now, int64(n+1)); err != nil {
			return err
		}
		if err := s.Apply(Step{N: int64(n + 1), Scale: 0.5, Rate: 1}); err != nil {
			return err
		}
	}
	return nil
}

func (c stage) push(s *Store, l *Lookup, n int64) error {
	switch {
	case c.slots:
		var all []int
		for r := range c.size {
			all = append(all, r)
		}
		return errors.Join(s.Slots().Push(l, c.size-1-s.rank), s.Slots().Commit(all))
	case c.ahead:
		return s.Pipeline().Push(l)
	}
	return s.Push(l)
}

// TestAnySetupGivesTheSameRows runs scenarios on one rank with all rows in memory, and then in
// stages with any number of ranks and any strategies, owners, tiers and copies. The rows must be
// equal.
func TestAnySetupGivesTheSameRows(t *testing.T) {
	scenarios, dir := 20, t.TempDir()
	if testing.Short() {
		scenarios = 5
	}
	var ran []string
	for seed := range uint64(scenarios) {
		rng := rand.New(rand.NewPCG(seed, 5))
		x := newScenario(rng)
		_, want, err := x.run(stage{to: len(x.batches), size: 1, cfg: x.cfg, tier: -1}, nil, dir)
		if err != nil {
			t.Fatalf("scenario %d: %v", seed, err)
		}
		for range 2 {
			var before *saved
			var got []map[uint64][]float32
			stages := x.stages(rng)
			for _, c := range stages {
				if before, got, err = x.run(c, before, dir); err != nil {
					t.Fatalf("scenario %d: %v: %v", seed, c, err)
				}
				ran = append(ran, c.String())
			}
			if err := differ(got, want, 0); err != nil {
				t.Fatalf("scenario %d, in stages\n%v\n%v", seed, stages, err)
			}
		}
	}
	for _, some := range []string{"pooled", "slots true", "ahead true", "tier 2", "4 ranks"} {
		if !slices.ContainsFunc(ran, func(c string) bool { return strings.Contains(c, some) }) {
			t.Errorf("no stage had %q", some)
		}
	}
}
