package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ReaderConfig says what a Reader reads. Rank and Size aside, all ranks need
// the same.
type ReaderConfig struct {
	Seed        uint64
	Epoch       int64
	Start       int64 // records of the epoch that were consumed before
	GlobalBatch int   // records of a step, over all ranks
	Lanes       int   // 0: DefaultLanes(Size)
	Rank, Size  int   // Size 0: 1
	Shuffle     bool
	Window      int    // records that are shuffled with each other, over all ranks; 0: 131,072
	Select      Select // which records
	Depth       int    // batches read ahead; 0: 4
}

const (
	defaultDepth = 4
	mostDepth    = 1 << 10
	mostBatch    = 1 << 26
	closeWait    = time.Second
)

func (c ReaderConfig) filled() ReaderConfig {
	if c.Size == 0 {
		c.Size = 1
	}
	if c.Lanes == 0 {
		c.Lanes = DefaultLanes(c.Size)
	}
	if c.Depth == 0 {
		c.Depth = defaultDepth // covers a step that loads windows
	}
	return c
}

func (c ReaderConfig) validate(rows int64) error {
	var v validator
	if c.GlobalBatch < 1 || c.GlobalBatch > mostBatch {
		v.bad("global batch", "is %d, from 1 to %d are possible", c.GlobalBatch, mostBatch)
	}
	if c.Size < 1 || c.Rank < 0 || c.Rank >= c.Size {
		v.bad("rank", "is %d of %d", c.Rank, c.Size)
	}
	if c.Lanes < 1 || c.Lanes > mostLanes {
		v.bad("lanes", "are %d, from 1 to %d are possible", c.Lanes, mostLanes)
	}
	if c.Start < 0 || c.Start > rows {
		v.bad("start", "is record %d of an epoch of %d; was the position taken on other data?", c.Start, rows)
	}
	if c.Window < 0 {
		v.bad("window", "is %d", c.Window)
	}
	if c.Depth < 0 || c.Depth > mostDepth {
		v.bad("depth", "is %d, from 1 to %d are possible", c.Depth, mostDepth)
	}
	if c.Select < Train || c.Select > All {
		v.bad("select", "is %d", c.Select)
	}
	return joined("data: reader", v.faults)
}

// Reader gives one rank its rows of each step of an epoch. Every rank gets the
// same number of steps; the rows of a step are as even as lanes allow, and may
// be none. A goroutine reads ahead until Close.
type Reader struct {
	config ReaderConfig
	filler *filler
	gather gather

	out    chan *Batch
	free   chan *Batch
	last   error // what follows the last batch; set before out is closed
	done   error // what Next returns from now on
	cancel context.CancelFunc

	unknown []atomic.Int64
	place   struct {
		sync.Mutex
		waiting        bool
		given, reading place
	}
}

// NewReader starts to read. The dataset must know its counts (Use); the
// encoder may be of another dataset, as long as this one has its fields.
func NewReader(d *Dataset, e *Encoder, c ReaderConfig) (*Reader, error) {
	if d.rowBase == nil {
		return nil, errors.New("data: reader: the dataset has not been counted; Scan it and Use the counts")
	}
	c = c.filled()
	if err := c.validate(d.Rows(c.Select)); err != nil {
		return nil, err
	}
	if err := joined("data: reader: "+d.files[0].name, e.schema.Validate(d.fields)); err != nil {
		return nil, err
	}
	f, err := d.newFiller(e, c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Reader{
		config: c, filler: f, gather: gather{shape: f.coder.shape},
		out: make(chan *Batch, c.Depth), free: make(chan *Batch, c.Depth+2), cancel: cancel,
	}
	r.unknown = make([]atomic.Int64, r.gather.sparse)
	r.gather.unknown = make([]int64, r.gather.sparse)
	go r.run(ctx)
	return r, nil
}

func (d *Dataset) newFiller(e *Encoder, c ReaderConfig) (*filler, error) {
	s, err := d.newScanner(e.schema, e.stats)
	if err != nil {
		return nil, err
	}
	f := &filler{scanner: s, sel: c.Select, size: int64(c.Size), start: c.Start, live: spot{at: -1}, read: -1}
	f.order = newOrder(d.chosen[c.Select](), c.Seed, uint64(c.Epoch), c.Lanes, c.Window, c.Shuffle)
	f.order.stream = d.stream
	f.lanes = make([]lane, f.order.lanesOf(c.Rank, c.Size))
	for i := range f.lanes {
		f.lanes[i].number = int64(c.Rank + i*c.Size)
	}
	if d.bad > 0 {
		f.valid, err = d.newScanner(d.schema, nil)
	}
	return f, err
}

// run reads all batches of the epoch.
func (r *Reader) run(ctx context.Context) {
	defer close(r.out)
	defer r.filler.close()
	n := r.filler.order.rows()
	for x := r.config.Start; x < n; {
		y := min(x+int64(r.config.GlobalBatch), n)
		b := r.take()
		if r.last = r.fill(ctx, b, x, y); r.last != nil {
			return
		}
		select {
		case r.out <- b:
		case <-ctx.Done():
			r.last = errClosed
			return
		}
		x = y
	}
	r.last = io.EOF
}

var errClosed = errors.New("data: reader: it is closed")

func (r *Reader) take() *Batch {
	select {
	case b := <-r.free:
		return b
	default:
		return new(Batch)
	}
}

// fill reads the rows of this rank between positions x and y of the epoch.
func (r *Reader) fill(ctx context.Context, b *Batch, x, y int64) error {
	f := r.filler
	rows := int64(0)
	for i := range f.lanes {
		s := f.lanes[i].number
		rows += f.order.taken(s, y) - f.order.taken(s, x)
	}
	b.reset(int(rows), r.gather.dense, r.gather.sparse)
	for i := range f.lanes {
		l := &f.lanes[i]
		if ctx.Err() != nil {
			return errClosed
		}
		for j := f.order.taken(l.number, x); j < f.order.taken(l.number, y); j++ {
			if !l.has(j) {
				r.gather.flush(b) // the window's rows will be written over
				if err := f.load(l, j); err != nil {
					return err
				}
			}
			if err := r.add(b, l, j); err != nil {
				return err
			}
		}
	}
	r.gather.flush(b)
	r.place.Lock()
	r.place.reading = b.at
	r.place.Unlock()
	for i := range r.unknown {
		r.unknown[i].Store(r.gather.unknown[i])
	}
	return nil
}

// add appends record i of a lane to the batch.
func (r *Reader) add(b *Batch, l *lane, i int64) error {
	w, k := l.row(i)
	d := r.filler.Dataset
	row := d.rowBase[k.block] + int64(k.row)
	file := &d.files[d.blocks[k.block].file]
	if k.at < 0 {
		return d.fault(file, k.offset, &w.flaws[-1-k.at])
	}
	if b.at.file == nil {
		b.at = place{file, k.offset, row}
	}
	b.RowID = append(b.RowID, uint64(row))
	if !r.gather.add(b, w.words[k.at:]) {
		return d.fault(file, k.offset, &flaw{field: -1, want: "the batch holds more than 2^31 keys of one feature; use smaller batches"})
	}
	return nil
}

// fault is the error of a flaw in the record at an offset.
func (d *Dataset) fault(f *file, offset int64, fl *flaw) error {
	at, err := d.format.place(f, offset)
	if err != nil {
		return err
	}
	at.Column, at.Value, at.Want = fl.column, fl.value, fl.want
	return &at
}

// Next returns the batch of the next step, io.EOF after the last. The batch is
// the caller's until Recycle.
func (r *Reader) Next(ctx context.Context) (*Batch, error) {
	if r.done != nil {
		return nil, r.done
	}
	select {
	case b, ok := <-r.out:
		return r.give(b, ok)
	default:
	}
	r.wait(true)
	defer r.wait(false)
	select {
	case b, ok := <-r.out:
		return r.give(b, ok)
	case <-ctx.Done():
		return nil, fmt.Errorf("data: reader: %w", context.Cause(ctx))
	}
}

func (r *Reader) wait(yes bool) {
	r.place.Lock()
	r.place.waiting = yes
	r.place.Unlock()
}

func (r *Reader) give(b *Batch, ok bool) (*Batch, error) {
	if !ok {
		r.done = r.last
		return nil, r.done
	}
	r.place.Lock()
	r.place.given = b.at
	r.place.Unlock()
	return b, nil
}

// Recycle gives a batch back for reuse; its slices must not be used any more.
func (r *Reader) Recycle(b *Batch) {
	select {
	case r.free <- b:
	default:
	}
}

// Position says where the first row of the batch lies that Next returned last
// or, while Next waits, of the batch read last: "adult.data offset 12345, row
// 678". It may be called at any time.
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
	return fmt.Sprintf("%s offset %d, row %d", strings.TrimPrefix(p.file.name, builtin), p.offset, p.row)
}

// Unknown is how many values of each entry of Encoder.Sparse were read so far
// that its vocabulary does not hold. It may be called at any time.
func (r *Reader) Unknown() []int64 {
	n := make([]int64, len(r.unknown))
	for i := range r.unknown {
		n[i] = r.unknown[i].Load()
	}
	return n
}

// Close ends reading ahead. A read that the system does not finish, as of a
// dead network disk, is left behind after a second.
func (r *Reader) Close() {
	r.cancel()
	deadline := time.NewTimer(closeWait)
	defer deadline.Stop()
	for {
		select {
		case _, ok := <-r.out:
			if !ok {
				if r.done == nil {
					r.done = errClosed
				}
				return
			}
		case <-deadline.C:
			r.done = errClosed
			return
		}
	}
}
