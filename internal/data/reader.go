package data

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// ReaderConfig configures a Reader. All ranks need the same, except Rank.
type ReaderConfig struct {
	Seed        uint64
	Epoch       int64
	Epochs      int64 // number of consecutive epochs; 0: 1
	Start       int64 // records of the first epoch already consumed
	GlobalBatch int   // records of a step, over all ranks
	Growth      Growth
	Trained     int64 // records trained on before the first epoch, for Growth
	Rank, Size  int   // Size 0: 1
	Split       int   // with Size 1: the rows of a batch are grouped by the rank that would read them, of Split ranks; see Parts
	Shuffle     bool
	Apart       bool   // each rank reads a part of the data in its order: the records of a step depend on Size
	Select      Select // which records
	Depth       int    // initial number of batches read ahead; 0: 8, for small ones up to 64
	Threads     int    // maximum number of encoding threads; 0: GOMAXPROCS

	// Worked, if not nil, is called when the goroutine that reads ahead rests or ends: it has
	// read batches from one time to another. That goroutine calls it.
	Worked func(from, to time.Time, batches int)
}

// MaxBatch is the maximum number of samples of a global batch.
const MaxBatch = 1 << 26

const (
	defaultDepth = 8
	maxDepth     = 1 << 10
	maxThreads   = 1 << 10
	closeWait    = time.Second
)

func (c ReaderConfig) filled() ReaderConfig {
	if c.Size == 0 {
		c.Size = 1
	}
	if c.Epochs == 0 {
		c.Epochs = 1
	}
	if c.Threads == 0 {
		c.Threads = min(runtime.GOMAXPROCS(0), maxThreads)
	}
	return c
}

func (c ReaderConfig) validate(rows int64) error {
	var v schema.Faults
	if c.GlobalBatch < 1 || c.GlobalBatch > MaxBatch {
		v.Bad("global batch", "is %d, from 1 to %d are possible", c.GlobalBatch, MaxBatch)
	}
	if c.Growth.Share < 0 || c.Growth.Share > 0 && c.Growth.Least < 1 || c.Trained < 0 {
		v.Bad("growth", "is %+v after %d records", c.Growth, c.Trained)
	}
	if c.Size < 1 || c.Rank < 0 || c.Rank >= c.Size {
		v.Bad("rank", "is %d of %d", c.Rank, c.Size)
	}
	if c.Start < 0 || c.Start > rows {
		v.Bad("start", "is record %d of an epoch of %d; was the position taken on other data?", c.Start, rows)
	}
	if c.Split < 0 || c.Split > 0 && (c.Size > 1 || c.Apart) {
		v.Bad("split", "is %d, and needs a reader of all rows", c.Split)
	}
	if c.Apart && (c.Shuffle || c.Start > 0) {
		v.Bad("apart", "is not possible with shuffling or a start")
	}
	if c.Depth < 0 || c.Depth > maxDepth {
		v.Bad("depth", "is %d, from 1 to %d are possible", c.Depth, maxDepth)
	}
	if c.Epochs < 0 {
		v.Bad("epochs", "are %d", c.Epochs)
	}
	if c.Threads < 0 || c.Threads > maxThreads {
		v.Bad("threads", "are %d, from 1 to %d are possible", c.Threads, maxThreads)
	}
	if c.Select < Train || c.Select > All {
		v.Bad("select", "is %d", c.Select)
	}
	return schema.Joined("reader", v)
}

// Reader returns one rank's rows of each step of some epochs. Every rank gets the same
// number of steps. The ranks' shares of a step are about equal and may be empty. The
// Reader reads ahead until Close; see ahead.go.
type Reader struct {
	config ReaderConfig
	ahead
	done       error  // returned by Next from now on
	head       *draft // the next draft, while it is not ready
	peeked     []*draft
	unreturned int // tokens of returned drafts, not yet in tokens

	unknown []atomic.Int64
	place   struct {
		sync.Mutex
		waiting        bool
		given, reading place
	}
}

// NewReader starts to read. Call Use on the dataset first. The encoder may be of another
// dataset with the same fields.
func NewReader(d *Dataset, e *encode.Encoder, c ReaderConfig) (*Reader, error) {
	if d.rowBase == nil {
		return nil, errors.New("reader: the dataset has not been counted; Scan it and Use the counts")
	}
	c = c.filled()
	if err := c.validate(d.Rows(c.Select)); err != nil {
		return nil, err
	}
	if err := schema.Joined("reader: "+d.set.Files[0].Name, e.Lacks(d.set.Source.WithDerived(d.set.Fields))); err != nil {
		return nil, err
	}
	b, err := d.newDraftCoder(e)
	if err != nil {
		return nil, err
	}
	f, err := d.newFiller(e, c)
	if err != nil {
		return nil, err
	}
	b.coded = f.coded()
	r := &Reader{config: c, ahead: newAhead(d, e, c), unknown: make([]atomic.Int64, encode.Reasons*len(e.Sparse()))}
	r.start(f, b)
	return r, nil
}

var errClosed = errors.New("reader: it is closed")

// Next returns the batch of the next step, io.EOF after the last of each epoch. The batch
// is the caller's until Recycle.
func (r *Reader) Next(ctx context.Context) (*encode.Batch, error) {
	if r.done != nil {
		return nil, r.done
	}
	if len(r.peeked) > 0 {
		d := r.peeked[0]
		r.peeked = r.peeked[1:]
		return r.deliver(d)
	}
	if d := r.poll(); d != nil {
		r.took()
		return r.deliver(d)
	}
	r.returnTokens()
	r.adjust()
	r.wait(true)
	defer r.wait(false)
	d, err := r.await(ctx)
	if err != nil {
		return nil, err
	}
	r.took()
	return r.deliver(d)
}

// Peek returns the batch that Next will return after i others, nil if the epoch ends before or
// it cannot be read. The batch is valid until Recycle. Batches that have been peeked are held in
// memory in addition to the batches read ahead.
func (r *Reader) Peek(ctx context.Context, i int) (*encode.Batch, error) {
	for len(r.peeked) <= i {
		if n := len(r.peeked); r.done != nil || n > 0 && r.peeked[n-1].err != nil {
			return nil, nil
		}
		d := r.poll()
		if d == nil {
			var err error
			if d, err = r.await(ctx); err != nil {
				return nil, err
			}
		}
		r.took()
		r.returnTokens()
		r.peeked = append(r.peeked, d)
	}
	if r.peeked[i].err != nil {
		return nil, nil
	}
	return &r.peeked[i].Batch, nil
}

// Parts returns the bounds of the parts of a batch with ReaderConfig.Split: rank r would read
// rows Parts[r] to Parts[r+1].
func (r *Reader) Parts(b *encode.Batch) []int { return b.Owner.(*draft).parts }

// poll returns the next draft if it is ready.
func (r *Reader) poll() *draft {
	if r.head == nil {
		select {
		case r.head = <-r.out:
		default:
			return nil
		}
	}
	select {
	case <-r.head.ready:
		return r.head
	default:
		return nil
	}
}

// await waits for the next draft.
func (r *Reader) await(ctx context.Context) (*draft, error) {
	if r.head == nil {
		select {
		case r.head = <-r.out:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	select {
	case <-r.head.ready:
		return r.head, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (r *Reader) wait(yes bool) {
	r.place.Lock()
	r.place.waiting = yes
	r.place.Unlock()
}

// returnTokens returns the unreturned tokens to the loader.
func (r *Reader) returnTokens() {
	for ; r.unreturned > 0; r.unreturned-- {
		r.tokens <- struct{}{}
	}
}

// took takes the head off the queue.
func (r *Reader) took() {
	r.head = nil
	if r.unreturned++; 2*r.unreturned >= int(r.depth.Load()) {
		r.returnTokens()
	}
}

// deliver returns a ready draft.
func (r *Reader) deliver(d *draft) (*encode.Batch, error) {
	r.given = true
	if err := d.err; err != nil {
		if !d.more {
			r.done = err
		}
		r.Recycle(&d.Batch)
		return nil, err
	}
	for i, n := range d.unknown {
		if n > 0 {
			r.unknown[i].Add(n)
		}
	}
	r.place.Lock()
	r.place.given = d.at
	r.place.Unlock()
	return &d.Batch, nil
}

// Recycle returns a batch for reuse. The caller must not use its slices afterwards.
func (r *Reader) Recycle(b *encode.Batch) {
	d, ok := b.Owner.(*draft)
	if !ok {
		return // not of a Reader
	}
	select {
	case r.free <- d:
	default:
	}
}

// Position returns the place of the first row of the batch that Next returned last or,
// while Next waits, of the batch read last: "adult.data offset 12345, row 678". It may be
// called at any time.
func (r *Reader) Position() string {
	r.place.Lock()
	p := r.place.given
	if r.place.waiting {
		p = r.place.reading
	}
	r.place.Unlock()
	if p.file == nil {
		return ""
	}
	return fmt.Sprintf("%s offset %d, row %d", strings.TrimPrefix(p.file.Name, record.Builtin), p.offset, p.row)
}

// Unknown returns, for each entry of Encoder.Sparse and reason, the number of values of the batches
// that Next has returned that are not in its vocabulary. It may be called at any time.
func (r *Reader) Unknown() []int64 {
	n := make([]int64, len(r.unknown))
	for i := range r.unknown {
		n[i] = r.unknown[i].Load()
	}
	return n
}

// Close ends reading ahead. It waits at most one second for a pending read, such as one
// from a network disk that is gone.
func (r *Reader) Close() {
	r.cancel()
	deadline := time.NewTimer(closeWait)
	defer deadline.Stop()
	select {
	case <-r.ended:
	case <-deadline.C:
	}
	if r.done == nil {
		r.done = errClosed
	}
}
