package data

import (
	"errors"
	"io"
)

// straight fills batches of a table that is read in the order of its files. Each
// batch is then a run of the sequence, dealt to the lanes, so that columns go from
// the pages into the batch at once, where windows would move every row three times.
// At the first row that it cannot encode it ends for good, before the batch of that
// row, and windows go on from there.
type straight struct {
	*filler
	rows  *codedRows
	spot  spot    // of record read
	read  int64   // record of the sequence that comes next; −1: nowhere
	turns []int32 // of each lane, where its next record goes in the batch; −1: to another rank
	at    []int32 // of the rows that are encoded together, where they go
	wide  []int32 // the same, times the numbers of a row
	heads []uint64
	keys  []uint64 // of a row, for its crosses
}

// straightRows is how many rows of a batch are encoded at once.
const straightRows = 512

var errOdd = errors.New("a row must be encoded by itself")

// newStraight is nil if the rows of this order cannot be read so.
func newStraight(f *filler) *straight {
	rows, ok := f.reader.(*codedRows)
	if !ok || !f.order.stream || f.order.shuffle {
		return nil
	}
	for b, n := range f.Dataset.records {
		if bl := f.blocks[b]; f.flawed[b] > 0 || bl.hi-bl.lo != int64(n) {
			return nil
		}
	}
	return &straight{
		filler: f, rows: rows, read: -1, turns: make([]int32, f.order.lanes),
		keys: make([]uint64, len(rows.coder.sparse)), at: make([]int32, straightRows), wide: make([]int32, straightRows),
	}
}

// fill makes records x to y of the sequence a batch, as far as they are this rank's;
// false if it cannot.
func (t *straight) fill(d *draft, x, y int64) bool {
	n := t.deal(x, y)
	shape := &t.rows.coder.shape
	room := n + 1 // the last is for those of other ranks
	d.reset(room, shape.dense, shape.sparse)
	d.Dense, d.RowID, d.Label = extend(d.Dense, room*shape.dense), extend(d.RowID, room), extend(d.Label, room)
	t.heads = extend(t.heads[:0], room)
	for i := range d.Sparse {
		d.Sparse[i].Values = extend(d.Sparse[i].Values, room)
	}
	if t.read != x && t.seek(x) != nil {
		return false
	}
	for t.read < y {
		if t.run(d, int(min(y-t.read, straightRows)), int32(n)) != nil {
			return false
		}
	}
	t.cross(&d.Batch, n)
	for i, h := range t.heads[:n] {
		d.Label[i] = float32(h & headLabel)
	}
	d.Rows, d.made = n, true
	d.Dense, d.RowID, d.Label = d.Dense[:n*shape.dense], d.RowID[:n], d.Label[:n]
	for i := range d.Sparse {
		d.Sparse[i].Values, d.Sparse[i].Offsets = d.Sparse[i].Values[:n], d.offsetSteps(n)
	}
	return true
}

// deal finds where the records of each lane begin in a batch, and how many this rank
// has.
func (t *straight) deal(x, y int64) (n int) {
	for s := range t.turns {
		t.turns[s] = -1
	}
	for i := range t.lanes {
		s := t.lanes[i].number
		t.turns[s] = int32(n)
		n += int(t.order.taken(s, y) - t.order.taken(s, x))
	}
	return n
}

// seek goes to record x of the sequence.
func (t *straight) seek(x int64) error {
	at, chosen := t.order.seek(x)
	t.spot, t.read = spot{at: at}, x
	if err := t.begin(); err != nil {
		return err
	}
	b := t.order.perm[at]
	for chosen > 0 || !t.selects(t.sel, int(b), t.spot.row) {
		if t.selects(t.sel, int(b), t.spot.row) {
			chosen--
		}
		t.spot.row++
	}
	return t.rows.skip(int64(t.spot.row))
}

// begin goes to the first row of the block.
func (t *straight) begin() error {
	if t.spot.at >= len(t.order.perm) {
		return io.ErrUnexpectedEOF
	}
	bl := t.blocks[t.order.perm[t.spot.at]]
	if err := t.use(int(bl.file)); err != nil {
		return err
	}
	if err := t.rows.tableRecords.begin(t.src, &t.files[bl.file], bl, -1, 0); err != nil {
		return err
	}
	if t.rows.forget(); !t.rows.rows.Flat() {
		return errOdd
	}
	return nil
}

// run encodes at most so many rows, of one block.
func (t *straight) run(d *draft, most int, trash int32) error {
	b := t.order.perm[t.spot.at]
	for t.spot.row == t.Dataset.records[b] {
		t.spot = spot{at: t.spot.at + 1}
		if err := t.begin(); err != nil {
			return err
		}
		b = t.order.perm[t.spot.at]
	}
	x := t.rows
	n, err := x.rows.Next(min(most, int(t.Dataset.records[b]-t.spot.row)), x.spans)
	if err != nil {
		return err
	}
	t.place(d, b, n, trash)
	x.odd = extend(x.odd[:0], n)
	clear(x.odd)
	for i := range x.uses {
		u := &x.uses[i]
		if err := x.fill(u, &x.spans[u.column], n, t.cellsOf(u, &d.Batch)); err != nil {
			return err
		}
	}
	for _, odd := range x.odd {
		if odd {
			return errOdd
		}
	}
	return nil
}

// place finds where the next n rows of block b go.
func (t *straight) place(d *draft, b int32, n int, trash int32) {
	bl := &t.blocks[b]
	base, dense := t.rowBase[b], int32(t.rows.coder.shape.dense)
	lane := int(t.order.lanes - 1 - t.read%t.order.lanes)
	for r := range n {
		row, to := t.spot.row, trash
		if t.spot.row++; t.sel == All || t.selects(t.sel, int(b), row) {
			if p := &t.turns[lane]; *p >= 0 {
				to = *p
				*p++
				if d.RowID[to] = uint64(base + int64(row)); to == 0 {
					d.at = place{&t.files[bl.file], bl.lo + int64(row), base + int64(row)}
				}
			}
			t.read++
			if lane--; lane < 0 {
				lane = len(t.turns) - 1
			}
		}
		t.at[r], t.wide[r] = to, to*dense
	}
}

// cellsOf is where a feature lies in a batch.
func (t *straight) cellsOf(u *use, b *Batch) cells {
	switch {
	case u.sparse:
		return cells{keys: b.Sparse[u.at].Values, at: t.at}
	case u.code == nil:
		return cells{keys: t.heads, at: t.at}
	}
	return cells{reals: b.Dense[u.at:], at: t.wide}
}

// cross fills the crosses of n rows.
func (t *straight) cross(b *Batch, n int) {
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
