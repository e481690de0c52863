package serve

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/serve/rows"
	"github.com/wdlrun/wdlrun/internal/serve/tfs"
)

// The file of tf.Examples for warming up a version.
const (
	warmupName  = "warmup.tfrecord"
	maxWarmup   = 16 << 20 // bytes
	warmupRows  = 100
	warmupTimes = 3
)

// output describes the outputs for one label.
type output struct {
	score, logit string // names
	label        schema.Label
}

// servable is a version that can answer requests.
type servable struct {
	Model
	name       string
	version    int64
	outputs    []output
	renamed    []renamed // instead of the outputs, if there are any
	counters   modelCounters
	signatures []tfs.Signature
	workers    chan *worker // nil: to be made, see worker
	warmup     [][]byte     // records for the guard
	forgive    bool         // numbers that are not finite are missing values
	answered   atomic.Bool  // a request
	broken     atomic.Bool  // the last request failed because of the model
}

// worker answers one request at a time.
type worker struct {
	coder  *rows.Coder
	scorer Scorer
	batch  encode.Batch
	counts rows.Counts
	logits []float32   // outputs × rows
	scores [][]float32 // by output
	took   stages
}

// newServable prepares an open model for o.Threads concurrent requests.
func newServable(name string, version int64, dir string, m Model, o *Options, metrics *counters, pause func()) (*servable, error) {
	c := m.Config()
	s := &servable{Model: m, name: name, version: version, outputs: outputsOf(c), workers: make(chan *worker, o.Threads), forgive: !o.RejectInvalid}
	var fields []string
	for range o.Threads {
		w, err := s.newWorker()
		if err != nil {
			return nil, err
		}
		fields = w.coder.Fields()
		pause()
		s.workers <- w
	}
	s.counters = metrics.ofModel(name, fields, m.Encoder().Sparse())
	var err error
	if s.renamed, err = rename(o.Outputs, s.outputs); err != nil {
		return nil, err
	}
	s.signatures = signaturesOf(m.Encoder().Inputs(c.Data), s.outputs, s.renamed)
	return s, s.warmUp(dir, pause)
}

// newWorker makes a worker.
func (s *servable) newWorker() (*worker, error) {
	coder, err := rows.NewCoder(s.Encoder(), s.Config().Data, s.forgive)
	if err != nil {
		return nil, err
	}
	scorer, err := s.NewScorer()
	if err != nil {
		return nil, err
	}
	return &worker{coder: coder, scorer: scorer, scores: make([][]float32, len(s.outputs))}, nil
}

// worker waits for a worker, which the caller sends back to workers. It makes one in place of
// a worker that panicked.
func (s *servable) worker() (w *worker, err error) {
	if w = <-s.workers; w != nil {
		return w, nil
	}
	defer func() {
		if w == nil {
			s.workers <- nil
		}
	}()
	return s.newWorker()
}

// outputsOf returns the outputs of a model, named like the columns of `wdlrun predict`.
func outputsOf(c *config.Config) (list []output) {
	labels := append([]schema.Label{c.Label}, c.Labels...)
	for i := range labels {
		end, score := "", "score"
		if len(labels) > 1 {
			end = "_" + labels[i].Field
		}
		if labels[i].IsNumber() {
			score = "prediction"
		}
		list = append(list, output{score + end, "logit" + end, labels[i]})
	}
	return list
}

// warmUp answers some requests with every worker, so that memory is touched and grown
// before clients wait for it. A version without examples is warmed up with missing values.
func (s *servable) warmUp(dir string, pause func()) error {
	var b []byte
	var err error
	if m, ok := s.Model.(warm); ok {
		b = m.Warmup()
	} else if b, err = regular.ReadFile(filepath.Join(dir, warmupName), maxWarmup); isAbsent(err) {
		err = nil
	}
	var examples [][]byte
	if err == nil {
		examples, err = warmupExamples(b)
	}
	records := len(examples)
	for len(examples) < warmupRows {
		examples = append(examples, nil)
	}
	if err != nil {
		return fmt.Errorf("serve: %s: %w", warmupName, err)
	}
	defer func() { s.warmup = examples[:records] }()
	for i := range cap(s.workers) {
		w := <-s.workers
		for range warmupTimes {
			w.counts, err = w.coder.Examples(&w.batch, examples, nil)
			if _, bad := errors.AsType[*rows.Fault](err); bad { // training skipped such a record
				examples, records = make([][]byte, warmupRows), 0
				w.counts, err = w.coder.Examples(&w.batch, examples, nil)
			}
			if err == nil {
				err = s.score(w)
			}
			if err != nil {
				return fmt.Errorf("serve: warm up: %w", err)
			}
			pause()
		}
		if i == 0 {
			if err := s.measure(w, records); err != nil {
				return err
			}
			pause()
		}
		s.workers <- w
	}
	return nil
}

// measure measures the error of a model that rounds, with the first records of the worker's
// batch, which has been scored.
func (s *servable) measure(w *worker, records int) error {
	m, ok := s.Model.(rounded)
	if !ok {
		return nil
	}
	exact, err := m.Exact()
	if err != nil || exact == nil {
		return err
	}
	logits, err := exact.Score(&w.batch)
	if err != nil {
		return err
	}
	most := 0.0
	for i := range s.outputs {
		for k := i * w.batch.Rows; k < i*w.batch.Rows+records; k++ {
			d := math.Abs(float64(w.logits[k]) - float64(logits[k]))
			if math.IsNaN(d) || math.IsInf(d, 0) {
				return fmt.Errorf("serve: warm up: record %d: logit %v, without rounding %v", k-i*w.batch.Rows, w.logits[k], logits[k])
			}
			most = max(most, d)
		}
	}
	m.Differs(records, most)
	return nil
}

// warmupExamples reads at most warmupRows serialised tf.Examples.
func warmupExamples(b []byte) (all [][]byte, err error) {
	for len(b) >= tfrecord.HeaderBytes && len(all) < warmupRows {
		n, err := tfrecord.Header(b)
		if err != nil {
			return nil, err
		}
		if len(b) < n+tfrecord.Overhead {
			return nil, errors.New("it ends within a record")
		}
		record := b[tfrecord.HeaderBytes : tfrecord.HeaderBytes+n]
		if err = tfrecord.Verify(record, b[tfrecord.HeaderBytes+n:]); err != nil {
			return nil, err
		}
		all, b = append(all, record), b[n+tfrecord.Overhead:]
	}
	return all, nil
}

// score computes the logits and scores of the worker's batch.
func (s *servable) score(w *worker) error {
	start := time.Now()
	logits, err := w.scorer.Score(&w.batch)
	if err != nil {
		return err
	}
	n := w.batch.Rows
	if len(logits) != n*len(s.outputs) {
		return fmt.Errorf("serve: %d logits of %d rows and %d labels", len(logits), n, len(s.outputs))
	}
	w.logits = logits
	for i := range s.outputs {
		to := w.scores[i][:0]
		for _, z := range logits[i*n : (i+1)*n] {
			to = append(to, prediction(&s.outputs[i].label, z))
		}
		w.scores[i] = to
	}
	w.took.lookup = w.scorer.LookUp()
	w.took.compute = time.Since(start) - w.took.lookup
	return nil
}

// prediction returns the prediction for a logit: a probability, a number, or the rate of a
// count.
func prediction(l *schema.Label, logit float32) float32 {
	z := float64(logit)
	switch {
	case l.IsPoisson():
		return float32(min(math.Exp(z), math.MaxFloat32))
	case l.IsNumber():
		return logit
	}
	return float32(metrics.Probability(z))
}

// logit returns the logits of output i.
func (w *worker) logit(i int) []float32 {
	n := w.batch.Rows
	return w.logits[i*n : (i+1)*n]
}

const defaultSignature = "serving_default"

// Names of the signatures of each method, those of the metadata first. The others are TensorFlow's.
var (
	predictSignatures  = [2]string{"predict", "serve"}
	classifySignatures = [2]string{"classify", "classification"}
	regressSignatures  = [2]string{"regress", "regression"}
)

// renamed is an Output of one model.
type renamed struct {
	name   string
	of     int // index in the model's own outputs
	column bool
}

// rename finds the outputs of Options.Outputs.
func rename(wanted []Output, own []output) (all []renamed, err error) {
	for _, o := range wanted {
		found := -1
		for i, x := range own {
			switch o.Of {
			case x.score:
				found = 2 * i
			case x.logit:
				found = 2*i + 1
			}
		}
		if found < 0 {
			return nil, fmt.Errorf("serve: -output %s=%s: the model has no output %s; it has %s and %s", o.Name, o.Of, o.Of, own[0].score, own[0].logit)
		}
		all = append(all, renamed{o.Name, found, o.Column})
	}
	return all, nil
}

// signaturesOf returns the signatures of a model.
func signaturesOf(inputs []encode.Input, outputs []output, renamed []renamed) (list []tfs.Signature) {
	info := func(name string, t tfs.DataType, dims ...int64) tfs.TensorInfo {
		return tfs.TensorInfo{Key: name, Name: name + ":0", Type: t, Dims: dims}
	}
	predict := tfs.Signature{Name: defaultSignature, Method: tfs.MethodPredict}
	for _, in := range inputs {
		t := map[value.Kind]tfs.DataType{value.Text: tfs.String, value.Int: tfs.Int64, value.Float32: tfs.Float}[in.Kind]
		if in.Many {
			predict.Inputs = append(predict.Inputs, info(in.Name, t, -1, -1))
		} else {
			predict.Inputs = append(predict.Inputs, info(in.Name, t, -1))
		}
	}
	for _, o := range outputs {
		if len(renamed) == 0 {
			predict.Outputs = append(predict.Outputs, info(o.score, tfs.Float, -1), info(o.logit, tfs.Float, -1))
		}
	}
	for _, r := range renamed {
		dims := []int64{-1, 1}
		if !r.column {
			dims = dims[:1]
		}
		predict.Outputs = append(predict.Outputs, info(r.name, tfs.Float, dims...))
	}
	again := predict
	again.Name = predictSignatures[0]
	list = append(list, predict, again)
	examples := []tfs.TensorInfo{info("inputs", tfs.String, -1)}
	if !outputs[0].label.IsNumber() {
		list = append(list, tfs.Signature{Name: classifySignatures[0], Method: tfs.MethodClassify, Inputs: examples, Outputs: []tfs.TensorInfo{
			info("classes", tfs.String, -1, 2), info("scores", tfs.Float, -1, 2),
		}})
	}
	return append(list, tfs.Signature{Name: regressSignatures[0], Method: tfs.MethodRegress, Inputs: examples, Outputs: []tfs.TensorInfo{info("outputs", tfs.Float, -1)}})
}
