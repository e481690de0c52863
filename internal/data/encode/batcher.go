package encode

import (
	"github.com/wdlrun/wdlrun/internal/data/record"
)

// Batcher encodes records and makes batches of them. It belongs to one goroutine.
type Batcher struct {
	*RowCoder
	gather
	words []uint64 // rows not yet moved
}

// NewBatcher returns a Batcher of records that r encodes.
func NewBatcher(r *RowCoder) *Batcher {
	return &Batcher{RowCoder: r, gather: newGather(r.coder.shape)}
}

// Start empties a batch and allocates memory for the given number of rows.
func (x *Batcher) Start(b *Batch, rows int) {
	b.reset(rows, x.dense, x.sparse)
	x.words, x.n, x.m = x.words[:0], 0, 0
}

// HasDirect reports whether column may take records.
func (x *Batcher) HasDirect() bool { return x.direct != nil }

// Column encodes a simple record into the columns of a batch. It returns false for any
// other record.
func (x *Batcher) Column(to *Batch, record []byte) bool {
	one, ok := x.direct.encode(x.gather.begin(to), record)
	if ok {
		x.gather.end(to, one)
	} else {
		x.gather.giveUp(to)
	}
	return ok
}

// Row encodes a record as a row, for Add.
func (x *Batcher) Row(record []byte) (row []uint64, fl *record.Flaw) {
	at := len(x.words)
	if x.words, fl = x.RowCoder.encode(x.words, record); fl != nil {
		return nil, fl
	}
	return x.words[at:], nil
}

// Add adds a row to a batch. The row must not change until Finish.
func (x *Batcher) Add(b *Batch, row []uint64) *record.Flaw {
	if !x.gather.add(b, row) {
		return &record.Flaw{Field: -1, Want: "the batch holds more than 2^31 keys of one feature; use smaller batches"}
	}
	if x.n == 0 { // no row is pending: reuse the memory
		x.words = x.words[:0]
	}
	return nil
}

// Unknowns returns, per entry of Batch.Sparse and reason, the number of keys so far that are not
// in its vocabulary. The caller resets them.
func (x *Batcher) Unknowns() []int64 { return x.unknown[:len(x.unknown)-Reasons*len(x.rated)] }

// RowWords returns the length of a row of single keys.
func (x *Batcher) RowWords() int { return x.plainWords() }
