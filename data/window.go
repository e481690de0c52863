package data

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/wdlrun/wdlrun/data/encode"
	"github.com/wdlrun/wdlrun/data/record"
)

// lane gives the records of one lane in shuffled order, a window at a time.
type lane struct {
	number int64
	// The window that is being given and, of a stream, those behind it as far as
	// they have been read. Windows are used again.
	held []*window
	spot // where the next window begins, if it is no stream; at −1: nobody knows
}

// window keeps the records of one window of a lane as they stand in the file: they
// are encoded when their turn comes, so that a lane's next window costs little
// more than reading it, and no step waits for the work of hundreds.
type window struct {
	number int64
	lo, hi int64 // records of the lane
	stored       // in the order in which they are given, once whole is true
	whole  bool
}

// kept is a record of a window.
type kept struct {
	at, bytes int   // of window.raw
	offset    int64 // in the file
	block     int32
	row       int32 // in the block
}

// keep takes in a record.
func (w *window) keep(u record.Unit, block, row int32) {
	w.kept = append(w.kept, kept{len(w.raw), len(u.Record), u.Offset, block, row})
	w.raw = append(w.raw, u.Record...)
}

// spot is a place in the sequence of blocks: the record at offset of the block
// at perm[at]. Offset −1 is the block's beginning.
type spot struct {
	at     int
	offset int64
	row    int32 // records of the block before it
	line   int32 // lines of the block before it
	chosen int32 // selected records of the block before it
}

// filler loads windows. It has one file open at a time.
type filler struct {
	*Dataset
	*record.Input
	order *order
	sel   Select
	lanes []lane // of rank r: r, r+size, …
	size  int64
	start int64 // rows consumed of the epoch when the filler came to it
	bytes int   // of a record, about; 0: unknown

	straight *straight // nil: windows

	fetch fetch
	stage window           // where a window is read before its records are put in order
	spare stored           // of the next draft
	valid *encode.RowCoder // by the schema of the dataset, to know faulty records
	live  spot             // where the reader stands; at −1 for nowhere
	// Of a stream:
	next spot
	read int64 // records of the sequence before it; −1 before the first
}

// newFiller reads one rank's records for an encoder; begin comes first.
func (d *Dataset) newFiller(e *encode.Encoder, c ReaderConfig) (*filler, error) {
	code, err := e.Coder(d.set.Source, d.set.Fields)
	if err != nil {
		return nil, err
	}
	f := &filler{Dataset: d, Input: d.set.NewInput(code.FieldsRead()), sel: c.Select, size: int64(c.Size), live: spot{at: -1}}
	if x := encode.NewCodedRows(code); record.IsTable(d.set.Format) && d.bad == 0 && x != nil {
		f.Reader = x
	}
	if !d.stream {
		const spare = 8 // of records that are longer than the mean
		f.bytes = int(d.Bytes()/d.rows) * (spare + 1) / spare
	}
	if x, ok := f.Reader.(*encode.CodedRows); ok {
		f.bytes = x.Width()
	}
	f.lanes = make([]lane, lanesOf(c.Lanes, c.Rank, c.Size))
	for i := range f.lanes {
		f.lanes[i].number = int64(c.Rank + i*c.Size)
	}
	if d.bad > 0 {
		f.valid, err = encode.NewChecker(d.set.Source, d.set.Fields, d.schema)
	}
	return f, err
}

// coded tells whether records are encoded already.
func (f *filler) coded() bool {
	_, ok := f.Reader.(*encode.CodedRows)
	return ok
}

// newOrder is that of an epoch.
func (d *Dataset) newOrder(c *ReaderConfig, epoch int64) *order {
	o := newOrder(d.chosen[c.Select](), c.Seed, uint64(epoch), c.Lanes, c.Window, c.Shuffle)
	o.stream = d.stream
	return o
}

// has tells whether record i of the lane lies in the window that it holds.
func (l *lane) has(i int64) bool {
	return len(l.held) > 0 && l.held[0].whole && i >= l.held[0].lo && i < l.held[0].hi
}

// begin goes to record start of another epoch.
func (f *filler) begin(o *order, start int64) {
	f.order, f.start, f.read, f.live = o, start, -1, spot{at: -1}
	if f.straight != nil {
		f.straight.read = -1
	}
	for i := range f.lanes {
		l := &f.lanes[i]
		l.at = -1
		for _, w := range l.held {
			w.number, w.whole = -1, false
		}
	}
}

// load makes the window of record i the lane's first, and reads it.
func (f *filler) load(l *lane, i int64) (err error) {
	defer func() {
		if err != nil {
			l.held = nil
		}
	}()
	k := f.order.windowOf(l.number, i)
	follows := len(l.held) > 0 && k == l.held[0].number+1 && l.at >= 0
	if f.order.stream {
		err = f.stream(l, k)
	} else {
		err = f.run(l, f.first(l, k), follows)
	}
	if err != nil {
		return err
	}
	w := l.held[0]
	if f.order.stream && f.order.shuffle {
		s := &f.stage
		s.raw, s.kept = append(s.raw[:0], w.raw...), append(s.kept[:0], w.kept...)
		f.arrange(l, w)
	}
	w.whole = true
	return nil
}

// arrange makes w the staged records in the order in which they are given.
func (f *filler) arrange(l *lane, w *window) {
	s := &f.stage
	permute(f.order, l.number, w.number, s.kept)
	w.kept, w.raw = slices.Grow(w.kept[:0], len(s.kept))[:len(s.kept)], slices.Grow(w.raw[:0], len(s.raw))
	for i, k := range s.kept {
		w.kept[i] = k
		w.kept[i].at = len(w.raw)
		w.raw = append(w.raw, s.raw[k.at:k.at+k.bytes]...)
	}
}

// first makes window k the first that the lane holds.
func (f *filler) first(l *lane, k int64) *window {
	for n := len(l.held); n > 0 && l.held[0].number < k; n-- {
		old := l.held[0]
		copy(l.held, l.held[1:])
		l.held[len(l.held)-1] = f.empty(l, old, l.held[max(len(l.held)-2, 0)].number+1)
	}
	if len(l.held) == 0 || l.held[0].number != k {
		l.held = append(l.held[:0], f.empty(l, new(window), k))
	}
	return l.held[0]
}

// empty makes w window k of a lane, with nothing in it.
func (f *filler) empty(l *lane, w *window, k int64) *window {
	w.number, w.whole, w.raw, w.kept = k, false, w.raw[:0], w.kept[:0]
	w.lo, w.hi = f.order.bounds(l.number, k)
	if w.kept == nil {
		n := int(min(f.order.window, f.order.taken(l.number, f.order.rows()))) // the first may be shorter
		w.kept, w.raw = make([]kept, 0, n), make([]byte, 0, n*f.bytes)
	}
	return w
}

// run reads a window of a lane that is a run of the sequence.
func (f *filler) run(l *lane, w *window, follows bool) error {
	if !follows {
		at, skip := f.order.seek(f.order.place(l.number, w.lo))
		l.spot = f.spotBefore(at, skip)
		if f.live.at == at && int64(f.live.chosen) <= skip && f.live.row >= l.spot.row {
			l.spot = f.live // behind the window of another lane
		}
		if err := f.collect(&l.spot, skip-int64(l.chosen), nil); err != nil {
			return err
		}
	}
	if !f.order.shuffle {
		return f.collect(&l.spot, w.hi-w.lo, w)
	}
	f.stage.raw, f.stage.kept = f.stage.raw[:0], f.stage.kept[:0]
	err := f.collect(&l.spot, w.hi-w.lo, &f.stage)
	f.arrange(l, w)
	return err
}

// sink takes the records that are read.
type sink interface {
	// next is the window that keeps the next record, nil for none.
	next() *window
}

func (w *window) next() *window { return w }

// stream reads on until window k of the lane is whole.
func (f *filler) stream(l *lane, k int64) error {
	if f.read < 0 {
		if err := f.beginStream(); err != nil {
			return err
		}
	}
	w := f.first(l, k)
	until := f.order.place(l.number, w.hi-1) + 1
	if until <= f.read {
		return nil
	}
	err := f.collect(&f.next, until-f.read, dealer{f})
	if err == nil && int64(len(w.kept)) != w.hi-w.lo {
		err = errors.New("data: read: a window of a stream is not whole") // cannot happen
	}
	return err
}

// beginStream goes to the first record of the windows in which the lanes stand.
func (f *filler) beginStream() error {
	f.read = f.order.rows()
	for j := range f.lanes {
		l := &f.lanes[j]
		i := f.order.taken(l.number, f.start)
		if i >= f.order.taken(l.number, f.order.rows()) {
			continue
		}
		w := f.first(l, f.order.windowOf(l.number, i))
		f.read = min(f.read, f.order.place(l.number, w.lo))
	}
	at, skip := f.order.seek(f.read)
	f.next = spot{at: at, offset: -1}
	return f.collect(&f.next, skip, nil)
}

// dealer deals the records of a stream to the lanes.
type dealer struct{ *filler }

// next keeps the next record if its lane is one of this rank's.
func (d dealer) next() *window {
	f := d.filler
	s, i := f.order.dealt(f.read)
	f.read++
	j := (s - f.lanes[0].number) / f.size
	if (s-f.lanes[0].number)%f.size != 0 || s < f.lanes[0].number {
		return nil
	}
	l := &f.lanes[j]
	if len(l.held) == 0 {
		return nil // the lane had no record left
	}
	if i < l.held[0].lo {
		return nil // given before the start
	}
	for n := 0; ; n++ {
		if n == len(l.held) {
			l.held = append(l.held, f.empty(l, new(window), l.held[n-1].number+1))
		}
		if i < l.held[n].hi {
			return l.held[n]
		}
	}
}

// collect reads the next n selected records from sp on and hands them to
// the sink, which may be nil.
func (f *filler) collect(sp *spot, n int64, to sink) error {
	for n > 0 {
		if sp.at >= len(f.order.perm) {
			return errors.New("data: read: the counts hold fewer records than the order takes") // cannot happen
		}
		b := f.order.perm[sp.at]
		if sp.row == f.Dataset.records[b] {
			*sp = spot{at: sp.at + 1, offset: -1}
			continue
		}
		got, err := f.fromBlock(sp, b, n, to)
		if err != nil {
			return err
		}
		n -= got
	}
	return nil
}

// fromBlock reads on in block b until n selected records are found or all of
// the block's records are read.
func (f *filler) fromBlock(sp *spot, b int32, n int64, to sink) (got int64, err error) {
	bl := f.set.Blocks[b]
	file := &f.set.Files[bl.File]
	if err := f.OpenFile(int(bl.File)); err != nil {
		return 0, err
	}
	if f.live != *sp || sp.offset < 0 {
		err = f.Reader.Begin(f.Content, file, bl, sp.offset, sp.line)
	}
	f.live = spot{at: -1}
	for err == nil && got < n && sp.row < f.Dataset.records[b] {
		u, e := f.Reader.Next()
		if e != nil {
			err = e
			break
		}
		sp.offset, sp.line = u.End, u.Number+1
		if f.flawed[b] > 0 && (u.Flaw != nil || !f.isValid(u.Record)) {
			continue
		}
		if u.Flaw != nil {
			err = record.ErrChanged
			break
		}
		if f.selects(f.sel, int(b), sp.row) {
			sp.chosen++
			if got++; to != nil {
				if w := to.next(); w != nil {
					w.keep(u, b, sp.row)
				}
			}
		}
		sp.row++
	}
	if err == nil {
		f.live = *sp
		return got, nil
	}
	if err == io.EOF || errors.Is(err, record.ErrShrunk) || errors.Is(err, record.ErrLongLine) {
		err = record.ErrChanged // the scan found more records than this, and short lines
	}
	return 0, fmt.Errorf("data: read: %s: line %d: %w", file.Name, f.lineBase[b]+int64(sp.line)+1, err)
}

// isValid tells whether the scan took the record.
func (f *filler) isValid(record []byte) bool { return f.valid.Check(record) == nil }
