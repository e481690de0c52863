package data

import (
	"time"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
)

// draft is a batch being made: its records are read, then encoded. Drafts are reused.
type draft struct {
	encode.Batch
	stored
	at      place         // of the first record
	err     error         // returned by Next instead of the batch
	more    bool          // batches follow, despite the error
	made    bool          // the batch is complete: there are no records to encode
	parts   []int         // see Reader.Parts; empty: none
	unknown []int64       // by entry of Sparse: values that are not in its vocabulary
	took    time.Duration // reading time
	ready   chan struct{}
}

// stored are records as drafts and windows hold them.
type stored struct {
	raw  []byte
	kept []kept // by record: its place in raw and in the file
}

func newDraft() *draft {
	d := &draft{ready: make(chan struct{}, 1)}
	d.Batch.Owner = d
	return d
}

// bytes returns the approximate memory of a draft.
func (d *draft) bytes() int { return cap(d.raw) + d.Batch.MemoryBytes() }

// fetch copies records from windows into a draft. It copies several at once: they are
// anywhere in memory, and their cache lines are loaded concurrently.
type fetch struct {
	to   *draft
	runs [fetched]run
	n    int // used runs
	rows int // records in the runs
	seen byte
}

// run is records that follow each other in memory, the last n rows of the draft up to end.
type run struct {
	raw    []byte
	n, end int
}

const (
	fetched   = 32 // maximum of runs, or records, before a flush
	cacheLine = 64
)

// add adds records that follow each other in memory, which must not change until flush.
func (f *fetch) add(raw []byte, rows []kept) {
	first, last := &rows[0], &rows[len(rows)-1]
	f.to.kept = append(f.to.kept, rows...)
	f.runs[f.n] = run{raw[first.at : last.at+int(last.bytes)], len(rows), len(f.to.kept)}
	f.n++
	if f.rows += len(rows); f.n == fetched || f.rows >= fetched {
		f.flush()
	}
}

// flush copies the pending runs.
func (f *fetch) flush() {
	d, runs := f.to, f.runs[:f.n]
	for i := range runs {
		raw := runs[i].raw
		for at := 0; at < len(raw); at += cacheLine {
			f.seen ^= raw[at] // starts loading the line without waiting for it
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

// draftCoder encodes drafts into batches. It belongs to one goroutine.
type draftCoder struct {
	*Dataset
	*encode.Batcher
	coded bool    // records come from CodedRows
	memo  *memo   // may be nil
	spare *stored // receives the next draft's records; nil: the draft's own memory does
}

func (d *Dataset) newDraftCoder(e *encode.Encoder) (*draftCoder, error) {
	c, err := e.Coder(d.set.Source, d.set.Fields)
	if err != nil {
		return nil, err
	}
	return &draftCoder{Dataset: d, Batcher: encode.NewBatcher(c)}, nil
}

// encode encodes the records of a draft.
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

// rowOf returns the encoded row of a record, from the memo if it is there.
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

// fault returns the error for a flaw in a record.
func (d *Dataset) fault(k *kept, fl *record.Flaw) error {
	at, err := d.set.Format.Place(&d.set.Files[d.set.Blocks[k.block].File], k.offset)
	if err != nil {
		return err
	}
	fault := d.set.Fault(fl)
	at.Take(&fault)
	return &at
}

// place is the position of a record.
type place struct {
	file   *record.File // nil: none
	offset int64
	row    int64
}
