// Package parity trains small models on random batches and compares the results of two
// trainings, such as one on the CPU and one on a GPU. The same arguments give the same
// batches.
package parity

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/trace"
)

const features, keys = 3, 40

// Model returns a filled configuration of a model over three features and two dense inputs.
// change, if not nil, changes it before it is filled.
func Model(change func(*config.Config)) (*config.Config, layout.Layout) {
	c := &config.Config{}
	c.Model.EmbeddingDim, c.Model.Hidden = 4, []int{24, 9}
	c.Model.Init.Scale = .5
	c.Label.Field = "y"
	c.Train.Optimizer.Dense = optim.Rule{Kind: "adagrad"}
	if change != nil {
		change(c)
	}
	var columns []encode.SparseColumn
	for f := range features {
		name := fmt.Sprintf("f%d", f)
		c.Features = append(c.Features, schema.Feature{Name: name, Field: name, Encode: "id", Wide: c.Model.Wide, Separator: "|"})
	}
	c.Fill()
	for f := range features {
		name := fmt.Sprintf("f%d", f)
		columns = append(columns, encode.SparseColumn{Name: name, Table: name, Wide: *c.Model.Wide, Deep: *c.Model.Deep})
	}
	return c, layout.New(c, columns, []string{"d0", "d1"})
}

// Batches returns batches of one rank. They have several sizes, and one of rank 1 is empty.
func Batches(c *config.Config, rank, steps int) (all []*encode.Batch) {
	rng := rand.New(rand.NewPCG(uint64(rank), 5))
	for n := range steps {
		rows := []int{70, 64, 130, 3}[n%4]
		if n == 2 && rank == 1 {
			rows = 0
		}
		b := &encode.Batch{Rows: rows}
		for range features {
			j := encode.Jagged{Offsets: []int32{0}}
			for range rows {
				for range rng.IntN(3) {
					j.Values = append(j.Values, rng.Uint64N(keys))
				}
				j.Offsets = append(j.Offsets, int32(len(j.Values)))
			}
			b.Sparse = append(b.Sparse, j)
		}
		b.Labels = make([][]float32, len(c.Labels))
		for i := range rows {
			b.RowID = append(b.RowID, uint64(1000*rank+n*200+i))
			b.Dense = append(b.Dense, float32(rng.NormFloat64()), float32(rng.NormFloat64()))
			b.Label = append(b.Label, float32(rng.IntN(2)))
			for t := range b.Labels {
				b.Labels[t] = append(b.Labels[t], float32(rng.IntN(4)))
			}
			if c.Label.Weight != "" {
				b.Weight = append(b.Weight, rng.Float32())
			}
		}
		all = append(all, b)
	}
	return all
}

// Trained is the result of one rank.
type Trained struct {
	loss   []float64 // of each step
	logits []float32 // of all steps
	params *step.Parameters
	auc    float64
}

// Train takes steps, evaluates in the middle and at the end, and returns the result. use, if
// not nil, is called with the new trainer. Every rank of comm calls Train.
func Train(comm *collective.Comm, c *config.Config, l layout.Layout, steps int, use func(*step.Trainer) error) (r Trained, err error) {
	t, err := step.NewTrainer(comm, trace.New(0), c, l, step.Tables{Start: -.5})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if use != nil {
		if err := use(t); err != nil {
			return r, err
		}
	}
	slots := 1
	if c.Train.Slots > 0 {
		slots = len(t.InSlots(c.Train.Slots))
	}
	all := Batches(c, comm.Rank(), steps*slots)
	for n := range steps {
		out, err := t.Step(step.Input{N: int64(n) + 1, Rate: 1, Batches: all[n*slots:][:slots]})
		if err != nil {
			return r, fmt.Errorf("step %d: %w", n+1, err)
		}
		r.loss = append(r.loss, out.Mean())
		r.logits = append(r.logits, t.Logits()...)
		if n == steps/2 {
			if err := r.evaluate(t, all[0]); err != nil {
				return r, err
			}
		}
	}
	if err := r.evaluate(t, all[0]); err != nil {
		return r, err
	}
	var saved bytes.Buffer
	if err := t.SaveDense(&saved); err != nil {
		return r, err
	}
	if r.params, err = step.NewParameters(c, l); err != nil {
		return r, err
	}
	return r, r.params.Read(&saved)
}

func (r *Trained) evaluate(t *step.Trainer, b *encode.Batch) error {
	all := []*encode.Batch{b, nil}
	m, err := t.Evaluate(func() (*encode.Batch, error) { next := all[0]; all = all[1:]; return next, nil })
	if m.AUC != nil {
		r.auc = *m.AUC
	}
	return err
}

// Difference is the greatest one of two trainings, relative to the larger of 1 and the
// number.
type Difference struct {
	Of        string
	Got, Want float64
	Relative  float64 // infinite if one is not a number
}

func (d Difference) String() string {
	return fmt.Sprintf("the %s is %v, want %v: a relative difference of %.1e", d.Of, d.Got, d.Want, d.Relative)
}

// Consider replaces d if x and y differ more.
func (d *Difference) Consider(x, y float64, of func() string) {
	e := math.Abs(x-y) / max(1, math.Abs(y))
	if math.IsNaN(e) && math.Float64bits(x) != math.Float64bits(y) {
		e = math.Inf(1)
	}
	if e > d.Relative {
		*d = Difference{of(), x, y, e}
	}
}

// Difference compares losses, logits, parameters and AUC with another training.
func (r Trained) Difference(want Trained) (d Difference) {
	for i, x := range r.loss {
		d.Consider(x, want.loss[i], func() string { return fmt.Sprint("loss of step ", i+1) })
	}
	for i, x := range r.logits {
		d.Consider(float64(x), float64(want.logits[i]), func() string { return fmt.Sprint("logit ", i) })
	}
	for i, p := range r.params.Params() {
		for j, x := range p.Value {
			d.Consider(float64(x), float64(want.params.Params()[i].Value[j]), func() string { return fmt.Sprintf("value %d of %s", j, p.Name) })
		}
	}
	for i, of := range r.params.Statistics() {
		for j, x := range of.Value {
			x, y, name := float64(x), float64(want.params.Statistics()[i].Value[j]), fmt.Sprintf("value %d of %s", j, of.Name)
			if strings.HasSuffix(of.Name, "/running_variance") { // the network divides by its root
				x, y, name = math.Sqrt(x), math.Sqrt(y), "root of "+name
			}
			d.Consider(x, y, func() string { return name })
		}
	}
	d.Consider(r.auc, want.auc, func() string { return "AUC" })
	return d
}

// Same returns the first difference in bits of losses, logits, parameters and optimizer
// state.
func (r Trained) Same(want Trained) error {
	if !slices.Equal(r.loss, want.loss) || !slices.Equal(r.logits, want.logits) {
		return fmt.Errorf("losses %v, want %v; or logits differ", r.loss, want.loss)
	}
	for i, p := range r.params.Params() {
		if w := want.params.Params()[i]; !slices.Equal(p.Value, w.Value) || !slices.Equal(p.State, w.State) {
			return fmt.Errorf("%s differs", p.Name)
		}
	}
	return nil
}
