package encode

import (
	"errors"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/record"
)

// Columns makes batches of a table that is read in file order: it copies columns from
// pages into the batch directly. It belongs to one goroutine.
type Columns struct {
	rows  *CodedRows
	heads []uint64
	keys  []uint64 // keys of a row, for its crosses
}

var errOdd = errors.New("a row must be encoded by itself")

// Columns returns a reader by column of x.
func (x *CodedRows) Columns() *Columns {
	return &Columns{rows: x, keys: make([]uint64, len(x.coder.sparse))}
}

// Dense returns the number of numbers of a row, including targets.
func (t *Columns) Dense() int { return t.rows.coder.shape.dense }

// Open positions t at the first row of a block. It fails if the columns are not plain.
func (t *Columns) Open(s record.Content, f *record.File, b record.Block) error {
	if err := t.rows.TableRecords.Begin(s, f, b, -1, 0); err != nil {
		return err
	}
	if t.rows.forget(); !t.rows.Rows.Flat() {
		return errOdd
	}
	return nil
}

// Skip skips n rows of the block.
func (t *Columns) Skip(n int64) error { return t.rows.skip(n) }

// Begin allocates memory for the given number of rows in a batch.
func (t *Columns) Begin(b *Batch, rows int) {
	shape := &t.rows.coder.shape
	b.reset(rows, shape.dense, shape.sparse)
	b.Dense, b.RowID, b.Label = extend(b.Dense, rows*shape.dense), extend(b.RowID, rows), extend(b.Label, rows)
	t.heads = extend(t.heads[:0], rows)
	for i := range b.Sparse {
		b.Sparse[i].Values = extend(b.Sparse[i].Values, rows)
	}
}

// Read reads up to most rows of the block, and returns how many Fill then encodes.
func (t *Columns) Read(most int) (n int, err error) {
	return t.rows.Rows.Next(most, t.rows.spans)
}

// Fill encodes the n rows read last. Row i becomes row at[i] of the batch, whose numbers
// begin at wide[i]. It fails if it cannot encode one of them.
func (t *Columns) Fill(b *Batch, n int, at, wide []int32) error {
	x := t.rows
	x.odd = extend(x.odd[:0], n)
	clear(x.odd)
	for i := range x.uses {
		u := &x.uses[i]
		to := cells{keys: t.heads, at: at}
		switch {
		case u.sparse:
			to.keys = b.Sparse[u.at].Values
		case !u.isLabel():
			to = cells{reals: b.Dense[u.at:], at: wide}
		}
		if err := x.fill(u, &x.spans[u.column], n, to); err != nil {
			return err
		}
	}
	if slices.Contains(x.odd, true) {
		return errOdd
	}
	return nil
}

// End completes a batch of the first n rows, which must all be filled.
func (t *Columns) End(b *Batch, n int) {
	t.cross(b, n)
	for i, h := range t.heads[:n] {
		b.Label[i] = float32(h & headLabel)
	}
	b.Rows = n
	b.Dense, b.RowID, b.Label = b.Dense[:n*t.Dense()], b.RowID[:n], b.Label[:n]
	t.rows.coder.shape.split(b)
	for i := range b.Sparse {
		b.Sparse[i].Values, b.Sparse[i].Offsets = b.Sparse[i].Values[:n], b.offsetSteps(n)
	}
	t.rows.coder.shape.rate(b)
}

// cross fills the crosses of n rows.
func (t *Columns) cross(b *Batch, n int) {
	c := t.rows.coder
	for i := range c.crosses {
		x := &c.crosses[i]
		to := b.Sparse[len(c.sparse)+i].Values
		for r := range n {
			for _, f := range x.of {
				t.keys[f] = b.Sparse[f].Values[r]
			}
			to[r] = c.cross(x, places{keys: t.keys, step: 1})
		}
	}
}
