package step

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/sparse/table"
	"github.com/wdlrun/wdlrun/trace"
)

// heldRows holds copies of the rows of some keys, by table.
type heldRows struct {
	widths []int
	values []map[uint64][]float32
}

func (r heldRows) Read(queries []Query) error {
	for _, q := range queries {
		width := r.widths[q.Table]
		for i, key := range q.Keys {
			to := q.Values[i*width : (i+1)*width]
			if copy(to, r.values[q.Table][key]) == 0 {
				table.FillUnknown(to)
			}
		}
	}
	return nil
}

// rowsOf copies the rows of keys below a limit.
func rowsOf(t *testing.T, tr *Trainer, limit uint64) (r heldRows) {
	store, l := tr.Store(), tr.model.layout
	for i, of := range l.Tables {
		b := sparse.Bags{Table: i, Offsets: []int32{0}}
		for key := range limit {
			b.Values, b.Offsets = append(b.Values, key), append(b.Offsets, int32(key+1))
		}
		lookup, width := store.NewLookup(), 0
		fatal.If(t, store.Pull(lookup, []sparse.Bags{b}, false))
		for _, p := range of.Parts {
			width += p.Dim
		}
		all, at := make([]float32, int(limit)*width), 0
		for p, part := range of.Parts {
			lookup.Pool(0, p, all[at:], width, false)
			at += part.Dim
		}
		held := map[uint64][]float32{}
		for key := range limit {
			if row := all[int(key)*width : int(key+1)*width]; !table.IsUnknown(row) {
				held[key] = row
			}
		}
		r.widths, r.values = append(r.widths, width), append(r.values, held)
	}
	return r
}

// randomBatch returns a batch with bags of 0 to 3 keys below limit; with single, each bag has
// one key.
func randomBatch(rng *rand.Rand, rows int, limit uint64, single bool) *encode.Batch {
	b := &encode.Batch{Rows: rows, Label: make([]float32, rows), RowID: make([]uint64, rows)}
	for f := range parityFeatures {
		j := encode.Jagged{Offsets: []int32{0}}
		for range rows {
			n := rng.IntN(4)
			if single {
				n = 1
			}
			for range n {
				j.Values = append(j.Values, rng.Uint64N(limit))
				if f == 1 && !single {
					j.Weights = append(j.Weights, rng.Float32())
				}
			}
			j.Offsets = append(j.Offsets, int32(len(j.Values)))
		}
		b.Sparse = append(b.Sparse, j)
	}
	for i := range rows {
		b.RowID[i], b.Label[i] = uint64(i), float32(rng.IntN(2))
		b.Dense = append(b.Dense, float32(rng.NormFloat64()), float32(rng.NormFloat64()))
	}
	return b
}

// part returns rows lo to hi of a batch, without labels.
func part(b *encode.Batch, lo, hi int) *encode.Batch {
	p := &encode.Batch{Rows: hi - lo, Dense: b.Dense[2*lo : 2*hi]}
	for _, j := range b.Sparse {
		from, to := j.Offsets[lo], j.Offsets[hi]
		own := encode.Jagged{Values: j.Values[from:to]}
		if j.Weights != nil {
			own.Weights = j.Weights[from:to]
		}
		for _, o := range j.Offsets[lo : hi+1] {
			own.Offsets = append(own.Offsets, o-from)
		}
		p.Sparse = append(p.Sparse, own)
	}
	return p
}

// evaluated returns the logits of all labels of an evaluation of one batch.
func evaluated(t *testing.T, tr *Trainer, b *encode.Batch) []float32 {
	all := []*encode.Batch{b, nil}
	if _, err := tr.Evaluate(func() (*encode.Batch, error) { next := all[0]; all = all[1:]; return next, nil }); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(tr.model.logit)
}

// scored trains a model for some steps and returns a scorer of it.
func scored(t *testing.T, kind config.Model, more func(*config.Config)) (*Trainer, *Scorer) {
	c, columns := kindConfig(kind)
	if more != nil {
		more(c)
		for i := range columns {
			columns[i].Deep = *c.Model.Deep
		}
		c.Fill()
	}
	l := layout.New(c, columns, []string{"d0", "d1"})
	tr, err := NewTrainer(single(), trace.New(0), c, l, Tables{})
	fatal.If(t, err)
	t.Cleanup(func() { tr.Close() })
	rng := rand.New(rand.NewPCG(4, 7))
	for n := range int64(4) {
		b := labelled(randomBatch(rng, 100, 40, false))
		if _, err := tr.Step(coming(n+1, b, nil)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := NewParameters(c, l)
	fatal.If(t, err)
	var saved bytes.Buffer
	fatal.If(t, tr.model.arena.Save(&saved))
	fatal.If(t, p.Read(&saved))
	s, err := NewScorer(c, l, p, rowsOf(t, tr, 40))
	fatal.If(t, err)
	return tr, s
}

// scorerCases are the variants of each kind of model.
var scorerCases = map[string]func(*config.Config){
	"one label":      nil,
	"several labels": withLabels,
	"batch norm":     func(c *config.Config) { c.Model.BatchNorm = true },
	"wide only":      func(c *config.Config) { *c.Model.Deep = false },
	"mean":           func(c *config.Config) { c.Model.Pooling = "mean" },
	"sqrtn, pooled by owners": func(c *config.Config) {
		for f := range parityFeatures {
			c.Tables = append(c.Tables, config.Table{Name: fmt.Sprintf("f%d", f), Pooling: "sqrtn", Strategy: "pooled"})
		}
	},
}

// TestScorerHasTheBitsOfEvaluation: scores have the bits of an evaluation, independent of the
// other samples of the batch.
func TestScorerHasTheBitsOfEvaluation(t *testing.T) {
	for _, kind := range kinds {
		for name, more := range scorerCases {
			if name == "wide only" && (kind.Kind != "wide_deep" || kind.Wide != nil) {
				continue
			}
			t.Run(fmt.Sprintf("%+v/%s", kind, name), func(t *testing.T) {
				tr, s := scored(t, kind, more)
				for _, single := range []bool{false, true} {
					b := labelled(randomBatch(rand.New(rand.NewPCG(1, 9)), 2*chunkRows+33, 50, single))
					for i := 0; i < len(b.Sparse[0].Values); i += 9 {
						b.Sparse[0].Values[i] = encode.KeyMissing
					}
					for range 2 { // before and after a batch of no rows
						compareScores(t, s, b, evaluated(t, tr, b), len(s.towers))
						if !slices.Equal(tr.Unknown(), unknownOf(b)) {
							t.Errorf("%v values of an evaluation are unknown, want %v", tr.Unknown(), unknownOf(b))
						}
						none, err := s.Score(part(b, 7, 7))
						if err != nil || len(none) != 0 || slices.Max(s.Unknown()) != 0 {
							t.Errorf("%d scores of no rows, %v unknown values: %v", len(none), s.Unknown(), err)
						}
					}
					_, err := s.Score(b)
					fatal.If(t, err)
					if !slices.Equal(s.Unknown(), unknownOf(b)) {
						t.Errorf("%v values are unknown, want %v", s.Unknown(), unknownOf(b))
					}
				}
			})
		}
	}
}

// unknownOf counts the keys that scored has not trained. A missing value is none of them.
func unknownOf(b *encode.Batch) (all []int64) {
	for _, j := range b.Sparse {
		n := int64(0)
		for _, key := range j.Values {
			if key >= 40 && key != encode.KeyMissing {
				n++
			}
		}
		all = append(all, n)
	}
	return all
}

// compareScores checks that batches of 1, 7, 300 and all samples give the same bits.
func compareScores(t *testing.T, s *Scorer, b *encode.Batch, want []float32, labels int) {
	t.Helper()
	if len(want) != b.Rows*labels {
		t.Fatalf("%d logits of %d rows", len(want), b.Rows)
	}
	if slices.Max(want) == slices.Min(want) {
		t.Fatal("all logits are the same")
	}
	for _, size := range []int{1, 7, 300, b.Rows} {
		for lo := 0; lo < b.Rows; lo += size {
			hi := min(lo+size, b.Rows)
			got, err := s.Score(part(b, lo, hi))
			fatal.If(t, err)
			for label := range labels {
				for i := range hi - lo {
					x, w := got[label*(hi-lo)+i], want[label*b.Rows+lo+i]
					if math.Float32bits(x) != math.Float32bits(w) {
						t.Fatalf("batches of %d: row %d, label %d: %v, the evaluation has %v", size, lo+i, label, x, w)
					}
				}
			}
		}
	}
}

// TestScorerSharesWhatRowsShare: if the first features are the same in all rows, their part
// of the first layer is computed once, with the same bits.
func TestScorerSharesWhatRowsShare(t *testing.T) {
	for name, more := range scorerCases {
		if name == "wide only" {
			continue
		}
		t.Run(name, func(t *testing.T) { sharesWhatRowsShare(t, kinds[0], more, 60) })
	}
	for _, kind := range kinds[1:] {
		most := 60
		if kind.Kind == "dcn_v2" && kind.Cross.Structure != "parallel" {
			most = 0 // its perceptron reads the cross network
		}
		if kind.Kind == "masknet" {
			most = 0 // several perceptrons read the input
		}
		t.Run(fmt.Sprintf("%+v", kind), func(t *testing.T) { sharesWhatRowsShare(t, kind, withLabels, most) })
	}
}

func sharesWhatRowsShare(t *testing.T, kind config.Model, more func(*config.Config), most int) {
	tr, s := scored(t, kind, func(c *config.Config) {
		c.Model.EmbeddingDim, c.Model.Init.Scale = 20, 0.2
		if more != nil {
			more(c)
		}
	})
	for shared := range parityFeatures + 1 {
		b := labelled(randomBatch(rand.New(rand.NewPCG(1, 9)), chunkRows+33, 50, true))
		for f := range shared {
			for i := range b.Sparse[f].Values {
				b.Sparse[f].Values[i] = []uint64{7, 47, encode.KeyMissing}[f%3] // only the first has a row
			}
		}
		want := evaluated(t, tr, b)
		compareScores(t, s, part(b, 0, b.Rows), want, len(s.towers))
		if _, err := s.Score(b); err != nil || len(s.shared) != min(20*shared, most) {
			t.Errorf("%d columns of %d features are shared, %v", len(s.shared), shared, err)
		}
		if !slices.Equal(s.Unknown(), unknownOf(b)) {
			t.Errorf("%v values are unknown, want %v", s.Unknown(), unknownOf(b))
		}
	}
}

// TestScorerOfBF16: a model trained in bfloat16 is scored in float32, like in an evaluation.
func TestScorerOfBF16(t *testing.T) {
	if err := f32.NoBF16(); err != nil {
		t.Skip(err)
	}
	bf16 := func(c *config.Config) { c.Train.Precision, c.Model.Activation = "bf16", "relu" }
	tr, s := scored(t, kinds[0], bf16)
	c, columns := kindConfig(kinds[0])
	c.Model.Activation = "relu"
	c.Fill()
	plain, err := NewTrainer(single(), trace.New(0), c, layout.New(c, columns, []string{"d0", "d1"}), Tables{})
	fatal.If(t, err)
	defer plain.Close()
	copy(plain.model.arena.Values(), tr.model.arena.Values())
	plain.model.arena.Changed()
	b := randomBatch(rand.New(rand.NewPCG(1, 9)), 40, 40, true)
	s.rows = rowsOf(t, plain, 40) // empty: its store has not been trained
	compareScores(t, s, b, evaluated(t, plain, b), 1)
}

// TestScorerInBF16: scores in bfloat16 are near those in float32, but not equal, with and
// without shared columns. A model that cannot be computed in bfloat16 is rejected.
func TestScorerInBF16(t *testing.T) {
	if err := f32.NoBF16(); err != nil {
		t.Skip(err)
	}
	for _, kind := range kinds {
		for name, more := range scorerCases {
			if name == "wide only" {
				continue
			}
			t.Run(fmt.Sprintf("%+v/%s", kind, name), func(t *testing.T) { scoresInBF16(t, kind, more, name == "batch norm") })
		}
	}
}

func scoresInBF16(t *testing.T, kind config.Model, more func(*config.Config), rejected bool) {
	var c *config.Config
	tr, s := scored(t, kind, func(to *config.Config) {
		to.Model.EmbeddingDim, to.Model.Init.Scale, to.Model.Activation = 20, 0.2, "relu"
		if more != nil {
			more(to)
		}
		c = to
	})
	p, err := NewParameters(c, s.layout)
	fatal.If(t, err)
	copy(p.arena.Values(), tr.model.arena.Values())
	p.arena.Changed()
	half, err := NewScorerBF16(c, s.layout, p, s.rows)
	if rejected {
		if err == nil || !strings.Contains(err.Error(), "use fp32") {
			t.Errorf("error %v", err)
		}
		return
	}
	fatal.If(t, err)
	for _, shared := range []int{0, 2} {
		b := randomBatch(rand.New(rand.NewPCG(1, 9)), 100, 40, true)
		if none, err := half.Score(part(b, 7, 7)); err != nil || len(none) != 0 {
			t.Errorf("%d scores of no rows: %v", len(none), err)
		}
		for f := range shared {
			for i := range b.Sparse[f].Values {
				b.Sparse[f].Values[i] = uint64(7 + f)
			}
		}
		want, err := s.Score(b)
		fatal.If(t, err)
		got, err := half.Score(b)
		fatal.If(t, err)
		most := 0.0
		for i := range want {
			most = max(most, math.Abs(float64(got[i]-want[i])))
		}
		if most == 0 || most > 0.1 {
			t.Errorf("%d shared features: the logits differ by at most %v", shared, most)
		}
	}
}

// TestScorersShare: scorers of one model can be used concurrently.
func TestScorersShare(t *testing.T) {
	tr, s := scored(t, kinds[1], nil)
	b := randomBatch(rand.New(rand.NewPCG(1, 9)), 300, 50, false)
	want := evaluated(t, tr, b)
	c, columns := kindConfig(kinds[1])
	l := layout.New(c, columns, []string{"d0", "d1"})
	p, err := NewParameters(c, l)
	fatal.If(t, err)
	copy(p.arena.Values(), tr.model.arena.Values())
	p.arena.Changed()
	got, done := make([][]float32, 3), make(chan error)
	for i := range got {
		go func() {
			own, err := NewScorer(c, l, p, s.rows)
			for range 5 {
				if err == nil {
					got[i], err = own.Score(b)
				}
			}
			done <- err
		}()
	}
	for range got {
		fatal.If(t, <-done)
	}
	for i := range got {
		if !slices.Equal(got[i], want) {
			t.Errorf("scorer %d differs", i)
		}
	}
}

func TestScorerAllocatesNothing(t *testing.T) {
	for _, kind := range kinds {
		_, s := scored(t, kind, withLabels)
		b := randomBatch(rand.New(rand.NewPCG(1, 9)), 300, 50, false)
		score := func() {
			if _, err := s.Score(b); err != nil {
				t.Fatal(err)
			}
		}
		score()
		if n := testing.AllocsPerRun(20, score); n != 0 {
			t.Errorf("%+v: %v allocations", kind, n)
		}
	}
}

func TestScorerRejectsOtherBatches(t *testing.T) {
	_, s := scored(t, kinds[0], nil)
	b := randomBatch(rand.New(rand.NewPCG(1, 9)), 3, 50, false)
	b.Sparse = b.Sparse[1:]
	if _, err := s.Score(b); err == nil {
		t.Error("a batch without a feature is scored")
	}
}

// BenchmarkScore scores 100 candidates of one request with 60 features of 10 columns, of
// which 0 or 40 are the same in all samples, 80 wide weights, and hidden layers 256-256-256, in
// both precisions.
func BenchmarkScore(b *testing.B) {
	for _, shared := range []int{0, 40} {
		b.Run(fmt.Sprintf("shared=%d", shared), func(b *testing.B) { benchmarkScore(b, shared, NewScorer) })
		if f32.NoBF16() == nil {
			b.Run(fmt.Sprintf("shared=%d/bf16", shared), func(b *testing.B) { benchmarkScore(b, shared, NewScorerBF16) })
		}
	}
}

func benchmarkScore(b *testing.B, shared int, newScorer func(*config.Config, layout.Layout, *Parameters, Rows) (*Scorer, error)) {
	const rows, features, wide = 100, 60, 80
	c := &config.Config{}
	c.Model.EmbeddingDim, c.Model.Hidden = 10, []int{256, 256, 256}
	c.Label.Field = "y"
	var columns []encode.SparseColumn
	batch, rng := &encode.Batch{Rows: rows}, rand.New(rand.NewPCG(1, 2))
	for f := range wide {
		name := fmt.Sprintf("f%d", f)
		deep := f < features
		c.Features = append(c.Features, schema.Feature{Name: name, Field: name, Encode: "id", Deep: &deep})
		columns = append(columns, encode.SparseColumn{Name: name, Table: name, Wide: true, Deep: deep})
		j := encode.Jagged{Offsets: []int32{0}}
		key := rng.Uint64N(100)
		for i := range rows {
			if f >= shared {
				key = rng.Uint64N(100)
			}
			j.Values, j.Offsets = append(j.Values, key), append(j.Offsets, int32(i+1))
		}
		batch.Sparse = append(batch.Sparse, j)
	}
	c.Fill()
	l := layout.New(c, columns, nil)
	p, err := NewParameters(c, l)
	fatal.If(b, err)
	s, err := newScorer(c, l, p, noiseRows{})
	fatal.If(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Score(batch); err != nil {
			b.Fatal(err)
		}
	}
}

// noiseRows returns a row for every key without a lookup.
type noiseRows struct{}

func (noiseRows) Read(queries []Query) error {
	for _, q := range queries {
		for i := range q.Values {
			q.Values[i] = float32(i%7) / 8
		}
	}
	return nil
}
