package step

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// asyncWorker computes the microbatches of a rank, one at a time, in a goroutine of its
// own. It computes on an image of the model, so the caller's parameters do not change while
// it works, even if it is late. It reads the rows and writes the gradients of the Lookup of
// its work, which the caller does not touch meanwhile.
type asyncWorker struct {
	main    *model // model of the goroutine that calls the Trainer
	image   *model
	start   chan *work
	ended   chan struct{} // receives a value when the work was computed or given up
	giveUp  atomic.Bool
	busy    atomic.Int64 // time of all works, in ns
	parts   atomic.Int64 // parts computed of all microbatches, in 1/255
	stopped sync.WaitGroup
}

func newAsyncWorker(t *Trainer) (*asyncWorker, error) {
	image, err := t.image()
	if err != nil {
		return nil, err
	}
	h := &asyncWorker{main: t.model, image: image, start: make(chan *work, 1), ended: make(chan struct{}, 1)}
	image.hold, image.halt, image.gone = t.model.hold, &h.giveUp, make(chan struct{})
	h.stopped.Go(func() {
		for w := range h.start {
			h.compute(w)
			h.ended <- struct{}{}
		}
	})
	return h, nil
}

// begin starts the computation of w with the current parameters. The worker must be idle.
func (h *asyncWorker) begin(w *work) {
	copy(h.image.arena.Values(), h.main.arena.Values())
	h.image.arena.Changed()
	h.giveUp.Store(false)
	h.start <- w
}

func (h *asyncWorker) compute(w *work) {
	start := time.Now()
	m := h.image
	m.lookup = w.lookup
	w.err = m.gradients(w.batch, w.step)
	w.took = time.Since(start)
	w.done = math.MaxUint8
	if m.gaveUp {
		w.done = uint8(math.MaxUint8 * m.seen / max(w.batch.Rows, 1))
	}
	h.busy.Add(int64(w.took))
	h.parts.Add(int64(w.done))
	if m.gaveUp || w.err != nil {
		return
	}
	copy(w.grads, m.arena.Grads())
	w.complete = true
}

// spent returns the time that the worker has computed, and the number of microbatches in
// units of 1 s each.
func (h *asyncWorker) spent() (took, batches time.Duration) {
	return time.Duration(h.busy.Load()), time.Duration(h.parts.Load()) * time.Second / math.MaxUint8
}

// close ends the goroutine. It waits until the goroutine has given up its work, except for
// an injected delay, which it interrupts.
func (h *asyncWorker) close() {
	h.giveUp.Store(true)
	close(h.image.gone)
	close(h.start)
	h.stopped.Wait()
	h.image.crew.close()
}
