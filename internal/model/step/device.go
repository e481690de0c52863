package step

import (
	"fmt"
	"time"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/optim"
)

// Device computes the steps of a Trainer in its own memory: pooling, networks, loss, the sum of
// the gradients of each distinct row, and the update of the dense parameters. It has a copy of
// an arena's parameters and optimizer state, which it renews when the version of the arena
// changes. Tables stay with their owners.
type Device interface {
	DeviceStep
	DeviceSum
	DeviceParameters
}

// DeviceStep computes the batch of a rank.
type DeviceStep interface {
	// Begin returns buffers for a batch, valid until the next call.
	Begin(size DeviceSize) (*DeviceBatch, error)
	// Compute computes the batch in the buffers that Begin returned, stores its results
	// there and returns the sum of its losses.
	Compute(step int64) (loss float64, err error)
	// Gradients waits for the gradients of the last Compute and stores them in the arena. It
	// does nothing if the devices sum gradients.
	Gradients() error
	// Skip replaces the other calls in a step without rows: all gradients are zero.
	Skip() error
}

// DeviceSum sums the gradients of all ranks in the memory of their devices. If it does not,
// the ranks sum the gradients in the arena.
type DeviceSum interface {
	// Sums reports whether the devices sum gradients. All ranks return the same. Compute and
	// Skip then begin the sum of the step.
	Sums() bool
	// Reduce sets the sum over the ranks, in place, of the statistics of batch normalisation,
	// which Compute and Skip call. It is called before the first step.
	Reduce(sum func([]float32) error)
	// Sum waits until the sum of this step is complete.
	Sum() error
	// End frees the communicator. All ranks call it after the last step.
	End()
}

// DeviceParameters are the parameters of a Device.
type DeviceParameters interface {
	// NormSq is Arena.GradNormSq. It reads the gradients of the arena, or of the devices if
	// they sum.
	NormSq(scale float32) (float64, error)
	// Apply is Arena.Apply for the gradients that NormSq reads. The values of the arena do
	// not change.
	Apply(at optim.Step) error
	// Fetch stores parameters and optimizer state in the arena.
	Fetch() error
	Close() error
}

// DeviceBatch holds one batch in host memory that the device chose. T is the number of
// labels, D of dense inputs; DeviceSize defines the other letters.
type DeviceBatch struct {
	Dense  []float32 // B×D
	Logit  []float32 // T×B: what precedes the wide weights and the bias; then the logits
	Label  []float32 // T×B
	Weight []float32 // B; empty if all weights are 1
	Row    []uint64  // B: numbers of the samples, which dropout reads

	Rows  []float32 // V: the distinct rows
	Index DeviceIndex
	Grads []float32 // result, V: their gradients
}

// offload is the dense part of a model on a device.
type offload struct {
	to    Device
	batch *DeviceBatch
	index indexer
	newer bool // the device's parameters are newer than the arena's
}

// ComputeOn has a device compute the dense part of all further steps. Evaluation stays on
// the CPU. open makes a device for an arena; Close closes it. Call it before the first step.
//
// late must be true if Tolerate or Replay follows. The device then belongs to the goroutine that
// may be late, and must not sum gradients. Its parameters belong to the microbatch that it
// computes, and the CPU updates the trainer's.
func (t *Trainer) ComputeOn(late bool, open func(*dense.Arena) (Device, error)) (err error) {
	m := t.model
	if late {
		if m, err = t.image(); err != nil {
			return err
		}
		t.late, t.image = m, func() (*model, error) { return m, nil }
	}
	d, err := open(m.arena)
	if err != nil {
		return err
	}
	m.device = &offload{to: d}
	d.Reduce(t.reduce)
	if d.Sums() {
		t.model.sums.only(len(t.model.arena.Grads()) - len(t.model.arena.Tail()))
	}
	return nil
}

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
