package step

import (
	"time"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// chunkRows is the number of rows that a worker takes forward and backward at once. It is
// small enough for their activations and the weights to stay in the second-level cache, and
// large enough to amortise the packing of a product.
const chunkRows = 256

// The phases of compute; all workers execute each at the same time. A single worker whose
// first layer is computed by samples needs phaseRows only.
const (
	phaseFill       = iota // with distinct rows: read the worker's share of the distinct rows and of the other input
	phaseColumns           // with distinct rows: the worker's columns of the first layer's output
	phaseRows              // the worker's rows of the batch, forward and backward
	phaseEnd               // with distinct rows: gradients of the worker's features; phaseSum for all others
	phaseSum               // the worker's part of the sum of dense gradients over the workers
	phaseTables            // gradients of the keys of the worker's tables
	phaseToDevice          // with a device: the worker's share of what is copied to it
	phaseFromDevice        // with a device: the worker's share of the gradients of rows
)

// lap adds the time since start to part and returns the current time.
func lap(part *time.Duration, start time.Time) time.Time {
	now := time.Now()
	*part += now.Sub(start)
	return now
}

func newWorker(m *model, c *config.Config, start float32, reduce func([]float32) error) (w *worker, err error) {
	w = &worker{model: m, i: len(m.workers), arena: new(dense.Arena)}
	w.tower, err = newTowers(m, w.arena, c, start, reduce)
	return w, err
}

// share returns part i of x elements divided by n: [lo, hi).
func share(x, n, i int) (lo, hi int) { return x * i / n, x * (i + 1) / n }

// rows is phaseRows of worker i. It stops at a chunk whose loss is not finite, so that the
// network still holds the values that led to it.
func (m *model) rows(i int) {
	w := m.workers[i]
	w.loss, w.err = 0, nil
	if m.train {
		w.zero()
	}
	lo, hi := share(m.batch.Rows, len(m.workers), i)
	for first := true; first || lo < hi; first = false { // without rows, one empty chunk takes part in batch normalisation
		n, at := min(hi-lo, m.chunk), time.Now()
		loss, err := w.forward(lo, lo+n)
		w.loss += loss
		if err == nil && m.train && finite(loss) {
			if len(m.workers) == 1 && lo+n == hi {
				m.tail(w.loss)
				m.last = true
			}
			err = w.backward(lo, lo+n)
		}
		if w.err = err; err != nil || !finite(loss) {
			return
		}
		if lo += n; i == 0 && lo < hi {
			m.reached(Progress{Rows: lo, Of: m.batch.Rows, Final: len(m.arena.Grads())})
		}
		if m.train && i == 0 && m.paused(lo, hi, at) {
			return
		}
	}
}

// paused sleeps after a chunk if hold requires it. It reports whether the batch was given
// up while rows lo to hi remain.
func (m *model) paused(lo, hi int, began time.Time) bool {
	if m.hold != nil {
		m.sleep(m.hold(m.step, time.Since(began)))
	}
	m.gaveUp = m.halt != nil && lo < hi && m.halt.Load()
	m.seen = lo * len(m.workers)
	return m.gaveUp
}

// sleep sleeps for d, or until the model is closed. A timer may be late by more than a small
// chunk takes, so the delay is subtracted from later sleeps.
func (m *model) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	if m.overslept >= d {
		m.overslept -= d
		return
	}
	d -= m.overslept
	began := time.Now()
	select {
	case <-time.After(d):
	case <-m.gone:
	}
	m.overslept = min(time.Since(began)-d, maxOverslept)
}

// maxOverslept bounds what is subtracted: a machine that was stopped does not make up for it.
const maxOverslept = 20 * time.Millisecond

// forward computes the logits of rows lo to hi and their gradients. It returns the sum of
// the losses.
func (w *worker) forward(lo, hi int) (loss float64, err error) {
	m, at := w.model, time.Now()
	w.pool(lo, hi)
	at = lap(&w.spent.Pool, at)
	for t := range w.tower {
		if net := w.tower[t].net; net != nil {
			net.SetStep(m.step, m.batch.RowID[lo:hi])
			y, err := w.outputs(net, lo, hi)
			if err != nil {
				return 0, err
			}
			f32.AddTo(m.of(m.logit, t)[lo:hi], y)
		}
		loss += float64(m.loss(t, lo, hi))
	}
	lap(&w.spent.Forward, at)
	return loss, nil
}

// pool sets the logits of rows lo to hi to the wide model's logits and fills the network's
// input: the pooled embeddings of each feature, then the dense inputs. It reads the wide
// weight and the embedding of a feature together, since they are parts of the same row.
func (w *worker) pool(lo, hi int) {
	m, width := w.model, w.model.layout.Width
	for t := range w.tower {
		logit, start := m.of(m.logit, t)[lo:hi], float32(0)
		if bias := w.tower[t].bias; bias != nil {
			start = bias.Value[0]
		}
		if m.train && t == 0 {
			start += m.shift
		}
		for i := range logit {
			logit[i] = start
		}
	}
	wide, deep := w.tower[0].bias != nil, w.tower[0].net != nil && !m.distinct.on
	if deep {
		w.input(lo, hi)
	}
	for f, ft := range m.layout.Features {
		if ft.DeepPart >= 0 && deep {
			m.lookup.PoolRange(f, ft.DeepPart, lo, hi, from(w.x, ft.DeepCol), width, false)
		}
		if ft.WidePart < 0 || !wide {
			continue
		}
		if x := m.distinct.wideOf(f); x != nil {
			x.add(m.logit[lo:hi], lo)
			continue
		}
		for t := range w.tower {
			m.lookup.PoolRange(f, ft.WidePart+t, lo, hi, m.of(m.logit, t)[lo:hi], 1, true)
		}
	}
}

// input allocates the network's input and fills in the dense inputs.
func (w *worker) input(lo, hi int) {
	m := w.model
	width, d := m.layout.Width, len(m.layout.Dense)
	if n := (hi - lo) * width; cap(w.x) < n {
		w.x = make([]float32, n)
	}
	w.x = w.x[:(hi-lo)*width]
	if d > 0 {
		for i := range hi - lo {
			copy(w.x[(i+1)*width-d:(i+1)*width], m.batch.Dense[(lo+i)*d:])
		}
	}
}

// backward adds the gradients of rows lo to hi. It adds the gradients of keys at once if it is the
// only worker and has the gradient of the input, and leaves them to phaseTables otherwise.
func (w *worker) backward(lo, hi int) (err error) {
	m, at := w.model, time.Now()
	for t := range w.tower {
		bias := w.tower[t].bias
		for i := 0; bias != nil && i < hi-lo; i++ {
			bias.Grad[0] += m.of(m.dlogit, t)[lo+i]
		}
	}
	var dx []float32
	if m.distinct.on {
		err = w.backwardRows(lo, hi)
	} else {
		dx, err = w.backNetworks(lo, hi)
	}
	at = lap(&w.spent.Backward, at)
	if err != nil || m.distinct.on {
		return err
	}
	if len(m.workers) > 1 {
		copy(m.dx[lo*m.layout.Width:], dx)
		return nil
	}
	for f := range m.layout.Features {
		m.keyGradients(f, lo, hi, dx)
	}
	lap(&w.spent.Keys, at)
	return nil
}

// backNetworks takes the gradients of the logits of rows lo to hi back through the
// networks, in reverse order of their declaration. It returns the gradient of their input,
// summed over the towers.
func (w *worker) backNetworks(lo, hi int) (dx []float32, err error) {
	m := w.model
	for t := len(w.tower) - 1; t >= 0; t-- {
		net := w.tower[t].net
		if net == nil {
			return nil, nil
		}
		of, err := net.Backward(m.of(m.dlogit, t)[lo:hi], hi-lo)
		if err != nil {
			return nil, err
		}
		if dx != nil {
			f32.AddTo(of, dx)
		}
		dx = of
	}
	return dx, nil
}

// keyGradients adds the gradients of feature f's keys in rows lo to hi. dx is the gradient
// of the network's input for these rows.
func (m *model) keyGradients(f, lo, hi int, dx []float32) {
	ft := m.layout.Features[f]
	for t := 0; ft.WidePart >= 0 && t < len(m.labels); t++ {
		m.lookup.PoolGradRange(f, ft.WidePart+t, lo, hi, m.of(m.dlogit, t)[lo:hi], 1)
	}
	if ft.DeepPart >= 0 {
		m.lookup.PoolGradRange(f, ft.DeepPart, lo, hi, from(dx, ft.DeepCol), m.layout.Width)
	}
}

// tables is phaseTables of worker i. Features of one table belong to the same worker.
func (m *model) tables(i int) {
	defer lap(&m.workers[i].spent.Keys, time.Now())
	if m.distinct.on {
		m.distinct.keyGradients(m, i)
		return
	}
	for f, ft := range m.layout.Features {
		if ft.Table%len(m.workers) == i {
			m.keyGradients(f, 0, m.batch.Rows, m.dx)
		}
	}
}

// reached sleeps until the modelled machine would have reached p.
func (m *model) reached(p Progress) {
	if m.pace != nil {
		m.sleep(time.Until(m.began.Add(m.pace(p))))
	}
}
