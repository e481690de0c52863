package apply

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/stats"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/data/write"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/train/evaluate"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/trace"
)

// predictions sends the logits of a prediction from all ranks to the output. The ranks
// evaluate consecutive parts of a run of records concurrently. After each run, rank 0 gathers
// the logits in the order of the records. A goroutine of rank 0 writes them; memory holds the
// logits of a few runs.
type predictions struct {
	Prediction
	by     evaluate.Evaluator
	labels []schema.Label
	zeros  []float32 // labels of records without labels
	ones   []float32 // their weights
	own    []byte    // encoded results of this rank's batch: number of rows; by label, its logits, then its labels if they are written; keys
	keys   []keyColumn

	runs    chan [][]byte // runs to write, each by rank; nil except on rank 0
	written chan error    // receives the outcome of the writer
	failed  chan struct{} // closed when the writer has failed
	writer  *predictionWriter
	ended   bool // runs is closed
}

// runsAhead is the number of gathered runs that may wait for the writer.
const runsAhead = 4

// maxGathered bounds the bytes of one rank's part of a run.
const maxGathered = 4 + 2*4*evaluate.Batch*schema.MaxLabels + maxKeyBytes

// newPredictions opens the output on rank 0. All ranks return its error.
func (p Prediction) newPredictions(ctx context.Context, by evaluate.Evaluator) (*predictions, error) {
	all := input.SchemaOf(p.Config)
	s := &predictions{Prediction: p, by: by, labels: all.All(), keys: p.options.keys(p.Config)}
	var open error // as it is, where it came up
	fault, err := save.First(p.Comm, p.Rec, func() error {
		if open = p.findLists(ctx); open != nil {
			return open
		}
		s.keys = p.options.keys(p.Config)
		columns := s.options.columns(p.Config)
		if open = p.typeCopied(ctx, columns); open == nil {
			s.writer, open = s.newWriter(columns)
		}
		return open
	})
	switch {
	case err != nil:
		return nil, err
	case open != nil:
		return nil, open
	case fault != "":
		return nil, errors.New(fault)
	}
	if s.writer != nil {
		s.runs, s.written, s.failed = make(chan [][]byte, runsAhead), make(chan error, 1), make(chan struct{})
		go s.write(ctx)
	}
	return s, nil
}

// complete adds labels and weights to a batch if its records may not have them.
func (s *predictions) complete(b *encode.Batch) {
	if s.options.Label {
		return
	}
	for len(s.zeros) < b.Rows {
		s.zeros, s.ones = append(s.zeros, 0), append(s.ones, 1)
	}
	b.Labels = b.Labels[:0]
	for range s.labels[1:] {
		b.Labels = append(b.Labels, s.zeros[:b.Rows])
	}
	if s.labels[0].Weight != "" {
		b.Weight = s.ones[:b.Rows]
	}
}

// gather gathers the logits of the batches that the ranks have just evaluated.
func (s *predictions) gather(b *encode.Batch) error {
	s.own = binary.LittleEndian.AppendUint32(s.own[:0], uint32(b.Rows))
	for i := range s.labels {
		s.own = append(s.own, raw.Bytes(s.by.LogitsOf(i)[:b.Rows])...)
		if !s.options.Label {
			continue
		}
		label := b.Label
		if i > 0 && b.Rows > 0 {
			label = b.Labels[i-1]
		}
		s.own = append(s.own, raw.Bytes(label[:b.Rows])...)
	}
	s.own = appendKeys(s.own, s.keys, b)
	s.Rec.Enter(trace.Wait)
	parts, err := collective.GatherBytes(s.Comm, s.own, 0, maxGathered)
	s.Rec.Enter(trace.Eval)
	if err != nil || s.writer == nil {
		return err
	}
	select {
	case s.runs <- parts:
		return nil
	case <-s.failed:
		return <-s.written
	}
}

// write writes runs until the channel is closed.
func (s *predictions) write(ctx context.Context) {
	err := s.writer.all(ctx, s.runs)
	s.written <- err
	if err != nil {
		close(s.failed)
	}
}

// finish waits until the output is complete. All ranks return the error of rank 0.
func (s *predictions) finish() error {
	var own error // as it is, where it came up
	fault, err := save.First(s.Comm, s.Rec, func() error {
		s.ended = true
		close(s.runs)
		if own = <-s.written; own == nil {
			own = s.writer.out.Finish()
		}
		return own
	})
	switch {
	case err != nil:
		return err
	case own != nil:
		return own
	case fault != "":
		return errors.New(fault)
	}
	if s.writer != nil {
		s.writer.lines.Close()
		s.writer = nil
	}
	return nil
}

// abandon removes the output unless it is finished.
func (s *predictions) abandon() {
	if s.writer == nil {
		return
	}
	if !s.ended {
		s.ended = true
		close(s.runs)
		select {
		case <-s.written:
		case <-s.failed: // take has its error
		}
	}
	s.writer.out.Abandon()
	s.writer.lines.Close()
	s.writer = nil
}

// predictionWriter writes predictions and copied fields to the output. Records that cannot be
// used get a row with empty predictions. It must be used from one goroutine only.
type predictionWriter struct {
	options *PredictOptions
	labels  []schema.Label
	keys    []keyColumn
	lines   *data.Lines
	out     PredictOutput
	lists   []value.List
	missing []string // strings that mean that a copied number is missing
	numbers []bool   // which columns have numbers
	text    []byte
}

func (s *predictions) newWriter(columns []write.Column) (w *predictionWriter, err error) {
	w = &predictionWriter{options: s.options, labels: s.labels, keys: s.keys, lists: make([]value.List, len(columns)), missing: s.options.missing(s.Config)}
	for _, c := range columns {
		w.numbers = append(w.numbers, c.Kind != value.Text && c.Kind != value.None)
	}
	if w.lines, err = s.In.Train.Lines(s.options.Columns); err != nil {
		return nil, err
	}
	if w.out, err = s.options.Open(columns); err != nil {
		w.lines.Close()
		return nil, err
	}
	return w, nil
}

// findLists finds the fields of keys of which a record has several values, in a pass over the records, if their
// format can hold lists.
func (p Prediction) findLists(ctx context.Context) error {
	o, fields := p.options, []string(nil)
	if !o.Keys || p.Config.Data.HasLayout() {
		return nil
	}
	for _, f := range p.Config.Features {
		if p.In.Train.HasFields([]string{f.Field}) == nil && !slices.Contains(fields, f.Field) {
			fields = append(fields, f.Field)
		}
	}
	lines, err := p.In.Train.Lines(fields)
	if err != nil {
		return err
	}
	defer lines.Close()
	o.lists = map[string]bool{}
	for {
		_, lists, err := lines.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range lists {
			if lists[i].Len() > 1 {
				o.lists[fields[i]] = true
			}
		}
	}
}

// typeCopied determines the types of the copied fields in a pass over the records. In an
// output with types, a field whose values are all integers or all numbers has that type.
func (p Prediction) typeCopied(ctx context.Context, columns []write.Column) error {
	o := p.options
	if o.Text || len(o.Columns) == 0 {
		return nil
	}
	lines, err := p.In.Train.Lines(o.Columns)
	if err != nil {
		return err
	}
	defer lines.Close()
	seen := make([]*stats.Column, len(o.Columns))
	for i := range seen {
		seen[i] = stats.New(o.missing(p.Config))
	}
	const often = 1 << 14 // records between reports of progress
	for n := 1; ; n++ {
		_, lists, err := lines.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		for i := range lists {
			seen[i].Add(&lists[i])
		}
		if n%often == 0 {
			p.Shown.Advance(1)
		}
	}
	for i, c := range seen {
		if c.Most <= 1 {
			columns[i].Kind = c.Faithful()
		}
	}
	return nil
}

// missing returns the strings that mean that a copied number is missing in an output with
// types. Other outputs, and columns of strings, copy these strings. Infinities are numbers.
func (o *PredictOptions) missing(c *config.Config) []string {
	if o.Text {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.Data.Missing), value.IsInfinite)
}

// all writes runs until their channel is closed, then the unusable records after the last
// prediction.
func (w *predictionWriter) all(ctx context.Context, runs <-chan [][]byte) error {
	for parts := range runs {
		for _, part := range parts {
			if err := w.part(ctx, part); err != nil {
				return err
			}
		}
	}
	switch usable, err := w.next(ctx); {
	case err == io.EOF:
		return nil
	case err != nil:
		return err
	case usable:
		return errors.New("predict: there are more records than predictions") // if another rank has failed
	}
	return nil
}

// next advances to the next usable record and writes the unusable ones before it.
func (w *predictionWriter) next(ctx context.Context) (usable bool, err error) {
	for {
		usable, copied, err := w.lines.Next(ctx)
		if err != nil {
			return false, err
		}
		for i := range copied {
			w.copy(i, &copied[i])
		}
		if usable {
			return true, nil
		}
		for i := len(copied); i < len(w.lists); i++ {
			w.lists[i].Reset()
		}
		if err := w.out.Write(w.lists); err != nil {
			return false, err
		}
	}
}

// copy sets the value of column i to that of from; several values become one text, joined by |.
func (w *predictionWriter) copy(i int, from *value.List) {
	to := &w.lists[i]
	*to = *from
	if from.Places() > 1 {
		var text []byte
		for k := range from.All {
			if k >= 0 {
				text = from.Append(text, k)
			}
			text = append(text, write.Separator)
		}
		to.SetText(text[:len(text)-1])
	}
	if len(w.missing) == 0 || to.Len() == 0 || !w.numbers[i] {
		return
	}
	w.text = to.Append(w.text[:0], 0)
	if slices.ContainsFunc(w.missing, func(m string) bool { return m == string(w.text) }) {
		to.Reset()
	}
}

// part writes the predictions of one batch, encoded as in predictions.own.
func (w *predictionWriter) part(ctx context.Context, b []byte) (err error) {
	width := len(w.labels)
	if w.options.Label {
		width *= 2
	}
	rows := 0
	if len(b) >= 4 {
		rows, b = int(binary.LittleEndian.Uint32(b)), b[4:]
	}
	if rows > evaluate.Batch || 4*rows*width > len(b) {
		return errCut
	}
	x, keys := raw.Of[float32](b[:4*rows*width]), b[4*rows*width:]
	for r := range rows {
		if _, err := w.next(ctx); err != nil {
			if err == io.EOF {
				err = errors.New("predict: there are more predictions than records; the files changed while the job ran")
			}
			return err
		}
		at, column := r, len(w.options.Columns)
		for i := range w.keys {
			if keys, err = w.keys[i].takeKeys(&w.lists[column], keys, w.options.Text); err != nil {
				return err
			}
			column++
		}
		for i := range w.labels {
			logit := x[at]
			at += rows
			if w.options.Label {
				w.putLabel(&column, &w.labels[i], x[at])
				at += rows
			}
			w.put(&column, predictionOf(&w.labels[i], logit))
			if w.options.Logit {
				w.put(&column, logit)
			}
		}
		if err := w.out.Write(w.lists); err != nil {
			return err
		}
	}
	return nil
}

// put sets the next column of the current record.
func (w *predictionWriter) put(column *int, x float32) {
	putNumber(&w.lists[*column], x, w.options.Text)
	*column++
}

// putLabel sets the next column to a label. A label is 0 or 1 unless it is a number, and missing if x is not a number.
func (w *predictionWriter) putLabel(column *int, l *schema.Label, x float32) {
	if math.IsNaN(float64(x)) {
		w.lists[*column].Begin(value.None)
		*column++
		return
	}
	if l.IsNumber() {
		w.put(column, x)
		return
	}
	to := &w.lists[*column]
	*column++
	to.Begin(value.Int) // text formats write it the same
	to.Ints = append(to.Ints[:0], int64(x))
}

// predictionOf returns the prediction for a logit: the probability that the label is 1, or
// the number.
func predictionOf(l *schema.Label, logit float32) float32 {
	switch z := float64(logit); {
	case l.IsPoisson():
		return float32(min(math.Exp(z), math.MaxFloat32))
	case l.IsNumber():
		return logit
	default:
		return float32(metrics.Probability(z))
	}
}
