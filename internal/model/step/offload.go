package step

import (
	"fmt"
	"time"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/optim"
)

// sumOnDevice waits until the devices have summed the gradients of this step, if they do.
func (m *model) sumOnDevice() error {
	if m.device == nil || !m.device.to.Sums() {
		return nil
	}
	return m.device.to.Sum()
}

// parameters returns the arena, updated from the device if there is one.
func (t *Trainer) parameters() (*dense.Arena, error) { return t.model.arena, t.model.fetch() }

// fetch copies the parameters from the device to the arena, if they are newer there.
func (m *model) fetch() error {
	if m.device == nil || !m.device.newer {
		return nil
	}
	if err := m.device.to.Fetch(); err != nil {
		return err
	}
	m.device.newer = false
	return nil
}

// gradNormSq and apply call the methods of the device if there is one, and otherwise those
// of the arena.
func (m *model) gradNormSq(scale float32) (float64, error) {
	if m.device == nil {
		return m.arena.GradNormSq(scale), nil
	}
	return m.device.to.NormSq(scale)
}

func (m *model) apply(at optim.Step) error {
	if m.device == nil {
		m.arena.Apply(at)
		return nil
	}
	m.device.newer = true
	return m.device.to.Apply(at)
}

// computeOn is compute for training on a device. The gradients of rows are copied while the
// device computes the dense gradients and copies or sums them.
func (m *model) computeOn(d *offload) (loss float64, err error) {
	if m.batch.Rows == 0 {
		if err := d.to.Skip(); err != nil {
			return 0, err
		}
		m.tail(0)
		m.sums.ready(0)
		return 0, nil
	}
	for t := range m.further {
		if m.further[t].missing {
			return 0, fmt.Errorf("label %s is missing in some samples, which a device cannot leave out: set train.device: cpu, or leave these records out with data.where", m.labels[t+1].Field)
		}
	}
	spent, at := &m.workers[0].spent, time.Now()
	if d.batch, err = d.to.Begin(d.index.measure(m)); err != nil {
		return 0, err
	}
	m.crew.run(phaseToDevice)
	at = lap(&spent.Pool, at)
	if loss, err = d.to.Compute(m.step); err != nil {
		return 0, err
	}
	copy(m.logit, d.batch.Logit)
	at = lap(&spent.Forward, at)
	if !finite(loss) {
		return loss, nil
	}
	m.crew.run(phaseFromDevice)
	at = lap(&spent.Keys, at)
	if err := d.to.Gradients(); err != nil {
		return 0, err
	}
	at = lap(&spent.Backward, at)
	if m.hold != nil {
		m.sleep(m.hold(m.step, at.Sub(m.began)))
	}
	m.tail(loss)
	m.sums.ready(0)
	return loss, nil
}

// fillDevice is phaseToDevice of worker i.
func (m *model) fillDevice(i int) {
	r, b, all, n := m.device.batch, m.batch, m.batch.Rows, len(m.workers)
	lo, hi := share(all, n, i)
	copy(r.Weight[min(lo, len(r.Weight)):], m.weight[min(lo, len(m.weight)):min(hi, len(m.weight))])
	copy(r.Row[lo:hi], b.RowID[lo:])
	for t := range m.labels {
		copy(r.Label[t*all+lo:t*all+hi], m.labelsOf(t)[lo:])
		logit, start := r.Logit[t*all+lo:t*all+hi], float32(0)
		if t == 0 {
			start = m.shift
		}
		for i := range logit {
			logit[i] = start
		}
	}
	d := len(r.Dense) / all
	copy(r.Dense[lo*d:hi*d], b.Dense[min(lo*d, len(b.Dense)):])
	if lo, hi = share(len(r.Rows), n, i); lo < hi {
		copy(r.Rows[lo:hi], m.lookup.Values(0).Rows[lo:])
	}
	m.device.index.fill(&r.Index, &m.layout, i, n)
}

// takeGrads is phaseFromDevice of worker i.
func (m *model) takeGrads(i int) {
	grads := m.device.batch.Grads
	if lo, hi := share(len(grads), len(m.workers), i); lo < hi {
		copy(m.lookup.Values(0).Grads[lo:hi], grads[lo:])
	}
}
