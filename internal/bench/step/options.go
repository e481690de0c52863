package step

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/config/network"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/optim"
)

// Options describe what to measure. They are the same on all ranks.
type Options struct {
	Workload string         // one of Workloads
	Config   *config.Config // in place of a workload: a training, on generated data of its shape
	Batch    int            // samples per step, all ranks together; 0: DefaultBatch
	Model    string         // kind of the workload's model; "": wide_deep
	Threads  int            // per rank; 0: as configured, 1 for a workload
	Steps    int            // timed steps; 0: DefaultSteps
	Batches  int            // batches generated beforehand; 0: DefaultBatches
	BF16     bool           // products in bfloat16
	Epoch    bool           // instead of timing steps: train on the whole workload once and evaluate
	Device   string         // of the dense layers, cpu or gpu; "": as configured, the CPU for a workload

	Devices train.Devices // GPUs of this machine; nil: the build does not support GPUs

	Progress func(step int64) // if not nil, called with every step
}

const (
	DefaultBatch = 1024
	// DefaultSteps gives a median over a second or two.
	DefaultSteps = 120
	// DefaultBatches of 1024 samples hold four million keys of w1.
	DefaultBatches = 64

	maxSamples = 1 << 24 // in the batches made beforehand
)

// Validate returns all errors in o.
func (o Options) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("step: options: "+format, args...)) }
	if o.Config != nil && (o.Workload != "" || o.Model != "" || o.Epoch) {
		fault("a configuration takes the place of a workload, of its model and of its epoch: leave them out")
	}
	if o.Device != "" && o.Device != "cpu" && o.Device != "gpu" {
		fault("device %q, want cpu or gpu", o.Device)
	}
	if o.Config == nil && !slices.Contains(Workloads(), o.Workload) {
		fault("there is no workload %q; there are %q", o.Workload, Workloads())
	}
	for _, x := range []struct {
		name string
		n    int
		most int
	}{{"batch", o.Batch, 1 << 20}, {"threads", o.Threads, 256}, {"steps", o.Steps, 1 << 20}, {"batches", o.Batches, 1 << 16}} {
		if x.n < 0 || x.n > x.most {
			fault("%s %d, want 1 to %d", x.name, x.n, x.most)
		}
	}
	if o = o.withDefaults(); len(errs) == 0 && o.Batch*o.Batches > maxSamples {
		fault("%d batches of %d samples are over %d: give fewer of them", o.Batches, o.Batch, maxSamples)
	}
	if len(errs) == 0 {
		s, err := o.subject()
		if err == nil {
			err = s.config.Validate()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// subject is the training to measure: its rows and its model.
type subject struct {
	rows    *Workload
	config  *config.Config // with defaults filled in
	columns []encode.SparseColumn
}

// subject returns the subject of o, whose zero options have been replaced.
func (o Options) subject() (s subject, err error) {
	if o.Config == nil {
		s.rows, _ = NewWorkload(o.Workload)
		s.config, s.columns = s.rows.config(o)
		s.config.Train.Device = o.Device
		s.config.Fill()
		return s, nil
	}
	c := *o.Config
	c.Fill()
	c.Train.Threads = o.Threads
	if o.BF16 {
		c.Train.Precision = "bf16"
	}
	switch {
	case o.Device != "":
		c.Train.Device = o.Device
	case c.Train.Device == "auto":
		c.Train.Device = "cpu"
	}
	s.config = &c
	s.rows, s.columns, err = shaped(&c)
	return s, err
}

// Able returns the reason why ranks of this machine cannot measure valid options, or nil.
func (o Options) Able(ranks int) error {
	s, err := o.withDefaults().subject()
	if err != nil {
		return err
	}
	if s.config.Train.Device == "gpu" {
		if o.Devices == nil {
			return train.ErrNoDevices
		}
		return o.Devices.Check(s.config, ranks)
	}
	if err = step.Able(s.config); err != nil && o.BF16 {
		return fmt.Errorf("%w (leave out -bf16)", err)
	}
	return err
}

// withDefaults returns o with zero options replaced by their defaults.
func (o Options) withDefaults() Options {
	if o.Config != nil {
		c := *o.Config
		c.Fill()
		if o.Model = c.Model.Kind; o.Threads == 0 {
			o.Threads = c.Train.Threads
		}
	}
	for _, x := range []struct{ have, standard *int }{
		{&o.Batch, ptr(DefaultBatch)}, {&o.Threads, ptr(1)}, {&o.Steps, ptr(DefaultSteps)}, {&o.Batches, ptr(DefaultBatches)},
	} {
		if *x.have == 0 {
			*x.have = *x.standard
		}
	}
	if o.Model == "" {
		o.Model = network.Default
	}
	return o
}

func ptr[T any](v T) *T { return &v }

// config returns a workload's training: the model and the rules.
func (w *Workload) config(o Options) (*config.Config, []encode.SparseColumn) {
	c := new(config.Config)
	c.Data.Train, c.Data.Header, c.Label.Field = []string{"generated"}, true, "label"
	c.Model.Kind, c.Model.EmbeddingDim, c.Model.Hidden = o.Model, w.Dim, []int{256, 256, 256}
	c.Model.Init, c.Model.Weights = config.Init{Kind: "normal", Scale: 0.01}, "pytorch"
	adagrad := func(rate float64) optim.Rule {
		return optim.Rule{Kind: "adagrad", LearningRate: rate, Accumulator: ptr(0.0)}
	}
	c.Train.Optimizer = config.Optimizer{Dense: adagrad(0.01), Deep: adagrad(w.Rate)}
	c.Train.Threads, c.Train.Seed = o.Threads, 1
	if o.BF16 {
		c.Train.Precision = "bf16"
	}
	wide := c.Model.HasWide()
	if wide {
		c.Train.Optimizer.Wide = adagrad(w.Rate)
	}
	var columns []encode.SparseColumn
	for f := range w.Values() {
		name := fmt.Sprintf("c%d", f)
		c.Features = append(c.Features, schema.Feature{Name: name, Field: name, Encode: "id"})
		columns = append(columns, encode.SparseColumn{Name: name, Table: name, Wide: wide, Deep: true})
	}
	return c, columns
}

// inputs returns the names of the dense inputs.
func (w *Workload) inputs() (names []string) {
	for j := range w.Dense() {
		names = append(names, fmt.Sprintf("i%d", j))
	}
	return names
}
