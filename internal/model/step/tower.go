package step

import (
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
)

// newTowers declares a tower for each label: the biases, then the networks. Parameter names
// of the first have no prefix. Its output starts at start, so before training it predicts
// the label's mean.
func newTowers(m *model, a *dense.Arena, c *config.Config, start float32, reduce func([]float32) error) ([]tower, error) {
	towers := make([]tower, len(m.labels))
	for t := 0; t < len(towers) && *c.Model.Wide; t++ {
		name := "wide/bias"
		if t > 0 {
			name += "/" + m.labels[t].Field
		}
		towers[t].bias = a.Add(dense.Param{Name: name, Rows: 1, Cols: 1})
	}
	defer a.SetPrefix("")
	for t := 0; t < len(towers) && *c.Model.Deep; t++ {
		if t > 0 {
			a.SetPrefix(TowerPrefix(m.labels[t]))
		}
		var err error
		if towers[t].net, err = newLayers(a, c, m.layout, reduce); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"wide/bias", "deep/out/bias"} {
		if p := a.Param(name); p != nil && p.Cols == 1 {
			p.Init = dense.Init{Low: start, High: start}
			break
		}
	}
	return towers, nil
}

func isNaN(x float32) bool { return x != x }

// fill reads the labels of a batch, whose samples have these weights; nil if all are 1.
func (p *partial) fill(labels, weights []float32) {
	if p.missing = slices.ContainsFunc(labels, isNaN); !p.missing {
		return
	}
	p.label, p.weight = append(p.label[:0], labels...), slices.Grow(p.weight[:0], len(labels))[:len(labels)]
	for i, y := range labels {
		switch p.weight[i] = 1; {
		case isNaN(y):
			p.label[i], p.weight[i] = 0, 0
		case weights != nil:
			p.weight[i] = weights[i]
		}
	}
}

// known returns the samples of the filled batch that have the label. weights are as for fill.
func (p *partial) known(logits, labels, weights []float32) (logit, label, weight []float32) {
	p.logit, p.label, p.weight = p.logit[:0], p.label[:0], p.weight[:0]
	for i, y := range labels {
		if isNaN(y) {
			continue
		}
		p.logit, p.label = append(p.logit, logits[i]), append(p.label, y)
		if weights != nil {
			p.weight = append(p.weight, weights[i])
		}
	}
	if weights == nil {
		return p.logit, p.label, nil
	}
	return p.logit, p.label, p.weight
}

func newObjective(c *config.Config) objective {
	all := schema.Schema{Label: c.Label, Labels: c.Labels}
	o := objective{labels: all.All(), classes: c.Train.ClassWeight, weighted: c.Weighted()}
	if rate := c.Data.NegativeRate; rate > 0 {
		// The training sees all positives and a share of the negatives. Their odds are
		// those of all records divided by the share (He et al. 2014, "Practical Lessons
		// from Predicting Clicks on Ads at Facebook", §6.3). The loss includes this factor,
		// so the logit is calibrated for all records.
		o.shift = float32(-math.Log(rate))
	}
	return o
}

// reads returns the columns that the model reads of a batch.
func (m *model) reads() columns {
	return columns{len(m.layout.Features), len(m.layout.Dense), m.labels[0].Weight != "", len(m.labels) - 1}
}

// weigh computes the weights of a batch.
func (m *model) weigh() {
	o, b := &m.objective, m.batch
	o.total = float64(b.Rows)
	defer m.weighFurther()
	if !o.weighted {
		return
	}
	if cap(o.weight) < b.Rows {
		o.weight = make([]float32, b.Rows)
	}
	o.weight, o.total = o.weight[:b.Rows], 0
	for i := range o.weight {
		w := 1.0
		if o.labels[0].Weight != "" {
			w = float64(b.Weight[i])
		}
		if m.train {
			w = float64(w * o.classes.Of(b.Label[i] > 0.5))
		}
		o.weight[i] = float32(w)
		o.total += w
	}
}

// weighFurther finds the labels after the first that are missing in the current batch.
func (m *model) weighFurther() {
	if m.batch.Rows == 0 {
		return
	}
	if m.further == nil {
		m.further = make([]partial, len(m.labels)-1)
	}
	var weight []float32
	if m.weighted {
		weight = m.weight
	}
	for t := range m.further {
		m.further[t].fill(m.batch.Labels[t], weight)
	}
}

// labelsOf returns the labels of the current batch for tower t, 0 where they are missing.
func (m *model) labelsOf(t int) []float32 {
	if t > 0 && m.batch.Rows > 0 && m.further[t-1].missing {
		return m.further[t-1].label
	}
	return m.allLabelsOf(t)
}

// weightsOf returns the weights of the current batch for tower t; nil if all are 1.
func (m *model) weightsOf(t int) []float32 {
	switch {
	case t > 0 && m.batch.Rows > 0 && m.further[t-1].missing:
		return m.further[t-1].weight
	case m.weighted:
		return m.weight
	}
	return nil
}

// evaluated returns the samples of the current batch that metrics of tower t count.
func (m *model) evaluated(t int) (logit, label, weight []float32) {
	logit, label, weight = m.of(m.logit, t), m.allLabelsOf(t), m.weight
	if t > 0 && m.batch.Rows > 0 && m.further[t-1].missing {
		return m.further[t-1].known(logit, label, weight)
	}
	return logit, label, weight
}

// allLabelsOf returns the labels of the current batch for tower t, NaN where they are missing.
func (m *model) allLabelsOf(t int) []float32 {
	if t == 0 || m.batch.Rows == 0 { // an empty batch may have no further labels
		return m.batch.Label
	}
	return m.batch.Labels[t-1]
}

// of returns the part of x, such as the logits, that belongs to tower t.
func (m *model) of(x []float32, t int) []float32 {
	return x[t*m.batch.Rows : (t+1)*m.batch.Rows]
}

// loss returns the loss of tower t in rows lo to hi. It stores the gradient with respect to
// the logits.
func (m *model) loss(t, lo, hi int) (sum float64) {
	o := &m.objective
	l := &o.labels[t]
	grad, logit, label := m.of(m.dlogit, t)[lo:hi], m.of(m.logit, t)[lo:hi], m.labelsOf(t)[lo:hi]
	weight := m.weightsOf(t)
	if weight != nil {
		weight = weight[lo:hi]
	}
	switch {
	case l.IsPoisson():
		sum = dense.PoissonLoss(grad, logit, label, weight)
	case l.IsNumber():
		sum = dense.SquaredLoss(grad, logit, label, weight)
	case l.IsFakeNegative():
		sum = dense.FakeNegativeLoss(grad, logit, label, weight)
	case weight != nil:
		sum = dense.WeightedLogLoss(grad, logit, label, weight)
	default:
		sum = dense.LogLoss(grad, logit, label)
	}
	if share := l.Share(); share != 1 {
		f32.Scale(grad, float32(share))
		sum *= share
	}
	return sum
}

// reduceTallies returns the metrics of the first label, which contain the metrics of the others.
func (t *Trainer) reduceTallies() (first metrics.Metrics, err error) {
	for i, tally := range t.tally {
		m, err := tally.Reduce(t.comm)
		switch {
		case err != nil:
			return metrics.Metrics{}, err
		case i == 0:
			first = m
		default:
			first.Labels = append(first.Labels, metrics.Labelled{Label: t.model.labels[i].Field, Metrics: m})
		}
	}
	return first, nil
}

// ThresholdsOf returns the weights above thresholds of the labels of two classes in the last
// Evaluate of a trainer, the same on each rank.
func ThresholdsOf(t *Trainer) (all []metrics.Thresholds) {
	for i, tally := range t.tally {
		if of, classes := tally.(*metrics.Tally); classes {
			x := of.Thresholds()
			if i > 0 {
				x.Label = t.model.labels[i].Field
			}
			all = append(all, x)
		}
	}
	return all
}

// Start sets the bias of a label, which is its initial output. Call it on every rank before
// the first step of a new training.
func (t *Trainer) Start(label int, output float64) {
	m := t.model
	bias := m.workers[0].tower[label].bias
	if bias == nil {
		name := "deep/out/bias"
		if label > 0 {
			name = TowerPrefix(m.labels[label]) + name
		}
		bias = m.arena.Param(name)
	}
	bias.Value[0] = float32(output)
	m.arena.Changed()
}

// TowerPrefix returns the prefix of the names of parameters for a label after the first.
func TowerPrefix(l schema.Label) string { return "tower/" + l.Field + "/" }
