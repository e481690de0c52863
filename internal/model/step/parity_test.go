package step

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// parity is the content of testdata/parity.json: a small Wide & Deep model computed in float64 by another
// framework: three features with a vocabulary of 11 and bags of 0 to 3 keys, E = 4, D = 2,
// hidden 8 and 5, B = 6, ten steps on one batch. This package must reproduce its logits,
// every gradient of the first step, the ten losses and the final parameters, for each update
// rule, on any number of ranks.
type parity struct {
	Init  map[string]json.RawMessage
	Bags  [][][]uint64 // F × B × keys
	Dense [][]float64
	Label []float64
	Runs  map[string]struct {
		Losses, Logits []float64
		Grads, Params  map[string]json.RawMessage
	}
}

const (
	parityFeatures, parityVocabulary, parityE = 3, 11, 4

	// parityTolerance is the largest difference after ten steps between float32 and float64.
	parityTolerance = 2e-5
)

func loadParity(t *testing.T) parity { return loadParityOf(t, "parity") }

// loadParityOf reads testdata/name.json. xdeepfm.py writes the file of the same model with an
// interaction network.
func loadParityOf(t *testing.T, name string) (p parity) {
	b, err := os.ReadFile("testdata/" + name + ".json")
	fatal.If(t, err)
	fatal.If(t, json.Unmarshal(b, &p))
	return p
}

// numbers flattens a JSON array of numbers of any depth.
func numbers(t *testing.T, m json.RawMessage) (out []float64) {
	var v any
	fatal.If(t, json.Unmarshal(m, &v))
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case float64:
			out = append(out, v)
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(v)
	return out
}

// parityRules returns the rules of the reference, which use the mean gradient of six samples.
// The rules of package optim that use the sum need constants of gradients 6 times as large,
// and constants of squares 36 times as large.
func parityRules(kind string) config.Optimizer {
	number := func(x float64) *float64 { return &x }
	same := func(r optim.Rule) config.Optimizer { return config.Optimizer{Dense: r, Deep: r, Wide: r} }
	switch kind {
	case "sgd":
		return same(optim.Rule{Kind: "sgd", LearningRate: 0.1})
	case "adagrad":
		return same(optim.Rule{Kind: "adagrad", LearningRate: 0.05, Accumulator: number(0.1 * 36)})
	case "rowwise":
		o := same(optim.Rule{Kind: "rowwise_adagrad", LearningRate: 0.05, Accumulator: number(0.1 * 36)})
		o.Dense.Kind = "adagrad"
		return o
	case "adam":
		return same(optim.Rule{Kind: "adam", LearningRate: 0.01})
	case "adamw":
		return same(optim.Rule{Kind: "adamw", LearningRate: 0.01, WeightDecay: number(0.5)})
	case "ftrl":
		o := same(optim.Rule{Kind: "sgd", LearningRate: 0.1})
		o.Wide = optim.Rule{Kind: "ftrl", LearningRate: 0.1, Beta: 6, L1: 0.06, L2: 0.006}
		return o
	}
	panic(kind)
}

func parityConfig(kind string) (*config.Config, []encode.SparseColumn) {
	c := &config.Config{}
	c.Model.EmbeddingDim, c.Model.Hidden = parityE, []int{8, 5}
	c.Train.Optimizer, c.Train.Scaling = parityRules(kind), "none"
	c.Label.Field = "y"
	var columns []encode.SparseColumn
	for f := range parityFeatures {
		name := fmt.Sprintf("f%d", f)
		c.Features = append(c.Features, schema.Feature{Name: name, Field: name, Encode: "id", Separator: "|"})
		columns = append(columns, encode.SparseColumn{Name: name, Table: name, Wide: true, Deep: true})
	}
	c.Fill()
	return c, columns
}

// batch returns rows lo to hi of the fixture's batch.
func (p parity) batch(lo, hi int) *encode.Batch {
	b := &encode.Batch{Rows: hi - lo}
	for f := range p.Bags {
		j := encode.Jagged{Offsets: []int32{0}}
		for _, bag := range p.Bags[f][lo:hi] {
			j.Values = append(j.Values, bag...)
			j.Offsets = append(j.Offsets, int32(len(j.Values)))
		}
		b.Sparse = append(b.Sparse, j)
	}
	for i := lo; i < hi; i++ {
		b.Label = append(b.Label, float32(p.Label[i]))
		b.RowID = append(b.RowID, uint64(i))
		for _, x := range p.Dense[i] {
			b.Dense = append(b.Dense, float32(x))
		}
	}
	return b
}

// denseNames maps the fixture's names of dense parameters to ours.
var denseNames = map[string]string{
	"bias_wide": "wide/bias",
	"w1":        "deep/linear0/weight", "b1": "deep/linear0/bias",
	"w2": "deep/linear1/weight", "b2": "deep/linear1/bias",
	"w3": "deep/out/weight", "b3": "deep/out/bias",
	"cin0": "cin/layer0/weight", "cin1": "cin/layer1/weight", "cin_out": "cin/out/weight", "cin_bias": "cin/out/bias",
}

// denseParams returns the fixture's parameters of a trainer, by the fixture's names.
func (p parity) denseParams(tr *Trainer) map[string]*dense.Param {
	all := map[string]*dense.Param{}
	for name, own := range denseNames {
		if _, ok := p.Init[name]; ok {
			all[name] = tr.model.arena.Param(own)
		}
	}
	return all
}

// start sets the parameters of a trainer to the fixture's. It sets rows through the
// format of a saved shard, which is documented in package sparse.
func (p parity) start(t *testing.T, tr *Trainer) error {
	for name, own := range p.denseParams(tr) {
		v := own.Value
		for i, x := range numbers(t, p.Init[name]) {
			v[i] = float32(x)
		}
	}
	if err := touchAll(tr); err != nil {
		return err
	}
	store := tr.model.store
	sections := store.Files().Sections()
	saved := make([]bytes.Buffer, len(sections))
	for i, s := range sections {
		if err := store.Files().SaveShard(&saved[i], s.Table, s.Shard); err != nil {
			return err
		}
		p.rewrite(t, tr.model.layout.Tables[s.Table], s.Table, saved[i].Bytes())
	}
	if err := store.Reset(); err != nil {
		return err
	}
	for i, s := range sections {
		if err := store.Files().LoadShard(&saved[i], s.Table, s.Shard); err != nil {
			return err
		}
	}
	return nil
}

// touchAll inserts every key of the vocabulary into the store by a step with zero gradients.
func touchAll(tr *Trainer) error {
	b := &encode.Batch{Rows: 1, Dense: []float32{0, 0}, Label: []float32{0}, RowID: []uint64{0}}
	for range parityFeatures {
		j := encode.Jagged{Offsets: []int32{0, parityVocabulary}}
		for k := range uint64(parityVocabulary) {
			j.Values = append(j.Values, k)
		}
		b.Sparse = append(b.Sparse, j)
	}
	if err := tr.model.pull(b, true); err != nil {
		return err
	}
	if err := tr.model.store.Push(tr.model.lookup); err != nil {
		return err
	}
	return tr.model.store.Apply(sparse.Step{N: 1, Rate: 1})
}

// rewrite replaces the rows of a saved shard of feature f by the fixture's rows.
func (p parity) rewrite(t *testing.T, table sparse.Table, f int, b []byte) {
	emb, wide := numbers(t, p.Init[fmt.Sprintf("emb%d", f)]), numbers(t, p.Init[fmt.Sprintf("wide%d", f)])
	at := 16 + int(binary.LittleEndian.Uint32(b[12:]))
	rows := int(binary.LittleEndian.Uint64(b[at:]))
	at += 8
	for range rows {
		key := binary.LittleEndian.Uint64(b[at:])
		at += 8
		values := append(slices.Clone(emb[key*parityE:(key+1)*parityE]), wide[key])
		for _, part := range table.Parts {
			state := make([]float32, part.Rule.StateLen(part.Dim))
			part.Rule.InitState(nil, state)
			for _, x := range state {
				values = append(values, float64(x))
			}
		}
		for _, x := range values {
			binary.LittleEndian.PutUint32(b[at:], math.Float32bits(float32(x)))
			at += 4
		}
	}
	binary.LittleEndian.PutUint32(b[at:], crc32.Checksum(b[:at], crc32.MakeTable(crc32.Castagnoli)))
}

// row returns a row as the model reads it.
func row(tr *Trainer, f int, key uint64) (emb, wide []float32, err error) {
	bags := make([]sparse.Bags, parityFeatures)
	for i := range bags {
		bags[i] = sparse.Bags{Table: i, Values: []uint64{key}, Offsets: []int32{0, 1}}
	}
	if err := tr.model.store.Pull(tr.model.lookup, bags, false); err != nil {
		return nil, nil, err
	}
	emb, wide = make([]float32, parityE), make([]float32, 1)
	tr.model.lookup.Pool(f, 0, emb, parityE, false)
	tr.model.lookup.Pool(f, 1, wide, 1, false)
	return emb, wide, nil
}

func near(what string, got []float32, want []float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%s: %d values, the reference has %d", what, len(got), len(want))
	}
	for i := range got {
		if d := math.Abs(float64(got[i]) - want[i]); !(d <= parityTolerance) {
			return fmt.Errorf("%s: value %d is %v, the reference %v", what, i, got[i], want[i])
		}
	}
	return nil
}

func TestParity(t *testing.T)        { testParity(t, "parity", config.Model{}) }
func TestParityXDeepFM(t *testing.T) { testParity(t, "xdeepfm", kinds[len(kinds)-1]) }

func testParity(t *testing.T, name string, m config.Model) {
	p := loadParityOf(t, name)
	if name == "parity" {
		maps.Copy(p.Runs, loadParityOf(t, "adamw").Runs)
	}
	for kind := range p.Runs {
		for _, x := range []struct{ ranks, threads, chunk int }{
			{1, 1, chunkRows}, {2, 1, chunkRows}, {3, 1, chunkRows}, {1, 1, 4}, {1, 2, 2}, {1, 4, 1}, {2, 2, 1}, {1, 8, 1},
		} {
			t.Run(fmt.Sprintf("%s/%d ranks/%d threads/chunks of %d", kind, x.ranks, x.threads, x.chunk), func(t *testing.T) {
				p.run(t, kind, m, x.ranks, x.threads, x.chunk)
			})
		}
	}
}

func (p parity) run(t *testing.T, kind string, m config.Model, size, threads, chunk int) {
	onRanks(t, size, func(comm *collective.Comm) error {
		c, columns := parityConfig(kind)
		if m.Kind != "" {
			c.Model.Kind, c.Model.CIN = m.Kind, m.CIN
		}
		c.Train.Threads = threads
		tr, err := NewTrainer(comm, trace.New(0), c, layout.New(c, columns, []string{"d0", "d1"}), Tables{})
		if err != nil {
			return err
		}
		defer tr.Close()
		tr.model.chunk = chunk
		if err := p.start(t, tr); err != nil {
			return err
		}
		return p.train(t, tr, kind)
	})
}

func (p parity) train(t *testing.T, tr *Trainer, kind string) error {
	want := p.Runs[kind]
	lo, hi := collective.Chunk(len(p.Label), tr.comm.Size(), tr.comm.Rank())
	b := p.batch(lo, hi)
	for i := range want.Losses {
		next := b
		if i == 0 || i == len(want.Losses)-1 {
			next = nil // gradients and parameters are read after these steps
		}
		out, err := tr.Step(coming(int64(i+1), b, next))
		if err != nil {
			return err
		}
		if loss := out.Loss / float64(out.Rows); math.Abs(loss-want.Losses[i]) > parityTolerance {
			return fmt.Errorf("loss of step %d is %v, the reference %v", i+1, loss, want.Losses[i])
		}
		if i > 0 {
			continue
		}
		if err := near("logits", tr.model.logit, want.Logits[lo:hi]); err != nil {
			return err
		}
		if err := p.gradients(t, tr, kind); err != nil {
			return err
		}
	}
	return p.parameters(t, tr, want.Params)
}

// gradients compares the mean gradients of the first step: the dense ones after their sum
// over the ranks, and the gradients of rows, under plain SGD, by the change of the rows.
func (p parity) gradients(t *testing.T, tr *Trainer, kind string) error {
	want := p.Runs[kind].Grads
	for name, own := range p.denseParams(tr) {
		mean := slices.Clone(own.Grad)
		for i := range mean {
			mean[i] /= float32(len(p.Label))
		}
		if err := near("gradient of "+name, mean, numbers(t, want[name])); err != nil {
			return err
		}
	}
	if kind != "sgd" {
		return nil
	}
	after := map[string]json.RawMessage{}
	for name := range want {
		w, g := numbers(t, p.Init[name]), numbers(t, want[name])
		for i := range w {
			w[i] -= 0.1 * g[i]
		}
		after[name], _ = json.Marshal(w)
	}
	return p.parameters(t, tr, after)
}

func (p parity) parameters(t *testing.T, tr *Trainer, want map[string]json.RawMessage) error {
	for name, own := range p.denseParams(tr) {
		if err := near("parameter "+name, own.Value, numbers(t, want[name])); err != nil {
			return err
		}
	}
	for f := range parityFeatures {
		emb, wide := numbers(t, want[fmt.Sprintf("emb%d", f)]), numbers(t, want[fmt.Sprintf("wide%d", f)])
		for key := range parityVocabulary {
			e, w, err := row(tr, f, uint64(key))
			if err != nil {
				return err
			}
			if err := near(fmt.Sprintf("row %d of feature %d", key, f), e, emb[key*parityE:(key+1)*parityE]); err != nil {
				return err
			}
			if err := near(fmt.Sprintf("wide weight %d of feature %d", key, f), w, wide[key:key+1]); err != nil {
				return err
			}
		}
	}
	return nil
}
