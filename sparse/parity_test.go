package sparse

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse/table"
)

type nonFiniteError = table.NonFiniteError

// job is a deterministic training job with synthetic gradients.
type job struct {
	cfg   Config
	steps []jobStep
	tier  string // folder of a tier for all rows of table 1, if not empty
}

// jobStep is one step: by rank the bags and, by feature and part, the gradients
// of the pooled values.
type jobStep struct {
	bags [][]Bags
	dy   [][][][]float32
	at   Step

	background bool // push concurrently
}

// run makes one step of one rank. It returns the pooled values by feature and part, and the
// rank's share of the norm.
func (j *jobStep) run(s *Store, l *Lookup) (pooled [][][]float32, norm float64, err error) {
	if err := s.Pull(l, j.bags[s.rank], true); err != nil {
		return nil, 0, err
	}
	return j.train(s, l)
}

// train performs the part of a step after the pull.
func (j *jobStep) train(s *Store, l *Lookup) (pooled [][][]float32, norm float64, err error) {
	for f, b := range j.bags[s.rank] {
		var parts [][]float32
		for p, part := range s.cfg.Tables[b.Table].Parts {
			dst := make([]float32, (len(b.Offsets)-1)*part.Dim)
			l.Pool(f, p, dst, part.Dim, false)
			l.PoolGrad(f, p, j.dy[s.rank][f][p], part.Dim)
			parts = append(parts, dst)
		}
		pooled = append(pooled, parts)
	}
	push := s.Push
	if j.background {
		push = s.Pipeline().Push
	}
	if err := push(l); err != nil {
		return nil, 0, err
	}
	norm = s.GradNormSq(j.at.Scale)
	return pooled, norm, s.Apply(j.at)
}

// outcome is the result of running a job.
type outcome struct {
	pooled [][][][][]float32 // by step, rank, feature, part
	norms  []float64         // by step, over ranks
	rows   []map[uint64][]float32
}

func (j *job) onStores(t testing.TB, size int) outcome {
	t.Helper()
	out := outcome{norms: make([]float64, len(j.steps))}
	norms := make([][]float64, size)
	rows := make([][]map[uint64][]float32, size)
	for range j.steps {
		out.pooled = append(out.pooled, make([][][][]float32, size))
	}
	onRanks(t, size, j.cfg, func(s *Store) error {
		l := s.NewLookup()
		for i := range j.steps {
			pooled, norm, err := j.steps[i].run(s, l)
			if err != nil {
				return err
			}
			out.pooled[i][s.rank] = pooled
			norms[s.rank] = append(norms[s.rank], norm)
		}
		rows[s.rank] = records(s)
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
	return out
}

func (j *job) onTwin() outcome {
	w, out := newTwin(j.cfg), outcome{}
	for _, step := range j.steps {
		var ranks [][][][]float32
		for r, bags := range step.bags {
			var pooled [][][]float32
			for _, b := range bags {
				var parts [][]float32
				for p := range w.cfg.Tables[b.Table].Parts {
					parts = append(parts, w.pool(b, p))
				}
				pooled = append(pooled, parts)
			}
			ranks = append(ranks, pooled)
			w.push(bags, step.dy[r])
		}
		out.pooled = append(out.pooled, ranks)
		out.norms = append(out.norms, w.normSq(step.at.Scale))
		w.apply(step.at)
	}
	out.rows = w.records()
	return out
}

func (got outcome) compare(want outcome, tolerance float64) error {
	for i := range want.pooled {
		for r := range want.pooled[i] {
			for f := range want.pooled[i][r] {
				for p := range want.pooled[i][r][f] {
					if err := near(got.pooled[i][r][f][p], want.pooled[i][r][f][p], tolerance); err != nil {
						return fmt.Errorf("step %d rank %d feature %d part %d pooled: %w", i, r, f, p, err)
					}
				}
			}
		}
		if g, w := got.norms[i], want.norms[i]; !(math.Abs(g-w) <= (1e-9+tolerance)*w) {
			return fmt.Errorf("step %d: squared norm %v, want %v", i, g, w)
		}
	}
	return differ(got.rows, want.rows, tolerance)
}

// drawJob draws a random job that size ranks can run.
func drawJob(t *rapid.T, size int) *job {
	j := &job{cfg: Config{
		Seed:   rapid.Uint64().Draw(t, "seed"),
		Shards: 1 << rapid.IntRange(0, 5).Draw(t, "log shards"),
	}}
	for i := range rapid.IntRange(1, 3).Draw(t, "tables") {
		tab := Table{Name: fmt.Sprint("t", i)}
		for k := range rapid.IntRange(1, 3).Draw(t, "parts") {
			tab.Parts = append(tab.Parts, Part{
				Name:    fmt.Sprint("p", k),
				Dim:     rapid.IntRange(1, 5).Draw(t, "dim"),
				Rule:    optim.Rule{Kind: rapid.SampledFrom(optim.Kinds()).Draw(t, "kind")},
				Init:    Init{Kind: rapid.SampledFrom([]string{"", "zero", "normal", "uniform"}).Draw(t, "init")},
				L2:      rapid.SampledFrom([]float64{0, 0, 0.1}).Draw(t, "l2"),
				DenseL2: rapid.Bool().Draw(t, "dense"),
			})
		}
		j.cfg.Tables = append(j.cfg.Tables, tab)
	}
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "gradients"), 1))
	var features []int
	for range rapid.IntRange(0, 4).Draw(t, "features") {
		features = append(features, rapid.IntRange(0, len(j.cfg.Tables)-1).Draw(t, "table"))
	}
	for n := range rapid.IntRange(1, 4).Draw(t, "steps") {
		step := jobStep{at: Step{
			N: int64(n + 1), Scale: 0.25, Rate: rapid.SampledFrom([]float64{1, 0.5}).Draw(t, "rate"),
			Clip: rapid.SampledFrom([]float32{0, 0.7}).Draw(t, "clip"),
		}}
		for range size {
			bags, dy := drawBatch(t, j.cfg, features, rng)
			step.bags, step.dy = append(step.bags, bags), append(step.dy, dy)
		}
		j.steps = append(j.steps, step)
	}
	return j
}

func drawBatch(t *rapid.T, cfg Config, features []int, rng *rand.Rand) (bags []Bags, dy [][][]float32) {
	keys := rapid.OneOf(rapid.Uint64Range(0, 9), rapid.Uint64Range(math.MaxUint64-2, math.MaxUint64), rapid.Uint64())
	n := rapid.IntRange(0, 5).Draw(t, "batch")
	for _, table := range features {
		b := Bags{Table: table, Offsets: []int32{0}, Pooling: Pooling(rapid.IntRange(0, 2).Draw(t, "pooling"))}
		for range n {
			b.Values = append(b.Values, rapid.SliceOfN(keys, 0, 3).Draw(t, "bag")...)
			b.Offsets = append(b.Offsets, int32(len(b.Values)))
		}
		if rapid.Bool().Draw(t, "weighted") {
			b.Weights = make([]float32, len(b.Values))
			for i := range b.Weights {
				b.Weights[i] = float32(rng.IntN(8)) / 4
			}
		}
		var parts [][]float32
		for _, p := range cfg.Tables[table].Parts {
			g := make([]float32, n*p.Dim)
			for i := range g {
				g[i] = float32(rng.NormFloat64())
			}
			parts = append(parts, g)
		}
		bags, dy = append(bags, b), append(dy, parts)
	}
	return bags, dy
}

// TestStoreEqualsItsTwinToTheBit: random jobs on one to three ranks have the bits of the twin.
func TestStoreEqualsItsTwinToTheBit(t *testing.T) {
	for size := 1; size <= 3; size++ {
		t.Run(fmt.Sprint("P=", size), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				j := drawJob(rt, size)
				fatal.If(rt, j.onStores(t, size).compare(j.onTwin(), 0))
			})
		})
	}
}

// fixedJob returns a job with the given rule on the rows of two features. Its samples are
// distributed evenly over the ranks.
func fixedJob(rule optim.Rule, dense bool, ranks, steps int) *job {
	j := &job{cfg: Config{Seed: 7, Shards: 16, Tables: []Table{
		{Name: "item", Parts: []Part{
			{Name: "deep", Dim: 4, Rule: rule, L2: 0.01, DenseL2: dense},
			{Name: "wide", Dim: 1, Rule: optim.Rule{Kind: "ftrl", L1: 0.001}},
		}},
		{Name: "user", Parts: []Part{{Name: "deep", Dim: 3, Rule: rule}}},
	}}}
	const batch = 12
	for n := range steps {
		rng := rand.New(rand.NewPCG(uint64(n), 3))
		step := jobStep{at: Step{N: int64(n + 1), Scale: 1. / batch, Rate: 1}}
		for range ranks {
			item := Bags{Table: 0, Offsets: []int32{0}, Pooling: Mean}
			user := Bags{Table: 1, Offsets: []int32{0}}
			deep, wide, of := []float32{}, []float32{}, []float32{}
			for range batch / ranks {
				for range rng.IntN(4) {
					item.Values = append(item.Values, uint64(rng.IntN(20)))
				}
				user.Values = append(user.Values, uint64(rng.IntN(10)))
				item.Offsets = append(item.Offsets, int32(len(item.Values)))
				user.Offsets = append(user.Offsets, int32(len(user.Values)))
				for range 4 {
					deep = append(deep, float32(rng.NormFloat64()))
				}
				wide = append(wide, float32(rng.NormFloat64()))
				for range 3 {
					of = append(of, float32(rng.NormFloat64()))
				}
			}
			step.bags = append(step.bags, []Bags{item, user})
			step.dy = append(step.dy, [][][]float32{{deep, wide}, {of}})
		}
		j.steps = append(j.steps, step)
	}
	return j
}

// TestWorldSizesAgreeForEveryRule: jobs on several ranks agree with one rank within the rounding
// error of the sums.
func TestWorldSizesAgreeForEveryRule(t *testing.T) {
	for _, kind := range optim.Kinds() {
		for _, dense := range []bool{false, true} {
			rule := optim.Rule{Kind: kind}
			one := fixedJob(rule, dense, 1, 20).onStores(t, 1)
			for _, size := range []int{2, 3} {
				many := fixedJob(rule, dense, size, 20).onStores(t, size)
				if err := differ(many.rows, one.rows, 1e-4); err != nil {
					t.Errorf("%s, dense %t, %d ranks compared with one: %v", kind, dense, size, err)
				}
				for i := range one.norms {
					if d := math.Abs(many.norms[i]-one.norms[i]) / one.norms[i]; d > 1e-4 {
						t.Errorf("%s, dense %t, %d ranks, step %d: squared norm %v, one rank %v", kind, dense, size, i, many.norms[i], one.norms[i])
					}
				}
			}
		}
	}
}

// TestSameSeedSameBits: a job has the same bits in each run, and another seed gives other rows.
func TestSameSeedSameBits(t *testing.T) {
	j := fixedJob(optim.Rule{Kind: "adam"}, true, 3, 10)
	a, b := j.onStores(t, 3), j.onStores(t, 3)
	fatal.If(t, a.compare(b, 0))
	if !slices.Equal(a.norms, b.norms) {
		t.Fatalf("norms %v and %v", a.norms, b.norms)
	}
	j.cfg.Seed++
	if differ(j.onStores(t, 3).rows, a.rows, 0) == nil {
		t.Fatal("another seed gives the same rows")
	}
}

// TestDenseL2EqualsADenseLayer compares DenseL2 with a framework that stores the embedding as a
// K×E matrix and updates all of it with Adam in every step.
func TestDenseL2EqualsADenseLayer(t *testing.T) {
	const keys, dim, steps, l2 = 12, 3, 30, 0.05
	rule := optim.Rule{Kind: "adam", LearningRate: 0.01}
	cfg := Config{Seed: 1, Shards: 4, Tables: []Table{{Name: "x", Parts: []Part{
		{Name: "deep", Dim: dim, Rule: rule, L2: l2, DenseL2: true, Init: Init{Kind: "normal", Scale: 0.1}},
	}}}}
	matrix, state := make([]float32, keys*dim), make([]float32, rule.StateLen(keys*dim))
	rule.InitState(matrix, state)
	initial, err := table.Open(cfg.Tables[0].engine(), cfg.Seed, cfg.Shards)
	fatal.If(t, err)
	all := Bags{Offsets: []int32{0}}
	for k := range keys {
		initial.Initial(uint64(k), matrix[k*dim:(k+1)*dim])
		all.Values = append(all.Values, uint64(k))
		all.Offsets = append(all.Offsets, int32(k+1))
	}
	rng := rand.New(rand.NewPCG(5, 5))
	batches := make([][]float32, steps) // dense gradients, zero where a key is absent
	for n := range batches {
		batches[n] = make([]float32, keys*dim)
		for k := range keys {
			if n == 0 || rng.IntN(4) == 0 { // the first step inserts every key
				for d := range dim {
					batches[n][k*dim+d] = float32(rng.NormFloat64())
				}
			}
		}
		g := slices.Clone(batches[n])
		for i := range g {
			g[i] += l2 * matrix[i]
		}
		u := rule.At(optim.Step{N: int64(n + 1), Rate: 1})
		u.Apply(0, matrix, g, state)
	}
	got := make([]float32, keys*dim)
	onRanks(t, 2, cfg, func(s *Store) error {
		l := s.NewLookup()
		for n, g := range batches {
			mine, dy := Bags{Offsets: []int32{0}}, []float32(nil)
			for k := range keys {
				if k%2 == s.rank && (n == 0 || g[k*dim] != 0) {
					mine.Values = append(mine.Values, uint64(k))
					mine.Offsets = append(mine.Offsets, int32(len(mine.Values)))
					dy = append(dy, g[k*dim:(k+1)*dim]...)
				}
			}
			if err := s.Pull(l, []Bags{mine}, true); err != nil {
				return err
			}
			l.PoolGrad(0, 0, dy, dim)
			if err := s.Push(l); err != nil {
				return err
			}
			if err := s.Apply(Step{N: int64(n + 1), Scale: 1, Rate: 1}); err != nil {
				return err
			}
		}
		if err := s.Pull(l, []Bags{all}, false); err != nil || s.rank != 0 {
			return err
		}
		l.Pool(0, 0, got, dim, false)
		return nil
	})
	fatal.If(t, near(got, matrix, 1e-5))
}
