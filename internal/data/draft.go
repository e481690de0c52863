package data

import (
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
)

// draft is a batch in the making: its records are read, then encoded. It is used
// again and again.
type draft struct {
	encode.Batch
	stored
	at    place         // of the first
	err   error         // what replaces the batch
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
	d.Batch.Owner = d
	return d
}

// bytes is about how much memory a draft holds.
func (d *draft) bytes() int { return cap(d.raw) + d.Batch.MemoryBytes() }

// fetch copies records from windows into a draft, some at once: they are anywhere in
// memory, and so their cache lines are loaded concurrently.
type fetch struct {
	to   *draft
	runs [fetched]run
	n    int // of runs
	rows int // in them
	seen byte
}

// run is records that follow each other in memory, the last n rows of the draft up to end.
type run struct {
	raw    []byte
	n, end int
}

const (
	fetched   = 32 // runs, or records
	cacheLine = 64
)

// take adds records that follow each other in memory, which must not change until flush.
func (f *fetch) take(raw []byte, rows []kept) {
	first, last := &rows[0], &rows[len(rows)-1]
	f.to.kept = append(f.to.kept, rows...)
	f.runs[f.n] = run{raw[first.at : last.at+int(last.bytes)], len(rows), len(f.to.kept)}
	f.n++
	if f.rows += len(rows); f.n == fetched || f.rows >= fetched {
		f.flush()
	}
}

// flush copies.
func (f *fetch) flush() {
	d, runs := f.to, f.runs[:f.n]
	for i := range runs {
		raw := runs[i].raw
		for at := 0; at < len(raw); at += cacheLine {
			f.seen ^= raw[at] // asks for the line and does not wait for it
		}
	}
	for i := range runs {
		r := &runs[i]
		rows := d.kept[r.end-r.n : r.end]
		shift := len(d.raw) - rows[0].at
		for j := range rows {
			rows[j].at += shift
		}
		d.raw = append(d.raw, r.raw...)
	}
	f.n, f.rows = 0, 0
}

// draftCoder makes drafts batches. It belongs to one goroutine.
type draftCoder struct {
	*Dataset
	*encode.Batcher
	coded bool    // records come from CodedRows
	memo  *memo   // nil: none
	spare *stored // what the next draft's records are read into; nil: its own memory
}

func (d *Dataset) newDraftCoder(e *encode.Encoder) (*draftCoder, error) {
	c, err := e.Coder(d.set.Source, d.set.Fields)
	if err != nil {
		return nil, err
	}
	return &draftCoder{Dataset: d, Batcher: encode.NewBatcher(c)}, nil
}

// encode makes the records of a draft its rows.
func (b *draftCoder) encode(d *draft) error {
	if d.made {
		b.Count(&d.Batch)
		return nil
	}
	b.Start(&d.Batch, len(d.kept))
	straight := b.HasDirect() && b.memo == nil && !b.coded
	for i := range d.kept {
		k := &d.kept[i]
		id := uint64(b.rowBase[k.block] + int64(k.row))
		d.RowID = append(d.RowID, id)
		record := d.raw[k.at : k.at+int(k.bytes)]
		if straight && b.Column(&d.Batch, record) {
			continue
		}
		row, fl := b.rowOf(id, record)
		if fl == nil {
			fl = b.Add(&d.Batch, row)
		}
		if fl != nil {
			return b.fault(k, fl)
		}
	}
	b.Finish(&d.Batch)
	return nil
}

// rowOf encodes a record, unless that has been done.
func (b *draftCoder) rowOf(id uint64, record []byte) (row []uint64, fl *record.Flaw) {
	if b.coded {
		if row, record = encode.CodedRow(record); row != nil {
			return row, nil
		}
	}
	if row := b.memo.get(id); row != nil {
		return row, nil
	}
	if row, fl = b.Row(record); fl == nil {
		b.memo.put(id, row)
	}
	return row, fl
}

// fault is the error of a flaw in a record.
func (d *Dataset) fault(k *kept, fl *record.Flaw) error {
	at, err := d.set.Format.Place(&d.set.Files[d.set.Blocks[k.block].File], k.offset)
	if err != nil {
		return err
	}
	at.Column, at.Value, at.Want = fl.Column, fl.Value, fl.Want
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
	memoTaken // by the goroutine that writes it, or for good
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

// put keeps a row of single keys.
func (m *memo) put(id uint64, row []uint64) {
	if m == nil || len(row) != m.words || !encode.IsSingle(row) || !m.state[id].CompareAndSwap(memoEmpty, memoTaken) {
		return
	}
	copy(m.rows[int(id)*m.words:], row)
	m.state[id].Store(memoWhole)
}

// place is where a record is.
type place struct {
	file   *record.File // nil: nowhere
	offset int64
	row    int64
}
