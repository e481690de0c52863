package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/train/evaluate"
	"github.com/wdlrun/wdlrun/trace"
)

// Constants of importance by permutation.
const (
	importanceRepeats = 5
	importanceSeed    = 1
	maxScored         = 1 << 16 // approximate number of samples evaluated without each field
	donorPool         = 1 << 13 // approximate number of samples to draw values from
)

// importance evaluates the model without each field. Draws depend only on record numbers, so
// the result has the same bits on any number of ranks.
type importance struct {
	Evaluation
	exchange *encode.Exchanger
	pool     encode.Batch
	tallies  []*metrics.Tally // unchanged samples first, then by field and repeat
	covered  []int64          // samples with a value, by field; then the number of samples

	reader  *data.Reader
	scored  uint64        // largest hash of the samples that are evaluated
	last    *encode.Batch // last batch of the reader; nil before the first
	rows    []int32       // rows of last that are evaluated
	donors  []int32
	variant int // index in tallies of the variant that the model computes
	view    encode.Batch

	pace importancePace
}

// importancePace decides when progress is printed.
type importancePace struct {
	total int64     // batches of a rank
	done  int64     // batches of this rank
	shown time.Time // time of the last line, or of the start
}

// importanceEvery is the time between two lines of progress.
const importanceEvery = 2 * time.Second

// advance counts a batch. It returns a line if one is due.
func (p *importancePace) advance(now time.Time, fields int) string {
	p.done++
	if now.Sub(p.shown) < importanceEvery || p.done >= p.total {
		return ""
	}
	p.shown = now
	return fmt.Sprintf("importance of %d fields: %d %% of the samples", fields, 100*p.done/p.total)
}

// importance computes the importance of the fields on the selected rows of a dataset.
func (e Evaluation) importance(ctx context.Context, d *data.Dataset, rows data.Select) ([]Importance, error) {
	e.Rec.Enter(trace.Eval)
	x := &importance{Evaluation: e, exchange: e.In.Encoder.Exchanger(), scored: below(maxScored, d.Rows(rows))}
	for range 1 + importanceRepeats*len(x.exchange.Fields) {
		x.tallies = append(x.tallies, metrics.NewSmallTally())
	}
	x.covered = make([]int64, len(x.exchange.Fields)+1)
	if err := x.fillPool(ctx, d, rows); err != nil {
		return nil, err
	}
	var err error
	x.reader, err = data.NewReader(d, e.In.Encoder, data.ReaderConfig{GlobalBatch: evaluate.Batch * e.Comm.Size(), Rank: e.Comm.Rank(), Size: e.Comm.Size(), Select: rows, Apart: true})
	if err != nil {
		return nil, err
	}
	defer x.reader.Close()
	x.pace = importancePace{total: (d.Rows(rows) + evaluate.Batch*int64(e.Comm.Size()) - 1) / (evaluate.Batch * int64(e.Comm.Size())), shown: e.began}
	e.Shown.Read(x.reader)
	defer e.Shown.Read(nil)
	if _, err := e.Trainer.Evaluate(func() (*encode.Batch, error) { return x.next(ctx) }); err != nil {
		return nil, err
	}
	return x.result()
}

// below returns the largest hash that about most of n samples do not exceed.
func below(most, n int64) uint64 {
	if n <= most {
		return math.MaxUint64
	}
	return uint64(float64(float64(most)/float64(n)) * math.MaxUint64)
}

// hashed returns a hash of numbers (splitmix64).
func hashed(parts ...uint64) (h uint64) {
	h = importanceSeed
	for _, p := range parts {
		h = f32.Mix(h + p + f32.Golden)
	}
	return h
}

// fillPool reads the samples to draw values from. Every rank reads all records, so the pool
// is the same on all ranks.
func (x *importance) fillPool(ctx context.Context, d *data.Dataset, rows data.Select) error {
	reader, err := data.NewReader(d, x.In.Encoder, data.ReaderConfig{GlobalBatch: evaluate.Batch, Size: 1, Select: rows})
	if err != nil {
		return err
	}
	defer reader.Close()
	limit := below(donorPool, d.Rows(rows))
	for {
		b, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		some := x.rows[:0]
		for i, id := range b.RowID {
			if hashed(id, 1) <= limit {
				some = append(some, int32(i))
			}
		}
		var part encode.Batch
		x.exchange.Rows(&part, b, some, -1, nil, nil)
		x.pool.Append(&part)
		x.rows = some
		reader.Recycle(b)
		x.Shown.Advance(1)
	}
}

// next adds the logits of the last variant to its tally and returns the next variant: for
// each batch, the unchanged samples, then the samples without each field.
func (x *importance) next(ctx context.Context) (*encode.Batch, error) {
	if x.last != nil {
		x.tallies[x.variant].Add(x.Trainer.LogitsOf(0)[:x.view.Rows], x.view.Label, x.view.Weight)
		x.variant++
	}
	if x.last == nil || x.variant == len(x.tallies) {
		if x.last != nil {
			x.reader.Recycle(x.last)
			x.Shown.Advance(1)
			line := x.pace.advance(time.Now(), len(x.exchange.Fields))
			if line != "" && x.eval.Say != nil && x.Comm.Rank() == 0 {
				x.eval.Say(line)
			}
		}
		b, err := x.reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		x.begin(b)
	}
	x.change()
	return &x.view, nil
}

// begin chooses the samples of a batch to evaluate.
func (x *importance) begin(b *encode.Batch) {
	x.last, x.variant, x.rows = b, 0, x.rows[:0]
	for i, id := range b.RowID {
		if hashed(id, 2) > x.scored {
			continue
		}
		x.rows = append(x.rows, int32(i))
		for f := range x.exchange.Fields {
			if x.exchange.Has(b, f, i) {
				x.covered[f]++
			}
		}
	}
	x.covered[len(x.covered)-1] += int64(len(x.rows))
}

// change builds the current variant of the batch.
func (x *importance) change() {
	field := -1
	if x.variant > 0 {
		field = (x.variant - 1) / importanceRepeats
		x.donors = x.donors[:0]
		for _, r := range x.rows {
			x.donors = append(x.donors, int32(hashed(x.last.RowID[r], 3, uint64(x.variant))%uint64(x.pool.Rows)))
		}
	}
	x.exchange.Rows(&x.view, x.last, x.rows, field, &x.pool, x.donors)
}

// result sums the tallies of all ranks and returns the fields, most important first.
func (x *importance) result() ([]Importance, error) {
	if err := collective.AllReduce(x.Comm, x.covered, collective.Sum); err != nil {
		return nil, err
	}
	var all []metrics.Metrics
	for _, t := range x.tallies {
		m, err := t.Reduce(x.Comm)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	var list []Importance
	for f, of := range x.exchange.Fields {
		i := Importance{Field: of.Field, Features: of.Features, Coverage: float64(x.covered[f]) / float64(max(1, x.covered[len(x.covered)-1]))}
		var auc, loss []float64
		for _, m := range all[1+f*importanceRepeats:][:importanceRepeats] {
			loss = append(loss, m.LogLoss-all[0].LogLoss)
			if m.AUC != nil && all[0].AUC != nil {
				auc = append(auc, *all[0].AUC-*m.AUC)
			}
		}
		i.LogLoss, i.LogLossDeviation = meanOf(loss)
		if len(auc) == importanceRepeats {
			mean, deviation := meanOf(auc)
			i.AUC, i.AUCDeviation = &mean, &deviation
		}
		list = append(list, i)
	}
	slices.SortStableFunc(list, func(a, b Importance) int { return cmp.Compare(b.LogLoss, a.LogLoss) })
	return list, nil
}

// meanOf returns the mean and the standard deviation of values.
func meanOf(values []float64) (mean, deviation float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		deviation += float64((v-mean)*(v-mean)) / float64(len(values)-1)
	}
	return mean, math.Sqrt(deviation)
}
