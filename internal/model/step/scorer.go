package step

import (
	"fmt"
	"io"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Rows reads the rows of a trained model's tables. Scorers on several goroutines may share
// one, so Read must be safe for concurrent use.
type Rows interface {
	// Read writes the values of the rows of all keys. A key without a row gets what
	// table.FillUnknown writes. All queries are passed at once, so that the memory of many
	// rows can be fetched concurrently.
	Read(queries []Query) error
}

// Query asks for rows of one table.
type Query struct {
	Table  int
	Keys   []uint64
	Values []float32 // of the keys' rows: all parts of the table, in the order of its configuration
}

// Parameters are the dense parameters of a trained model, without gradients and optimizer
// state. Any number of scorers share them.
type Parameters struct{ arena *dense.Arena }

// NewParameters declares the dense parameters of a layout's model. Load or Read fills them. c is
// filled.
func NewParameters(c *config.Config, l layout.Layout) (*Parameters, error) {
	p := &Parameters{arena: new(dense.Arena)}
	if _, err := evaluationTowers(p.arena, c, l, "fp32"); err != nil {
		return nil, err
	}
	if err := p.arena.Build(dense.Config{}); err != nil {
		return nil, err
	}
	return p, nil
}

// Load reads the dense parameters of a checkpoint.
func (p *Parameters) Load(c *checkpoint.Checkpoint) error { return c.Read(SectionDense, p.arena.Load) }

// Read reads parameters that Save wrote.
func (p *Parameters) Read(r io.Reader) error { return p.arena.Load(r) }

// Save writes the parameters in the format of package dense, without optimizer state.
func (p *Parameters) Save(w io.Writer) error { return p.arena.Save(w) }

// Params returns the parameters in the order of their declaration.
func (p *Parameters) Params() []*dense.Param { return p.arena.Params() }

// Statistics returns the running statistics of batch normalisation.
func (p *Parameters) Statistics() []dense.Statistic { return p.arena.Statistics() }

// evaluationTowers declares a model's towers for evaluation. They compute in the given
// precision, whatever the precision of training.
func evaluationTowers(a *dense.Arena, c *config.Config, l layout.Layout, precision string) ([]tower, error) {
	c = c.Clone()
	c.Train.Precision, c.Train.Device = precision, "cpu"
	c.Model.Dropout = 0 // has no effect in an evaluation, but bf16 rejects it
	return newTowers(&model{layout: l, objective: newObjective(c)}, a, c, 0, nil)
}

// Scorer computes logits without a group, gradients or labels. Its results have the same
// bits as an evaluation by one rank with the same rows, whatever the other samples of a
// batch. A Scorer belongs to one goroutine. It keeps memory for the largest chunk of
// samples so far and a packed copy of the weights.
type Scorer struct {
	layout layout.Layout
	widths []int  // by table: values of a row
	pooled []bool // by table: the owners of rows pool them in an evaluation
	towers []tower
	rows   Rows

	logit   []float32 // labels × rows
	x       []float32 // chunk × width: the networks' input without the shared columns
	unknown []int64   // by feature

	prefix []*dense.Prefix // by label; nil: the networks take whole rows
	joins  bool            // the networks have further parts that read x, so x holds whole rows
	same   []bool          // by feature: all rows of the chunk have the same single key
	shared []float32       // the first columns of the chunk, equal in all rows
	rest   []float32       // the other columns, if x holds whole rows
	lookup time.Duration

	// For consecutive features of a chunk:
	queries []Query   // by feature
	keys    []uint64  // of all queries
	values  []float32 // of all queries

	// For one feature and chunk:
	at      []uint32 // by value: offset of its row in the values of the query
	offsets []int32  // of the bags, from 0
	coefs   []float32
	sums    []float32 // by row
}

// NewScorer makes a scorer of a layout's model. c is filled.
func NewScorer(c *config.Config, l layout.Layout, p *Parameters, rows Rows) (*Scorer, error) {
	return newScorer(c, l, p, rows, "fp32")
}

// NewScorerBF16 makes a scorer that rounds the operands of the products of the MLP to
// bfloat16. Its scores are near the scores of an evaluation, and depend slightly on which
// columns the rows of a batch share. It fails if the machine or the model does not allow
// bfloat16.
func NewScorerBF16(c *config.Config, l layout.Layout, p *Parameters, rows Rows) (*Scorer, error) {
	err := f32.NoBF16()
	if err == nil {
		var s *Scorer
		if s, err = newScorer(c, l, p, rows, "bf16"); err == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("score in bf16: %w: use fp32", err)
}

func newScorer(c *config.Config, l layout.Layout, p *Parameters, rows Rows, precision string) (*Scorer, error) {
	s := &Scorer{layout: l, rows: rows, unknown: make([]int64, len(l.Features)), same: make([]bool, len(l.Features))}
	for i, t := range l.Tables {
		how, _ := layout.Strategy(l.Asked[i])
		s.pooled = append(s.pooled, how == sparse.Pooled)
		width := 0
		for _, p := range t.Parts {
			width += p.Dim
		}
		s.widths = append(s.widths, width)
	}
	var a dense.Arena
	var err error
	if s.towers, err = evaluationTowers(&a, c, l, precision); err != nil {
		return nil, err
	}
	a.View(p.arena)
	for _, t := range s.towers {
		var mlp *dense.MLP
		if t.net != nil {
			mlp, s.joins = t.net.perceptron(), t.net.joins()
		}
		if mlp == nil || mlp.NewPrefix() == nil {
			s.prefix = nil
			break
		}
		s.prefix = append(s.prefix, mlp.NewPrefix())
	}
	return s, nil
}

// Unknown returns by feature how many values of the last batch had keys without a row. They
// were read as zeros. A missing value is not unknown. The slice is the Scorer's own.
func (s *Scorer) Unknown() []int64 { return s.unknown }

// LookUp returns the time that the last Score took to look up and pool rows.
func (s *Scorer) LookUp() time.Duration { return s.lookup }

// Score returns the logits of a batch: first the logits of all rows for the first label, then
// for the next. They are valid until the next call. It does not read labels and weights.
func (s *Scorer) Score(b *encode.Batch) ([]float32, error) {
	if len(b.Sparse) != len(s.layout.Features) || len(b.Dense) != b.Rows*len(s.layout.Dense) {
		return nil, fmt.Errorf("score: %d rows of %d features and %d dense values, the model has %d features and %d dense inputs",
			b.Rows, len(b.Sparse), len(b.Dense), len(s.layout.Features), len(s.layout.Dense))
	}
	s.logit = resized(s.logit, b.Rows*len(s.towers))
	clear(s.unknown)
	s.lookup = 0
	for lo := 0; lo < b.Rows; lo += chunkRows {
		if err := s.chunk(b, lo, min(lo+chunkRows, b.Rows)); err != nil {
			return nil, err
		}
	}
	return s.logit, nil
}

// of returns the logits of rows lo to hi for label t.
func (s *Scorer) of(b *encode.Batch, t, lo, hi int) []float32 {
	return s.logit[t*b.Rows+lo : t*b.Rows+hi]
}

// chunk computes the logits of rows lo to hi in the order of worker.forward.
func (s *Scorer) chunk(b *encode.Batch, lo, hi int) error {
	for t := range s.towers {
		logit, start := s.of(b, t, lo, hi), float32(0)
		if bias := s.towers[t].bias; bias != nil {
			start = bias.Value[0]
		}
		for i := range logit {
			logit[i] = start
		}
	}
	start := time.Now()
	if err := s.embed(b, lo, hi); err != nil {
		return err
	}
	s.lookup += time.Since(start)
	for t := range s.towers {
		if s.towers[t].net == nil {
			continue
		}
		y, err := s.forward(t, hi-lo)
		if err != nil {
			return err
		}
		f32.AddTo(s.of(b, t, lo, hi), y)
	}
	return nil
}

// embed computes the networks' input of rows lo to hi and adds their wide weights to the
// logits.
func (s *Scorer) embed(b *encode.Batch, lo, hi int) (err error) {
	cols := s.columnsShared(b, lo, hi)
	s.shared = resized(s.shared, cols)
	if s.joins {
		s.shared = s.shared[:0]
	}
	s.input(b, lo, hi)
	for from := 0; from < len(s.layout.Features); {
		if from, err = s.poolFeatures(b, from, lo, hi); err != nil {
			return err
		}
	}
	if s.joins && cols > 0 {
		width := s.layout.Width
		s.shared, s.rest = append(s.shared, s.x[:cols]...), s.rest[:0]
		for i := range hi - lo {
			s.rest = append(s.rest, s.x[i*width+cols:(i+1)*width]...)
		}
	}
	return nil
}

// forward computes the logits of network t.
func (s *Scorer) forward(t, rows int) ([]float32, error) {
	net := s.towers[t].net
	if len(s.shared) == 0 {
		return net.Forward(s.x, rows, false)
	}
	if !net.joins() {
		return s.prefix[t].Forward(s.shared, s.x, rows)
	}
	deep, err := s.prefix[t].Forward(s.shared, s.rest, rows)
	if err != nil {
		return nil, err
	}
	return net.join(deep, s.x, rows, false)
}

// minShared is the least number of shared rows, and of shared columns, for which a
// separate product saves time.
const minShared = 16

// columnsShared finds the features with a single key in rows lo to hi. It returns how many
// of the first columns of the networks' input belong to them, or 0 if these are too few.
// Features of the user are shared if the configuration lists them first.
func (s *Scorer) columnsShared(b *encode.Batch, lo, hi int) (cols int) {
	for f := range s.same {
		s.same[f] = hi-lo >= minShared && isShared(b.Sparse[f], lo, hi)
	}
	if s.prefix == nil {
		return 0
	}
	for f, ft := range s.layout.Features {
		if ft.DeepPart < 0 {
			continue
		}
		dim := s.layout.Tables[ft.Table].Parts[ft.DeepPart].Dim
		if cols+dim >= s.layout.Width || !s.same[f] {
			break
		}
		cols += dim
	}
	if cols < minShared || !s.prefix[0].Takes(cols) {
		return 0
	}
	for _, p := range s.prefix[1:] {
		p.Takes(cols) // all towers have seen the same numbers
	}
	return cols
}

// isShared reports whether rows lo to hi of a feature all have the same single key.
func isShared(j encode.Jagged, lo, hi int) bool {
	first := j.Offsets[lo]
	if j.Weights != nil || int(j.Offsets[hi]-first) != hi-lo {
		return false
	}
	for i, key := range j.Values[first:j.Offsets[hi]] {
		if key != j.Values[first] || int(j.Offsets[lo+i]-first) != i {
			return false
		}
	}
	return true
}

// input allocates the networks' input and fills in the dense inputs.
func (s *Scorer) input(b *encode.Batch, lo, hi int) {
	width, d := s.layout.Width-len(s.shared), len(s.layout.Dense)
	if s.towers[0].net == nil {
		return
	}
	s.x = resized(s.x, (hi-lo)*width)
	for i := range hi - lo {
		copy(s.x[(i+1)*width-d:(i+1)*width], b.Dense[(lo+i)*d:])
	}
}

// maxValues is the number of values from which rows that have been read are pooled before
// the next are read, so that they stay in a first-level cache.
const maxValues = 1 << 12

// poolFeatures reads and pools the rows of the features from number from on, and returns the
// number of the next feature.
func (s *Scorer) poolFeatures(b *encode.Batch, from, lo, hi int) (end int, err error) {
	s.queries, s.keys = s.queries[:0], s.keys[:0]
	values := 0
	for end = from; end < len(s.layout.Features) && values < maxValues; end++ {
		ft := s.layout.Features[end]
		first := len(s.keys)
		s.addKeys(b.Sparse[end], s.same[end], lo, hi)
		values += (len(s.keys) - first) * s.widths[ft.Table]
		s.queries = append(s.queries, Query{Table: ft.Table, Keys: s.keys[first:]})
	}
	s.values = resized(s.values, values)
	keys, rest := s.keys, s.values // s.keys may have moved
	for i := range s.queries {
		q := &s.queries[i]
		n := len(q.Keys)
		q.Keys, keys = keys[:n], keys[n:]
		q.Values, rest = rest[:n*s.widths[q.Table]], rest[n*s.widths[q.Table]:]
	}
	if err := s.rows.Read(s.queries); err != nil {
		return 0, fmt.Errorf("score: %w", err)
	}
	for i := range s.queries {
		if f := from + i; s.same[f] {
			s.poolShared(b, &s.queries[i], f, lo, hi)
		} else {
			s.pool(b, &s.queries[i], f, lo, hi)
		}
	}
	return end, nil
}

// addKeys adds the keys of a feature in rows lo to hi to s.keys. It adds consecutive equal
// keys once; they occur if all samples of a request share a value.
func (s *Scorer) addKeys(j encode.Jagged, same bool, lo, hi int) {
	values := j.Values[j.Offsets[lo]:j.Offsets[hi]]
	if same {
		s.keys = append(s.keys, values[0])
		return
	}
	for i, key := range values {
		if i == 0 || key != values[i-1] {
			s.keys = append(s.keys, key)
		}
	}
}

// pool adds feature f of rows lo to hi to the logits and the networks' input.
func (s *Scorer) pool(b *encode.Batch, q *Query, f, lo, hi int) {
	ft := s.layout.Features[f]
	bags := s.bags(b.Sparse[f], q, f, lo, hi)
	part := 0
	for p, at := range s.layout.Tables[ft.Table].Parts {
		from := q.Values[min(part, len(q.Values)):]
		switch {
		case p == ft.DeepPart && s.towers[0].net != nil:
			f32.Pool(s.x[ft.DeepCol-len(s.shared):], s.layout.Width-len(s.shared), from, bags, at.Dim, false)
		case ft.WidePart >= 0 && p >= ft.WidePart && p < ft.WidePart+len(s.towers) && s.towers[0].bias != nil:
			s.addWide(s.of(b, p-ft.WidePart, lo, hi), from, bags, s.pooled[ft.Table])
		}
		part += at.Dim
	}
}

// poolShared is pool for a feature with a single key in rows lo to hi.
func (s *Scorer) poolShared(b *encode.Batch, q *Query, f, lo, hi int) {
	ft, rows := s.layout.Features[f], hi-lo
	s.at = append(s.at[:0], 0)
	if table.IsUnknown(q.Values) && q.Keys[0] != encode.KeyMissing {
		s.unknown[f] += int64(rows)
	}
	part, bag := 0, f32.Bags{At: s.at}
	for p, at := range s.layout.Tables[ft.Table].Parts {
		from := q.Values[part : part+at.Dim]
		switch {
		case p == ft.DeepPart && s.towers[0].net != nil:
			if ft.DeepCol < len(s.shared) {
				copy(s.shared[ft.DeepCol:], from)
				break
			}
			col, step := ft.DeepCol-len(s.shared), s.layout.Width-len(s.shared)
			f32.Pool(s.x[col:], step, from, bag, at.Dim, false)
			for i := 1; i < rows; i++ {
				copy(s.x[i*step+col:], s.x[col:col+at.Dim])
			}
		case ft.WidePart >= 0 && p >= ft.WidePart && p < ft.WidePart+len(s.towers) && s.towers[0].bias != nil:
			logit := s.of(b, p-ft.WidePart, lo, hi)
			for i := range logit {
				logit[i] += from[0]
			}
		}
		part += at.Dim
	}
}

// addWide adds the wide weights of bags to logits. It adds them one by one, or the sum of
// each bag if the owners of the table pool.
func (s *Scorer) addWide(logit, weights []float32, bags f32.Bags, pooled bool) {
	if !pooled {
		f32.Pool(logit, 1, weights, bags, 1, true)
		return
	}
	s.sums = resized(s.sums, len(logit))
	f32.Pool(s.sums, 1, weights, bags, 1, false)
	f32.AddTo(logit, s.sums)
}

// bags returns the bags of feature f in rows lo to hi, whose rows have been read.
func (s *Scorer) bags(j encode.Jagged, q *Query, f, lo, hi int) f32.Bags {
	ft := s.layout.Features[f]
	width, first, end := s.widths[ft.Table], j.Offsets[lo], j.Offsets[hi]
	values := j.Values[first:end]
	s.at = resized(s.at, len(values))
	row := -width
	unknown, isUnknown := int64(0), int64(0)
	for i, key := range values {
		if i == 0 || key != values[i-1] {
			row += width
			isUnknown = 0
			if key != encode.KeyMissing && table.IsUnknown(q.Values[row:row+width]) {
				isUnknown = 1
			}
		}
		s.at[i] = uint32(row)
		unknown += isUnknown
	}
	s.unknown[f] += unknown
	s.offsets = resized(s.offsets, hi-lo+1)
	single := j.Weights == nil
	for i := range s.offsets {
		s.offsets[i] = j.Offsets[lo+i] - first
		single = single && int(s.offsets[i]) == i
	}
	if single {
		return f32.Bags{At: s.at}
	}
	bags := sparse.Bags{Values: values, Offsets: s.offsets, Pooling: ft.Pooling}
	if j.Weights != nil {
		bags.Weights = j.Weights[first:end]
	}
	s.coefs = resized(s.coefs, len(values))
	return f32.Bags{Offsets: s.offsets, At: s.at, Coefs: bags.Factors(s.coefs)}
}

// SectionDense is the section of a checkpoint with the dense parameters; see dense.Arena.
// Rank 0 writes it. Each rank writes the shards that it owns: sparse.SectionName in a full
// checkpoint, sparse.DeltaName in an incremental one. For tables that admit keys by count
// it also writes the counts, sparse.SeenName.
const SectionDense = "dense"
