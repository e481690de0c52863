package step

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// hand is the worker of a rank, next to its owner: a goroutine that computes one
// microbatch at a time on an image of the model, so that it may be late and the
// owner's parameters do not change while it computes. It reads the rows and writes the
// gradients of its work's own Lookup, which the owner meanwhile leaves alone.
type hand struct {
	of     *model // the owner's
	image  *model
	start  chan *work
	ended  chan struct{} // the work has been computed or given up
	giveUp atomic.Bool
	took   atomic.Int64 // of all work, in ns
	parts  atomic.Int64 // of microbatches that were computed, 1/255 each
	gone   sync.WaitGroup
}

func newHand(t *Trainer) (*hand, error) {
	image, err := t.image()
	if err != nil {
		return nil, err
	}
	h := &hand{of: t.model, image: image, start: make(chan *work, 1), ended: make(chan struct{}, 1)}
	image.hold, image.halt, image.gone = t.model.hold, &h.giveUp, make(chan struct{})
	h.gone.Go(func() {
		for w := range h.start {
			h.compute(w)
			h.ended <- struct{}{}
		}
	})
	return h, nil
}

// begin hands over work with the parameters as they are now. The hand must be idle.
func (h *hand) begin(w *work) {
	copy(h.image.arena.Values(), h.of.arena.Values())
	h.image.arena.Changed()
	h.giveUp.Store(false)
	h.start <- w
}

func (h *hand) compute(w *work) {
	start := time.Now()
	m := h.image
	m.lookup = w.lookup
	w.err = m.gradients(w.batch, w.step)
	w.took = time.Since(start)
	w.done = math.MaxUint8
	if m.gaveUp {
		w.done = uint8(math.MaxUint8 * m.seen / max(w.batch.Rows, 1))
	}
	h.took.Add(int64(w.took))
	h.parts.Add(int64(w.done))
	if m.gaveUp || w.err != nil {
		return
	}
	copy(w.grads, m.arena.Grads())
	w.whole = true
}

// spent is how long the worker has computed, and how many microbatches, 1 s each.
func (h *hand) spent() (took, batches time.Duration) {
	return time.Duration(h.took.Load()), time.Duration(h.parts.Load()) * time.Second / math.MaxUint8
}

// close ends the worker when it has given up what it does. One that sleeps on
// purpose delays no rank: the steps that it is late for are taken.
func (h *hand) close() {
	h.giveUp.Store(true)
	close(h.image.gone)
	close(h.start)
	h.gone.Wait()
	h.image.crew.close()
}
