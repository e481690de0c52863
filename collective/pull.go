package collective

import (
	"encoding/binary"
	"fmt"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// A part of at most this size passes through the staging windows even if it is in a window.
// This costs one more copy and saves a meeting, which is far slower if ranks share cores.
// Each rank decides for itself and announces its decision.
const (
	smallBytes   = 8 << 10
	crowdedBytes = 64 << 10
)

// direct reports whether an offer of n bytes is read in place.
func (c *sharing) direct(n int) bool {
	if c.crowded {
		return n > crowdedBytes
	}
	return n > smallBytes
}

// clearTargets clears c.into and c.length.
func (c *sharing) clearTargets() {
	clear(c.into)
	clear(c.length)
}

// pull offers one part to all ranks. It copies the part of every rank r, which has
// c.length[r] bytes, to c.into[r], or skips it if c.into[r] is nil.
//
// A part in a window is read in place. A last meeting ensures that all ranks have read it
// before its owner continues. Other parts pass through the staging windows in pieces of halfBytes, one meeting
// each.
func (c *sharing) pull(tag Tag, offer []byte) error {
	defer c.sh.Leave(c.channel)
	note := Note{Bytes: uint64(len(offer))}
	if c.direct(len(offer)) {
		note.Where = c.locate(offer)
	}
	if note.Where == 0 {
		copy(c.half(c.rank), offer)
	}
	if err := c.meet(&tag, note); err != nil {
		return err
	}
	c.met()
	pieces, windows, err := c.offers(tag)
	if err != nil {
		return err
	}
	for k := range pieces {
		if k > 0 {
			if at := k * halfBytes; note.Where == 0 && at < len(offer) {
				copy(c.half(c.rank), offer[at:])
			}
			if err := c.meet(&tag, Note{}); err != nil {
				return err
			}
		}
		if err := c.fetch(tag, offer, k); err != nil {
			return err
		}
		c.turn++
	}
	if windows && pieces == 1 {
		return c.meet(&tag, Note{})
	}
	return nil
}

// offers compares the announced lengths with the expected ones. It returns the number of
// pieces that pass through the staging windows, at least one, and whether any part is in a
// window.
func (c *sharing) offers(tag Tag) (pieces int, windows bool, err error) {
	pieces = 1
	for r, n := range c.notes {
		want := uint64(c.length[r])
		if n.Bytes != want {
			return 0, false, c.differ(tag, r, int64(n.Bytes), int64(want))
		}
		if n.Where != 0 {
			windows = true
		} else {
			pieces = max(pieces, int((n.Bytes+halfBytes-1)/halfBytes))
		}
	}
	return pieces, windows, nil
}

// fetch copies piece k of every wanted part. It starts after this rank, so that not all
// ranks read from the same one.
func (c *sharing) fetch(tag Tag, offer []byte, k int) error {
	for i := range c.size {
		r := (c.rank + i) % c.size
		into, n := c.into[r], c.notes[r]
		at := k * halfBytes
		switch {
		case len(into) == 0:
		case r == c.rank:
			if k == 0 && &into[0] != &offer[0] {
				copy(into, offer)
			}
		case n.Where == 0 && at < len(into):
			copy(into[at:], c.half(r))
		case n.Where != 0 && k == 0:
			b, err := c.memory(r, n.Where, len(into))
			if err != nil {
				return c.endGroup(tag, err)
			}
			copy(into, b)
		}
	}
	return nil
}

// pullParts offers every rank r the part of send from sendAt[r] to sendAt[r+1], in elements
// of size bytes. It receives this rank's part of every rank r, which has c.length[r] bytes,
// as a copy in c.into[r]. If c.into[r] is nil, c.into[r] becomes a view of the part, which
// use may read. With use, into must be nil.
//
// Each half of a staging window begins with a table of P+1 offsets in bytes. A rank whose
// parts are in a window announces their place. Other ranks copy their parts behind the
// table: whole if they fit (Note.Bytes is 0), else in pieces of equal length (Note.Bytes is
// the length of the largest part).
func (c *sharing) pullParts(tag Tag, send []byte, sendAt []int, size int, use func() error) error {
	defer c.sh.Leave(c.channel)
	note, tiny := Note{}, false
	if use == nil {
		note, tiny = c.tinyParts(send, sendAt, size)
	}
	if !tiny {
		note = c.offerParts(send, sendAt, size)
	}
	if err := c.meet(&tag, note); err != nil {
		return err
	}
	c.met()
	pieces, windows := c.partsPlan()
	var used error
	if use != nil {
		c.allocatePieces()
	}
	for k := range pieces {
		if k > 0 {
			c.stageParts(send, sendAt, size, note, k)
			if err := c.meet(&tag, Note{}); err != nil {
				return err
			}
		}
		if err := c.fetchParts(tag, send, sendAt, size, k); err != nil {
			return err
		}
		if use != nil && k == pieces-1 {
			used = use()
		}
		c.turn++
	}
	if windows && pieces == 1 || use != nil && (windows || pieces > 1) { // owners may continue after this
		if err := c.meet(&tag, Note{}); err != nil {
			return err
		}
	}
	return used
}

// offerParts writes the table of this rank's half and, if parts are staged, the first
// piece.
func (c *sharing) offerParts(send []byte, sendAt []int, size int) (note Note) {
	own := c.half(c.rank)
	for i, at := range sendAt {
		binary.LittleEndian.PutUint64(own[i*tableStride:], uint64(at*size))
		if i > 0 {
			note.Bytes = max(note.Bytes, uint64((at-sendAt[i-1])*size))
		}
	}
	if c.direct(len(send)) {
		note.Where = c.locate(send)
	}
	if note.Where == 0 {
		if body, _ := c.partsBody(); len(send) <= halfBytes-body {
			note.Bytes = 0
		}
		c.stageParts(send, sendAt, size, note, 0)
	}
	return note
}

// tinyParts puts the parts for all other ranks into a note. It returns false if one does
// not fit. The note is on the cache line that other ranks wait for, so this costs no more
// than a barrier. In the note, Where has tinyNote and the length of each part, and Bytes has
// slots of equal length. Both are in the order of ranks.
func (c *sharing) tinyParts(send []byte, sendAt []int, size int) (note Note, fits bool) {
	if c.size > tinySize || len(send) > tinySize*8 {
		return Note{}, false
	}
	slot, b := 8/(c.size-1), note.bytes()
	note.Where = tinyNote
	for r := range c.size {
		part := send[sendAt[r]*size : sendAt[r+1]*size]
		switch i := other(c.rank, r); {
		case r == c.rank:
		case len(part) > slot:
			return Note{}, false
		default:
			note.Where |= uint64(len(part)) << (8 * i)
			copy(b[8+i*slot:], part)
		}
	}
	return note, true
}

const (
	tinyNote = 1 << 63 // bit of Note.Where that is never set for a place in a window
	tinySize = 8       // most ranks for tinyParts: one byte of a word for each length
)

// other returns the index of rank r among the ranks except own.
func other(own, r int) int {
	if r > own {
		return r - 1
	}
	return r
}

// tinyPart returns this rank's part in the note of rank.
func (c *sharing) tinyPart(tag Tag, rank int) ([]byte, error) {
	n, i, slot := &c.notes[rank], other(rank, c.rank), 8/(c.size-1)
	length, want := int(n.Where>>(8*i)&0xff), c.length[rank]
	if length != want || length > slot {
		return nil, c.differ(tag, rank, int64(length), int64(want))
	}
	return n.bytes()[8+i*slot:][:length], nil
}

// allocatePieces allocates memory in c.scratch for parts that come in pieces. Other parts
// are read in place.
func (c *sharing) allocatePieces() {
	total := 0
	for r, n := range c.notes {
		if c.pieced(r, n) {
			total += (c.length[r] + 7) / 8
		}
	}
	free := raw.Bytes(grow[uint64](&c.scratch, total))
	for r, n := range c.notes {
		if c.pieced(r, n) {
			c.into[r], free = free[:c.length[r]], free[(c.length[r]+7)&^7:]
		}
	}
}

// pieced reports whether the part of rank comes in pieces.
func (c *sharing) pieced(rank int, n Note) bool {
	return rank != c.rank && n.Where == 0 && n.Bytes != 0 && c.length[rank] > 0
}

// partsBody returns where the table of a half ends, and the length of a piece, in bytes.
func (c *sharing) partsBody() (body, piece int) {
	body = (len(c.stage)*tableStride + tableStride + cacheLine - 1) &^ (cacheLine - 1)
	return body, max((halfBytes-body)/c.size&^(cacheLine-1), tableStride)
}

// partsPlan returns the number of pieces of the longest staged part, and whether any rank
// offers a window.
func (c *sharing) partsPlan() (pieces int, windows bool) {
	pieces = 1
	_, piece := c.partsBody()
	for _, n := range c.notes {
		switch {
		case n.Where&tinyNote != 0:
		case n.Where != 0:
			windows = true
		default:
			pieces = max(pieces, (int(n.Bytes)+piece-1)/piece)
		}
	}
	return pieces, windows
}

// stageParts copies piece k of every part, or all parts if they fit, into this rank's half.
func (c *sharing) stageParts(send []byte, sendAt []int, size int, note Note, k int) {
	body, piece := c.partsBody()
	own := c.half(c.rank)[body:]
	switch {
	case note.Where != 0:
	case note.Bytes == 0:
		if k == 0 {
			lo, hi := sendAt[c.rank]*size, sendAt[c.rank+1]*size // this rank's own part is not staged
			copy(own, send[:lo])
			copy(own[hi:], send[hi:])
		}
	default:
		for r := range c.size {
			lo, hi := sendAt[r]*size+k*piece, sendAt[r+1]*size
			if r != c.rank && lo < hi {
				copy(own[r*piece:(r+1)*piece], send[lo:hi])
			}
		}
	}
}

// fetchParts receives piece k of this rank's part of every rank.
func (c *sharing) fetchParts(tag Tag, send []byte, sendAt []int, size, k int) error {
	body, piece := c.partsBody()
	for i := range c.size {
		r := (c.rank + i) % c.size
		n, half := c.notes[r], c.half(r)
		staged, whole := n.Where == 0, n.Bytes == 0
		switch {
		case r == c.rank:
			if k == 0 {
				c.receive(r, send[sendAt[r]*size:sendAt[r+1]*size])
			}
		case staged && !whole:
			if k == 0 {
				if _, err := c.partOf(tag, r, half, maxWindow); err != nil {
					return err
				}
			}
			if at := k * piece; at < c.length[r] {
				copy(c.into[r][at:], half[body+c.rank*piece:][:piece])
			}
		case k > 0:
		case n.Where&tinyNote != 0:
			part, err := c.tinyPart(tag, r)
			if err != nil {
				return err
			}
			c.receive(r, part)
		case staged:
			lo, err := c.partOf(tag, r, half, halfBytes-body)
			if err != nil {
				return err
			}
			c.receive(r, half[body+lo:][:c.length[r]])
		default:
			lo, err := c.partOf(tag, r, half, maxWindow)
			if err != nil {
				return err
			}
			b, err := c.memory(r, n.Where, lo+c.length[r])
			if err != nil {
				return c.endGroup(tag, err)
			}
			c.receive(r, b[lo:])
		}
	}
	return nil
}

// receive copies a whole part to c.into[rank], or stores a view of it there if it is nil.
func (c *sharing) receive(rank int, part []byte) {
	if c.into[rank] == nil {
		c.into[rank] = part
		return
	}
	copy(c.into[rank], part)
}

// partOf returns where this rank's part begins in rank's table, after comparing its length
// with the expected one. limit is the largest valid end.
func (c *sharing) partOf(tag Tag, rank int, half []byte, limit int) (lo int, err error) {
	a := binary.LittleEndian.Uint64(half[c.rank*tableStride:])
	b := binary.LittleEndian.Uint64(half[(c.rank+1)*tableStride:])
	want := c.length[rank]
	if b-a != uint64(want) {
		return 0, c.differ(tag, rank, int64(b-a), int64(want))
	}
	if a > uint64(limit) || b > uint64(limit) {
		return 0, c.endGroup(tag, fmt.Errorf("rank %d announced a part from %d to %d, past %d bytes", rank, a, b, limit))
	}
	return int(a), nil
}
