package data

import (
	"sync/atomic"
	"time"
)

// draft is a batch in the making: its records are read, then encoded. It is used
// again and again.
type draft struct {
	Batch
	stored
	at    place         // of the first
	err   error         // what stands in the place of the batch
	more  bool          // batches follow, though there is an error
	made  bool          // the batch is there already: there are no records
	took  time.Duration // to read it
	ready chan struct{}
}

// stored are records as drafts and windows hold them.
type stored struct {
	raw  []byte
	kept []kept // of each: where in raw, and where it came from
}

func newDraft() *draft {
	d := &draft{ready: make(chan struct{}, 1)}
	d.Batch.draft = d
	return d
}

// bytes is about how much memory a draft holds.
func (d *draft) bytes() int {
	n := cap(d.raw) + 4*cap(d.Dense) + 12*cap(d.RowID) + 4*cap(d.steps)
	for i := range d.Sparse {
		j := &d.Sparse[i]
		n += 8*cap(j.Values) + 4*(cap(d.own[i])+cap(j.Weights))
	}
	return n
}

// fetch copies records from windows into a draft, some at once: they lie anywhere in
// memory, and so come side by side.
type fetch struct {
	to   *draft
	runs [fetched]run
	n    int // of runs
	rows int // in them
	seen byte
}

// run are records that lie one after another in a window, whose first is kept i of
// the draft.
type run struct {
	raw  []byte // of the window
	i, n int
}

const (
	fetched   = 32 // runs, or records
	cacheLine = 64
)

// take adds records lo to hi of a lane. Its window must have them, and keep them until
// flush.
func (f *fetch) take(w *window, lo, hi int64) {
	f.runs[f.n] = run{w.raw, len(f.to.kept), int(hi - lo)}
	f.to.kept = append(f.to.kept, w.kept[lo-w.lo:hi-w.lo]...)
	f.n++
	if f.rows += int(hi - lo); f.n == fetched || f.rows >= fetched {
		f.flush()
	}
}

// flush copies.
func (f *fetch) flush() {
	d, runs := f.to, f.runs[:f.n]
	for i := range runs {
		raw := runs[i].bytes(d.kept)
		for at := 0; at < len(raw); at += cacheLine {
			f.seen ^= raw[at] // asks for the line and does not wait for it
		}
	}
	for i := range runs {
		r := &runs[i]
		raw, shift := r.bytes(d.kept), len(d.raw)-d.kept[r.i].at
		for j := range r.n {
			d.kept[r.i+j].at += shift
		}
		d.raw = append(d.raw, raw...)
	}
	f.n, f.rows = 0, 0
}

// bytes are those of the records.
func (r *run) bytes(rows []kept) []byte {
	first, last := &rows[r.i], &rows[r.i+r.n-1]
	return r.raw[first.at : last.at+last.bytes]
}

// batcher encodes drafts. It belongs to one goroutine.
type batcher struct {
	*Dataset
	*rowCoder
	gather
	coded bool    // records come from codedRows
	memo  *memo   // nil: none
	spare *stored // what the next draft's records are read into; nil: its own memory
	words []uint64
}

func (d *Dataset) newBatcher(e *Encoder) (*batcher, error) {
	c, err := d.newRowCoder(e.schema, e.stats)
	if err != nil {
		return nil, err
	}
	b := &batcher{Dataset: d, rowCoder: c}
	b.gather = newGather(c.coder.shape)
	return b, nil
}

// encode makes the records of a draft its rows.
func (b *batcher) encode(d *draft) error {
	if d.made {
		b.count(&d.Batch)
		return nil
	}
	d.reset(len(d.kept), b.dense, b.sparse)
	b.words, b.n, b.m = b.words[:0], 0, 0
	straight := b.direct != nil && b.memo == nil && !b.coded
	for i := range d.kept {
		k := &d.kept[i]
		id := uint64(b.rowBase[k.block] + int64(k.row))
		d.RowID = append(d.RowID, id)
		record := d.raw[k.at : k.at+k.bytes]
		if straight && b.column(&d.Batch, record) {
			continue
		}
		row, fl := b.row(id, record)
		if fl != nil {
			return b.fault(k, fl)
		}
		if !b.add(&d.Batch, row) {
			return b.fault(k, &flaw{field: -1, want: "the batch holds more than 2^31 keys of one feature; use smaller batches"})
		}
		if b.n == 0 { // rows behind those that wait for others may go
			b.words = b.words[:0]
		}
	}
	b.finish(&d.Batch)
	return nil
}

// column encodes a usual record into the columns of a batch; false if it is none.
func (b *batcher) column(to *Batch, record []byte) bool {
	one, ok := b.direct.encode(b.gather.begin(to), record)
	if ok {
		b.gather.end(to, one)
	} else {
		b.gather.giveUp(to)
	}
	return ok
}

// row encodes a record, unless that has been done.
func (b *batcher) row(id uint64, record []byte) (row []uint64, fl *flaw) {
	if b.coded {
		if row, record = codedRow(record); row != nil {
			return row, nil
		}
	}
	if row := b.memo.get(id); row != nil {
		return row, nil
	}
	at := len(b.words)
	if b.words, fl = b.rowCoder.encode(b.words, record); fl != nil {
		return nil, fl
	}
	row = b.words[at:]
	b.memo.put(id, row)
	return row, nil
}

// fault is the error of a flaw in a record.
func (d *Dataset) fault(k *kept, fl *flaw) error {
	at, err := d.format.place(&d.files[d.blocks[k.block].file], k.offset)
	if err != nil {
		return err
	}
	at.Column, at.Value, at.Want = fl.column, fl.value, fl.want
	return &at
}

// mostMemo bounds the memory of a memo, in bytes.
const mostMemo = 64 << 20

// memo keeps the rows of a small dataset once they are encoded, for the epochs
// that follow. Several batchers may share it.
type memo struct {
	words int // of a row
	rows  []uint64
	state []atomic.Uint32
}

// States of a row of a memo.
const (
	memoEmpty = iota
	memoTaken // by whoever writes it, or for good
	memoWhole
)

// newMemo is nil if the rows of the dataset are too many.
func newMemo(rows int64, words int) *memo {
	if rows > mostMemo/8/int64(words+1) {
		return nil
	}
	return &memo{words, make([]uint64, int(rows)*words), make([]atomic.Uint32, rows)}
}

// get returns a row, nil if it is not there.
func (m *memo) get(id uint64) []uint64 {
	if m == nil || m.state[id].Load() != memoWhole {
		return nil
	}
	return m.rows[int(id)*m.words:][:m.words:m.words]
}

// put keeps a row, if it is of single keys as almost all are.
func (m *memo) put(id uint64, row []uint64) {
	if m == nil || len(row) != m.words || row[0]&headLists != 0 || !m.state[id].CompareAndSwap(memoEmpty, memoTaken) {
		return
	}
	copy(m.rows[int(id)*m.words:], row)
	m.state[id].Store(memoWhole)
}
