package data

import (
	"io"

	"github.com/wdlrun/wdlrun/data/encode"
)

// straight fills batches of a table that is read in the order of its files. Each
// batch is then a run of the sequence, dealt to the lanes, so that columns go from
// the pages into the batch at once, where windows would move every row three times.
// At the first row that it cannot encode it ends for good, before the batch of that
// row, and windows go on from there.
type straight struct {
	*filler
	rows  *encode.Columns
	spot  spot    // of record read
	read  int64   // record of the sequence that comes next; −1: nowhere
	turns []int32 // of each lane, where its next record goes in the batch; −1: to another rank
	at    []int32 // of the rows that are encoded together, where they go
	wide  []int32 // the same, times the numbers of a row
}

// straightRows is how many rows of a batch are encoded at once.
const straightRows = 512

// newStraight is nil if the rows of this order cannot be read so.
func newStraight(f *filler) *straight {
	rows, ok := f.Reader.(*encode.CodedRows)
	if !ok || !f.order.stream || f.order.shuffle {
		return nil
	}
	for b, n := range f.Dataset.records {
		if bl := f.set.Blocks[b]; f.flawed[b] > 0 || bl.Hi-bl.Lo != int64(n) {
			return nil
		}
	}
	return &straight{
		filler: f, rows: rows.Columns(), read: -1, turns: make([]int32, f.order.lanes),
		at: make([]int32, straightRows), wide: make([]int32, straightRows),
	}
}

// fill makes records x to y of the sequence a batch, as far as they are this rank's;
// false if it cannot.
func (t *straight) fill(d *draft, x, y int64) bool {
	n := t.deal(x, y)
	t.rows.Begin(&d.Batch, n+1) // the last is for those of other ranks
	if t.read != x && t.seek(x) != nil {
		return false
	}
	for t.read < y {
		if t.run(d, int(min(y-t.read, straightRows)), int32(n)) != nil {
			return false
		}
	}
	t.rows.End(&d.Batch, n)
	d.made = true
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
	return t.rows.Skip(int64(t.spot.row))
}

// begin goes to the first row of the block.
func (t *straight) begin() error {
	if t.spot.at >= len(t.order.perm) {
		return io.ErrUnexpectedEOF
	}
	bl := t.set.Blocks[t.order.perm[t.spot.at]]
	if err := t.OpenFile(int(bl.File)); err != nil {
		return err
	}
	return t.rows.Open(t.Content, &t.set.Files[bl.File], bl)
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
	n, err := t.rows.Read(min(most, int(t.Dataset.records[b]-t.spot.row)))
	if err != nil {
		return err
	}
	t.place(d, b, n, trash)
	return t.rows.Fill(&d.Batch, n, t.at, t.wide)
}

// place finds where the next n rows of block b go.
func (t *straight) place(d *draft, b int32, n int, trash int32) {
	bl := &t.set.Blocks[b]
	base, dense := t.rowBase[b], int32(t.rows.Dense())
	lane := int(t.order.lanes - 1 - t.read%t.order.lanes)
	for r := range n {
		row, to := t.spot.row, trash
		if t.spot.row++; t.sel == All || t.selects(t.sel, int(b), row) {
			if p := &t.turns[lane]; *p >= 0 {
				to = *p
				*p++
				if d.RowID[to] = uint64(base + int64(row)); to == 0 {
					d.at = place{&t.set.Files[bl.File], bl.Lo + int64(row), base + int64(row)}
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
