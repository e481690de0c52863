package wdl

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/sparse"
)

type lookup = *sparse.Lookup

// hand is the worker of a rank beside its owner: a goroutine that computes one
// microbatch at a time on an image of the model, so that it may be late and the
// owner's parameters change under nobody's hands. It reads the rows and writes the
// gradients of its work's own Lookup, which the owner meanwhile leaves alone.
type hand struct {
	of     *model // the owner's
	image  *model
	dense  []string
	start  chan *work
	ended  chan struct{} // the work has been computed or given up
	giveUp atomic.Bool
	gone   sync.WaitGroup
}

func newHand(t *Trainer) (*hand, error) {
	image, err := t.image()
	if err != nil {
		return nil, err
	}
	h := &hand{of: t.model, image: image, dense: t.dense, start: make(chan *work, 1), ended: make(chan struct{}, 1)}
	image.hold, image.halt = t.model.hold, &h.giveUp
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
	loss, err := m.compute(w.batch, w.step, true)
	w.took, w.err = time.Since(start), err
	if m.gaveUp {
		w.done = uint8(math.MaxUint8 * m.seen / max(w.batch.Rows, 1))
		return
	}
	if err == nil && !finite(loss) {
		w.err = fmt.Errorf("wdl: step %d: the loss is %v: %w", w.step, loss, m.nonFinite(w.batch, h.dense))
	}
	tail := m.arena.Tail()
	clear(tail)
	tail[tailRows], tail[tailLoss] = float32(w.batch.Rows), float32(loss)
	copy(w.grads, m.arena.Grads())
	w.whole = w.err == nil
}

// close ends the worker when it has given up what it does.
func (h *hand) close() {
	h.giveUp.Store(true)
	close(h.start)
	h.gone.Wait()
	h.image.crew.close()
}
