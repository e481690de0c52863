package data

import (
	"sync"

	"github.com/wdlrun/wdlrun/data/record"
)

// marks are places in the middle of blocks that a scan has passed, from which a lane
// goes to its first record: in a small file lanes are about as long as blocks are, and
// would read as much to get there as they then give. Where there are none, a block is
// read from its beginning. The blocks of large datasets have none: their lanes are
// long.
type marks struct {
	mutex sync.Mutex
	all   []mark // of each block marksABlock, as far as they are known
}

// mark is where a record begins, what of its block lies before it.
type mark struct {
	bytes     int32
	row, line int32 // row 0: there is no mark
}

const (
	marksABlock = 15
	mostMarked  = 1 << 15 // blocks: of 1 MiB, some 6 MB of marks
)

// blockMarks are those of one block.
type blockMarks struct {
	all  [marksABlock]mark
	next int
}

// pass is told of each record in its turn.
func (m *blockMarks) pass(b record.Block, u record.Unit, row int32) {
	for m.next < marksABlock && (u.Offset-b.Lo)*(marksABlock+1) >= (b.Hi-b.Lo)*int64(m.next+1) {
		m.all[m.next] = mark{int32(u.Offset - b.Lo), row, u.Number}
		m.next++
	}
}

// hasMarks tells whether readers can begin in the middle of block b, and are helped
// by it.
func (d *Dataset) hasMarks(b int) bool {
	return d.marks != nil && !d.stream && d.set.Files[d.set.Blocks[b].File].Log == nil && len(d.set.Blocks) <= mostMarked
}

// keepMarks keeps those of block b.
func (d *Dataset) keepMarks(b int, m *blockMarks) {
	d.marks.mutex.Lock()
	defer d.marks.mutex.Unlock()
	if d.marks.all == nil {
		d.marks.all = make([]mark, marksABlock*len(d.set.Blocks))
	}
	copy(d.marks.all[marksABlock*b:], m.all[:])
}

// spotBefore is a known place in the block at perm[at], before or at its selected
// record number skip.
func (f *filler) spotBefore(at int, skip int64) spot {
	best := spot{at: at, offset: -1}
	b := int(f.order.perm[at])
	if f.flawed[b] > 0 || !f.hasMarks(b) {
		return best
	}
	f.marks.mutex.Lock()
	defer f.marks.mutex.Unlock()
	if f.marks.all == nil {
		return best
	}
	row, chosen := int32(0), int32(0)
	for _, m := range f.marks.all[marksABlock*b:][:marksABlock] {
		for ; row < m.row && int64(chosen) <= skip; row++ {
			if f.selects(f.sel, b, row) {
				chosen++
			}
		}
		if m.row == 0 || row < m.row || int64(chosen) > skip {
			break
		}
		best = spot{at, f.set.Blocks[b].Lo + int64(m.bytes), m.row, m.line, chosen}
	}
	return best
}
