package data

import (
	"cmp"
	"context"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/encode"
)

// ahead is the part of a Reader that works while the training computes. One goroutine, the
// loader, reads the records of each step into a draft. If a helper is idle, the helper
// encodes the draft; otherwise the loader does:
//
//	loader ─► draft ─► offer ─► helper: encode ─► draft.ready ─┐
//	             │  └► or the loader encodes it ─► ready ──────┤
//	             └───► out, in the order of the steps ─────────┴► Next
//
// The tokens bound the number of drafts ahead. The loader takes one token per
// draft. Next returns tokens in groups of half the depth, because waking the loader costs
// more than taking one batch. Small batches are therefore read far ahead from the start.
// The number of tokens and helpers is adjusted from measurements; see adjust. Drafts are
// reused, so nothing is allocated once they have grown.
type ahead struct {
	dataset *Dataset
	encoder *encode.Encoder
	memo    *memo
	cancel  context.CancelFunc

	tokens chan struct{}
	offer  chan *draft // unbuffered: a send succeeds only if a helper is idle
	out    chan *draft
	free   chan *draft
	ended  chan struct{} // closed when the loader ends

	coded     bool // records are encoded already
	oneCPU    bool // one processor runs training and reading
	most      int  // maximum number of encoding threads, including the loader
	given     bool // a draft has been returned
	burst     burst
	busyWaits int // consecutive waits of Next during which the loader never rested
	depth     atomic.Int64
	threads   atomic.Int64
	worked    atomic.Int64 // ns of work, over all threads
	making    atomic.Int64 // ns that the last draft took
	rested    atomic.Int64 // ns that the loader rested since Next last waited
	size      atomic.Int64 // bytes of a draft
}

// burst is the work of the loader since it last rested.
type burst struct {
	from    time.Time
	batches int
}

const (
	maxBusyWaits = 8        // waits without a rest of the loader before a helper is started
	growDepth    = 64       // maximum depth, in batches
	maxAhead     = 16 << 20 // maximum bytes of drafts
	soonAhead    = 4 << 20  // maximum bytes of drafts before any wait has shown that they are needed
)

func newAhead(d *Dataset, e *encode.Encoder, c ReaderConfig) ahead {
	return ahead{
		dataset: d, encoder: e, oneCPU: runtime.GOMAXPROCS(0) == 1, most: c.Threads,
		tokens: make(chan struct{}, max(c.Depth, growDepth)), offer: make(chan *draft),
		out: make(chan *draft, max(c.Depth, growDepth)+1), free: make(chan *draft, max(c.Depth, growDepth)+2),
		ended: make(chan struct{}),
	}
}

// start starts the loader.
func (r *Reader) start(f *filler, b *draftCoder) {
	if r.config.Epochs > 1 && !b.coded {
		r.memo = newMemo(r.dataset.rows, b.RowWords())
	}
	b.memo, r.coded, b.spare = r.memo, b.coded, &f.spare
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	r.deepen(cmp.Or(r.config.Depth, defaultDepth))
	r.threads.Store(1)
	go r.load(ctx, f, b)
}

// deepen lets the loader work at least n drafts ahead.
func (r *Reader) deepen(n int) {
	for {
		was := r.depth.Load()
		if was >= int64(n) {
			return
		}
		if r.depth.CompareAndSwap(was, int64(n)) {
			for range int64(n) - was {
				r.tokens <- struct{}{}
			}
			return
		}
	}
}

// adjust is called when Next has to wait. If the loader has rested for longer than a draft
// takes, it could have read one more, so the depth grows. If it has not, reading is slower
// than training, and a helper is started. If one processor runs both, neither helps.
func (r *Reader) adjust() {
	if !r.given || r.oneCPU { // nothing can be ready before the first
		return
	}
	if r.rested.Swap(0) > r.making.Load() {
		r.busyWaits = 0
		if n := min(2*r.depth.Load(), growDepth); n*r.size.Load() <= maxAhead {
			r.deepen(int(n))
		}
		return
	}
	if r.busyWaits++; r.busyWaits < maxBusyWaits || int(r.threads.Load()) >= r.most {
		return
	}
	r.busyWaits = 0
	if b, err := r.dataset.newDraftCoder(r.encoder); err == nil { // as for the loader
		b.memo, b.coded = r.memo, r.coded
		r.threads.Add(1)
		go r.help(b)
	}
}

// help encodes the drafts that the loader offers.
func (r *Reader) help(b *draftCoder) {
	for d := range r.offer {
		r.encode(b, d)
	}
}

// load reads all batches of all epochs.
func (r *Reader) load(ctx context.Context, f *filler, b *draftCoder) {
	defer close(r.ended)
	defer close(r.offer)
	defer f.Close()
	defer r.rest()
	c := &r.config
	sized := c.Depth > 0
	for e := range c.Epochs {
		start := int64(0)
		if e == 0 {
			start = c.Start
		}
		f.begin(r.dataset.newOrder(c, c.Epoch+e))
		if e == 0 {
			f.columns = newColumns(f)
		}
		n := f.order.rows()
		for x := start; x < n; {
			y := min(x+int64(c.Growth.Batch(c.Trained+e*n+x, c.GlobalBatch)), n)
			if !r.takeToken(ctx) || !r.step(ctx, f, b, x, y) {
				return
			}
			if bytes := r.size.Load(); bytes > 0 && !sized {
				sized = true
				r.deepen(int(min(soonAhead/bytes, growDepth)))
			}
			x = y
		}
		if !r.takeToken(ctx) {
			return
		}
		d := r.nextDraft()
		d.err, d.more = io.EOF, e+1 < c.Epochs
		r.out <- d
		d.ready <- struct{}{}
	}
}

// takeToken waits until another draft may be read ahead. It returns false if the Reader is
// closed.
func (r *Reader) takeToken(ctx context.Context) bool {
	select {
	case <-r.tokens:
		return ctx.Err() == nil
	default:
	}
	r.rest()
	began := time.Now()
	select {
	case <-r.tokens:
		r.rested.Add(int64(time.Since(began)))
		return true
	case <-ctx.Done():
		return false
	}
}

// rest reports the work of the loader since it last rested.
func (r *Reader) rest() {
	if r.config.Worked != nil && r.burst.batches > 0 {
		r.config.Worked(r.burst.from, time.Now(), r.burst.batches)
	}
	r.burst.batches = 0
}

func (r *Reader) nextDraft() *draft {
	select {
	case d := <-r.free:
		return d
	default:
		return newDraft()
	}
}

// step makes the draft of the rows between positions x and y of the epoch. It returns
// false if the Reader is closed.
func (r *Reader) step(ctx context.Context, f *filler, b *draftCoder, x, y int64) bool {
	began := time.Now()
	if r.burst.batches++; r.burst.batches == 1 {
		r.burst.from = began
	}
	d := r.nextDraft()
	d.stored, f.spare = f.spare, d.stored // its memory is in the caches
	d.err = f.fill(ctx, d, x, y)
	d.took = time.Since(began)
	r.worked.Add(int64(d.took))
	ok := d.err == nil
	r.out <- d
	if !ok {
		d.ready <- struct{}{}
		return false
	}
	r.place.Lock()
	r.place.reading = d.at
	r.place.Unlock()
	select {
	case r.offer <- d:
	default:
		r.encode(b, d)
	}
	return true
}

// encode encodes a draft and marks it ready.
func (r *Reader) encode(b *draftCoder, d *draft) {
	began := time.Now()
	d.err = b.encode(d)
	d.unknown = append(d.unknown[:0], b.Unknowns()...)
	clear(b.Unknowns())
	if b.spare != nil {
		d.stored, *b.spare = *b.spare, d.stored
	}
	if d.Rows > 0 {
		r.size.Store(int64(d.bytes()))
	}
	took := time.Since(began)
	r.worked.Add(int64(took))
	r.making.Store(int64(d.took + took))
	d.ready <- struct{}{}
	if r.oneCPU { // the training may have waited for this draft
		runtime.Gosched()
	}
}

// Pace reports how a Reader works concurrently with the training.
type Pace struct {
	Depth   int           // maximum number of batches read ahead
	Threads int           // encoding threads, including the one that reads
	Work    time.Duration // total time of the threads at work, including time preempted
}

// Pace may be called at any time.
func (r *Reader) Pace() Pace {
	return Pace{int(r.depth.Load()), int(r.threads.Load()), time.Duration(r.worked.Load())}
}
