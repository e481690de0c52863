package data

import (
	"io"

	"github.com/wdlrun/wdlrun/internal/data/encode"
)

// columns fills batches of a table that is read in file order. It copies columns from
// pages into the batch directly, without the detour over row records. At the first row
// that it cannot encode it stops before the batch of that row; windows read the rest.
type columns struct {
	*filler
	rows  *encode.Columns
	block int
	row   int32   // next row, within the block
	place int64   // number of selected records before it; −1: unknown
	at    []int32 // destination row in the batch, for each row encoded together
	wide  []int32 // the same, times the dense inputs of a row
}

// columnRows is how many rows of a batch are encoded at once.
const columnRows = 512

// newColumns returns nil if this order cannot be read by column.
func newColumns(f *filler) *columns {
	rows, ok := f.Reader.(*encode.CodedRows)
	if !ok || !f.order.mode.ordered() {
		return nil
	}
	for b, n := range f.Dataset.records {
		if bl := f.set.Blocks[b]; f.flawed[b] > 0 || bl.Hi-bl.Lo != int64(n) {
			return nil
		}
	}
	return &columns{filler: f, rows: rows.Columns(), place: -1, at: make([]int32, columnRows), wide: make([]int32, columnRows)}
}

// fill makes records lo to hi a batch. It returns false if it cannot.
func (c *columns) fill(d *draft, lo, hi int64) bool {
	n := int(hi - lo)
	c.rows.Begin(&d.Batch, n+1) // the extra row takes rows that are not selected
	if n > 0 && c.place != lo && c.seek(lo) != nil {
		return false
	}
	for c.place < hi && n > 0 {
		if c.run(d, lo, hi) != nil {
			return false
		}
	}
	c.rows.End(&d.Batch, n)
	d.made = true
	return true
}

// seek positions c at record lo of the order.
func (c *columns) seek(lo int64) error {
	g := c.order.find(lo)
	x := &c.groups[g]
	row := x.row
	for left := lo - c.order.base[g]; left > 0; row++ {
		if c.selects(c.sel, int(x.block), row) {
			left--
		}
	}
	if c.place < 0 || c.block != int(x.block) || c.row > row {
		if err := c.open(int(x.block)); err != nil {
			return err
		}
	}
	skip := row - c.row
	c.row, c.place = row, lo
	return c.rows.Skip(int64(skip))
}

// open positions c at the first row of block b.
func (c *columns) open(b int) error {
	if b >= len(c.set.Blocks) {
		return io.ErrUnexpectedEOF
	}
	bl := c.set.Blocks[b]
	if err := c.OpenFile(int(bl.File)); err != nil {
		return err
	}
	c.block, c.row = b, 0
	return c.rows.Open(c.Content, &c.set.Files[bl.File], bl)
}

// run encodes rows of one block that belong to the batch of records lo to hi.
func (c *columns) run(d *draft, lo, hi int64) error {
	for c.row == c.Dataset.records[c.block] {
		if err := c.open(c.block + 1); err != nil {
			return err
		}
	}
	most := min(hi-c.place, columnRows, int64(c.Dataset.records[c.block]-c.row))
	n, err := c.rows.Read(int(most))
	if err != nil {
		return err
	}
	bl, base, dense := &c.set.Blocks[c.block], c.rowBase[c.block], int32(c.rows.Dense())
	for r := range n {
		to := int32(hi - lo)
		if c.selects(c.sel, c.block, c.row) {
			to = int32(c.place - lo)
			if d.RowID[to] = uint64(base + int64(c.row)); to == 0 {
				d.at = place{&c.set.Files[bl.File], bl.Lo + int64(c.row), base + int64(c.row)}
			}
			c.place++
		}
		c.row++
		c.at[r], c.wide[r] = to, to*dense
	}
	return c.rows.Fill(&d.Batch, n, c.at, c.wide)
}
