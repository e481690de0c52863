package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
)

// filler reads one rank's records of each step. It keeps a window of each of the rank's
// decks in memory. The records in it are not encoded; they are encoded when dealt. It
// belongs to one goroutine.
type filler struct {
	*Dataset
	*source // of all decks, unless their mode is onwards
	code    *encode.RowCoder
	encoder *encode.Encoder
	valid   *encode.RowCoder // checks records by the schema of the dataset; nil: no record is faulty
	sel     Select
	bytes   int // per record, on average

	order      *order
	rank, size int64
	split      int64      // ranks whose shares follow each other in a batch; 0: only this rank's
	last       []int      // with split, by rank: the last of its decks; empty: shares are equal runs of rows
	turns      [2][]int32 // of the decks in the first and in the last round of a step
	decks      []deck     // of the rank
	deckMemory []byte     // memory of their windows
	selected   []int32    // selected records, if all are in memory

	columns *columns // nil: none
	fetch   fetch
	spare   stored // of the next draft
}

// deck is one of the rank's decks.
type deck struct {
	share
	*source
	window // being dealt
}

// source reads windows from files, one after the other.
type source struct {
	*record.Input
	stage stage
	live  int32 // group at which the reader is; −1: none
}

// window holds records [lo, hi) of a deck, in the order in which they are dealt.
type window struct {
	lo, hi int64
	stored
}

// stage is a window being read: its records are in file order.
type stage struct {
	window
	extent
	read    int     // end of the groups of the sequence read so far
	turns   []int32 // record numbers in the order in which they are dealt
	foreign []bool  // records of other ranks; empty: none
	places  []kept  // scratch
}

// kept is the position of a record in memory and in the data.
type kept struct {
	at     int   // offset in stored.raw
	offset int64 // in the file
	bytes  int32
	block  int32
	row    int32 // in the block
}

const keptBytes = 32

// add adds a record.
func (s *stored) add(u record.Unit, block, row int32) {
	s.kept = append(s.kept, kept{len(s.raw), u.Offset, int32(len(u.Record)), block, row})
	s.raw = append(s.raw, u.Record...)
}

// newFiller returns a filler of one rank's records. Call begin before the first fill.
func (d *Dataset) newFiller(e *encode.Encoder, c ReaderConfig) (*filler, error) {
	code, err := e.Coder(d.set.Source, d.set.Fields)
	if err != nil {
		return nil, err
	}
	f := &filler{Dataset: d, code: code, encoder: e, sel: c.Select, rank: int64(c.Rank), size: int64(c.Size), split: int64(c.Split)}
	const spare = 16 // records more than the mean, for groups of longer ones
	f.bytes = int(d.held/d.rows-keptBytes)*(spare+1)/spare + 1
	f.source = f.newSource()
	if x, ok := f.Reader.(*encode.CodedRows); ok {
		f.bytes = x.Width()
	}
	if d.bad+d.excluded > 0 {
		f.valid, err = encode.NewChecker(d.set.Source, d.set.Fields, d.schema)
	}
	return f, err
}

func (f *filler) newSource() *source {
	s := &source{Input: f.set.NewInput(f.code.FieldsRead()), live: -1}
	if t, ok := s.Reader.(*record.TableRecords); ok {
		t.Compared = f.compared
		if x := encode.NewCodedRows(f.code, t); f.bad == 0 && x != nil {
			s.Reader = x
		}
	}
	return s
}

// Close closes the open files.
func (f *filler) Close() {
	f.Input.Close()
	for i := range f.decks {
		f.decks[i].Input.Close()
	}
}

// coded reports whether the reader returns encoded records.
func (f *filler) coded() bool {
	_, ok := f.Reader.(*encode.CodedRows)
	return ok
}

// newOrder returns the order of an epoch.
func (d *Dataset) newOrder(c *ReaderConfig, epoch int64) *order {
	m := inDecks
	switch {
	case c.Apart:
		m = apart
	case !c.Shuffle:
		m = inOrder
	case d.held <= d.limits.held:
		m = inMemory
	case d.onwards:
		m = onwards
	}
	return newOrder(m, d.chosen[c.Select](), d.firstGroup, int64(c.Size), c.Seed, uint64(epoch))
}

// begin starts an epoch.
func (f *filler) begin(o *order) {
	f.order = o
	if f.columns != nil {
		f.columns.place = -1
	}
	if f.decks == nil {
		for s := range f.turns {
			f.turns[s] = make([]int32, o.decks)
		}
		if o.mode == inMemory || !o.mode.ordered() && f.split <= o.decks {
			for rank := range f.split {
				f.addDecks(o.shares(rank, f.split))
				f.last = append(f.last, len(f.decks)-1)
			}
		}
		if f.last == nil {
			f.addDecks(o.shares(f.rank, f.size))
		}
	}
	for i := range f.decks {
		k := &f.decks[i]
		k.lo, k.hi = 0, 0
		k.live, k.stage.lo, k.stage.hi = -1, 0, 0
	}
}

// addDecks adds the decks of shares.
func (f *filler) addDecks(all []share) {
	for _, s := range all {
		f.decks = append(f.decks, deck{share: s, source: f.source})
		if i := len(f.decks) - 1; f.order.mode == onwards && i > 0 {
			f.decks[i].source = f.newSource()
		}
	}
}

// fill reads the rows of this rank between positions x and y of the epoch.
func (f *filler) fill(ctx context.Context, d *draft, x, y int64) error {
	d.raw, d.kept, d.at, d.more, d.made, d.parts = d.raw[:0], d.kept[:0], place{}, false, false, d.parts[:0]
	for rank := int64(0); f.split > 0 && len(f.last) == 0 && rank <= f.split; rank++ {
		d.parts = append(d.parts, int((y-x)*rank/f.split))
	}
	f.order.roundTurns(x, f.turns[0])
	f.order.roundTurns(y, f.turns[1])
	f.fetch.to, f.fetch.n, f.fetch.rows = d, 0, 0
	for i := range f.decks {
		k := &f.decks[i]
		before := f.order.start(k.deck)
		first, end := k.of(f.order.taken(k.deck, x, f.turns[0]), f.order.taken(k.deck, y, f.turns[1]))
		if f.columns != nil && ctx.Err() == nil {
			if f.columns.fill(d, before+first, before+end) {
				return nil
			}
			f.columns, f.live, d.at = nil, -1, place{}
		}
		if err := f.addShare(ctx, k, first, end); err != nil {
			return err
		}
		if n := len(d.parts); n < len(f.last) && f.last[n] == i {
			d.parts = append(d.parts, len(d.kept))
		}
	}
	if len(f.last) > 0 {
		d.parts = slices.Insert(d.parts, 0, 0)
	}
	f.fetch.flush()
	if len(d.kept) > 0 {
		k := &d.kept[0]
		d.at = place{&f.set.Files[f.set.Blocks[k.block].File], k.offset, f.rowBase[k.block] + int64(k.row)}
	}
	return nil
}

// addShare adds the records of a deck from first to end that are in the share.
func (f *filler) addShare(ctx context.Context, k *deck, first, end int64) error {
	runs := f.order.mode.ordered() || f.order.mode == inDecks && k.whole()
	for i := first; i < end; {
		if i < k.lo || i >= k.hi {
			f.fetch.flush()
			if err := f.load(ctx, k, i); err != nil {
				return err
			}
		}
		n := int64(1)
		if runs {
			n = min(end, k.hi) - i
		}
		f.fetch.add(k.raw, k.kept[i-k.lo:i-k.lo+n])
		i = k.next(i + n)
	}
	if f.order.mode != onwards || first >= end || k.hi == f.order.start(k.deck+1)-f.order.start(k.deck) {
		return nil
	}
	// Read as large a part of the next window as has been dealt of this one.
	w := &k.stage
	if w.lo == w.hi {
		f.open(k, k.hi)
	}
	return f.readTo(ctx, k.source, w.from+int(int64(w.to-w.from)*(min(end, k.hi)-k.lo)/(k.hi-k.lo)))
}

// load makes the window of record i of a deck the current one.
func (f *filler) load(ctx context.Context, k *deck, i int64) error {
	if f.order.mode == inMemory {
		return f.recall(ctx, k)
	}
	w := &k.stage
	if i < w.lo || i >= w.hi {
		f.open(k, i)
	}
	if err := f.readTo(ctx, k.source, w.to); err != nil {
		return err
	}
	switch f.order.mode {
	case inDecks:
		f.arrange(k)
		w.lo, w.hi = 0, 0
		return nil
	case onwards: // too large for a cache: move indices, not records
		w.places = w.places[:0]
		for _, n := range w.turns {
			w.places = append(w.places, w.kept[n])
		}
		w.kept, w.places = w.places, w.kept
	}
	k.window, w.window = w.window, k.window
	w.lo, w.hi = 0, 0
	return nil
}

// arrange copies the staged window to a deck in the order in which it is dealt, so that a
// step copies consecutive records.
func (f *filler) arrange(k *deck) {
	w := &k.stage
	k.lo, k.hi = w.lo, w.hi
	if k.raw == nil { // as large as the staged window, which has room for any
		n := cap(w.raw)
		if len(f.deckMemory) < n {
			f.deckMemory = allocate(n * len(f.decks))
			f.deckMemory = f.deckMemory[:cap(f.deckMemory)]
		}
		k.raw, f.deckMemory = f.deckMemory[:0:n], f.deckMemory[n:]
	}
	if cap(k.kept) < len(w.kept) {
		k.kept = make([]kept, 0, cap(w.kept))
	}
	k.raw, k.kept = k.raw[:0], k.kept[:0]
	for _, n := range w.turns {
		x := w.kept[n]
		raw := w.raw[x.at : x.at+int(x.bytes)]
		x.at = len(k.raw)
		k.raw, k.kept = append(k.raw, raw...), append(k.kept, x)
	}
}

// open starts the window of record i of a deck.
func (f *filler) open(k *deck, i int64) {
	o, w := f.order, &k.stage
	w.extent = o.window(k.deck, i)
	w.lo, w.hi, w.read = w.first-o.start(k.deck), w.end-o.start(k.deck), w.from
	n := int(w.end - w.first)
	if w.raw == nil { // large enough for any window
		most := min(int(o.start(k.deck+1)-o.start(k.deck)), o.span*int(o.rows()/int64(len(o.perm))+1))
		w.kept, w.raw = make([]kept, 0, most), allocate(most*f.bytes*int(k.to-k.from)/int(k.cycle))
	}
	w.raw, w.kept, w.turns, w.foreign = w.raw[:0], w.kept[:0], identity(w.turns, n), w.foreign[:0]
	o.permute(k.deck, w.extent, w.turns)
	if !k.whole() && !o.mode.ordered() {
		w.foreign = slices.Grow(w.foreign, n)[:n]
		for i := range n {
			w.foreign[w.turns[i]] = !k.has(w.lo + int64(i))
		}
	}
}

// readTo reads the groups of the staged window up to end.
func (f *filler) readTo(ctx context.Context, s *source, end int) error {
	for w := &s.stage; w.read < end; w.read++ {
		if ctx.Err() != nil {
			return errClosed
		}
		base := f.order.base[w.read]
		if err := f.group(s, f.order.perm[w.read], f.sel, w, max(w.first-base, 0), w.end-base); err != nil {
			return err
		}
	}
	return nil
}

// group reads group g and keeps its selected records from number lo up to hi.
func (f *filler) group(s *source, g int32, sel Select, w *stage, lo, hi int64) (err error) {
	x := &f.groups[g]
	b, live := x.block, s.live
	s.live = -1
	bl := f.set.Blocks[b]
	file := &f.set.Files[bl.File]
	if err := s.OpenFile(int(bl.File)); err != nil {
		return err
	}
	next := g + 1
	if int(next) == len(f.groups) || f.groups[next].block != b {
		next = -1
	}
	if f.order.mode == inDecks && next >= 0 {
		bl.Hi, next = f.groups[next].offset, -1 // the rest is not needed
	}
	if live != g {
		err = s.Reader.Begin(s.Content, file, bl, x.offset, 0)
	}
	var u record.Unit
	n, row := int64(0), x.row
	for err == nil && row < x.row+x.rows && n < hi {
		if u, err = s.Reader.Next(); err != nil {
			break
		}
		if f.flawed[b] > 0 && (u.Flaw != nil || f.valid.Check(u.Record) != nil) {
			continue
		}
		if u.Flaw != nil {
			err = record.ErrChanged
			break
		}
		if f.selects(sel, int(b), row) {
			if n++; n > lo {
				if at := len(w.kept); at < len(w.foreign) && w.foreign[at] {
					u.Record = nil
				}
				w.add(u, b, row)
			}
		}
		row++
	}
	if err == nil {
		if row == x.row+x.rows {
			s.live = next
		}
		return nil
	}
	if e := s.Unchanged(); e != nil {
		return e
	}
	if err == io.EOF || errors.Is(err, record.ErrShrunk) || errors.Is(err, record.ErrLongLine) {
		err = record.ErrChanged // the scan found more records here, and no line over the limit
	}
	return fmt.Errorf("%s: offset %d: %w", file.Name, max(u.Offset, x.offset), err)
}
