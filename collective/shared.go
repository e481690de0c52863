package collective

import (
	"unsafe"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// reduceShared reduces the x of all ranks, every element in the order of the ring (see the
// package comment). If whole is set it reduces all of x, else only this rank's chunk.
//
//	tiny         the elements are the note that a rank brings to the meeting, on
//	             the cache line that the others wait for anyway         1 meeting
//	small        every rank copies x to its staging window; all meet; every rank
//	             reads all ranks' x                           1 meeting, n(P+1) read
//	in windows   all meet; each rank reads its chunk of all ranks and writes the
//	             sum to all; all meet                         2 meetings, n read, n written
//	elsewhere    the same in the staging windows, in pieces of halfBytes, copied
//	             in and out               1 meeting a piece and 1, 3n read, 3n written
func reduceShared[T Number](c *Comm, tag Tag, x []T, whole bool) error {
	defer c.sh.Leave(c.channel)
	b := raw.Bytes(x)
	switch {
	case len(b) <= noteBytes:
		return reduceTiny(c, tag, x, whole)
	case len(b) <= everyoneBytes:
		return reduceSmall(c, tag, x, whole)
	}
	note := Note{Where: c.locate(b), Bytes: uint64(len(b))}
	if note.Where == 0 {
		copy(c.half(c.rank), b)
	}
	if err := c.meet(&tag, note); err != nil {
		return err
	}
	c.met()
	placed := 0
	for _, n := range c.notes {
		if n.Where != 0 {
			placed++
		}
	}
	if placed == c.size {
		return reduceWindows(c, tag, x, whole)
	}
	if placed > 0 { // ranks with x in a window have not staged yet
		if note.Where != 0 {
			copy(c.half(c.rank), b)
		}
		if err := c.meet(&tag, Note{}); err != nil {
			return err
		}
	}
	return reduceStaged(c, tag, x, whole)
}

// everyoneBytes is the largest x that every rank reads from all ranks. With two ranks on
// two cores both ways take 0.4 µs at this size. With four and eight ranks on two cores,
// saving a meeting is worth the reading. All ranks must decide alike.
const everyoneBytes = 4 << 10

// noteBytes is the size of a Note.
const noteBytes = int(unsafe.Sizeof(Note{}))

// bytes returns the memory of n.
func (n *Note) bytes() *[noteBytes]byte { return (*[noteBytes]byte)(unsafe.Pointer(n)) }

func reduceTiny[T Number](c *Comm, tag Tag, x []T, whole bool) error {
	var note Note
	n := copy(note.bytes()[:], raw.Bytes(x))
	if err := c.meet(&tag, note); err != nil {
		return err
	}
	c.met()
	for r := range c.notes {
		c.peers[r] = c.notes[r].bytes()[:n]
	}
	lo, hi := 0, len(x)
	if !whole {
		lo, hi = Chunk(len(x), c.size, c.rank)
	}
	joinSpan(c, tag, len(x), lo, hi, 0, x[lo:hi])
	return nil
}

func reduceSmall[T Number](c *Comm, tag Tag, x []T, whole bool) error {
	copy(c.half(c.rank), raw.Bytes(x))
	if err := c.meet(&tag, Note{}); err != nil {
		return err
	}
	for r := range c.size {
		c.peers[r] = c.half(r)[:len(x)*raw.Size[T]()]
	}
	c.peers[c.rank] = raw.Bytes(x)
	lo, hi := 0, len(x)
	if !whole {
		lo, hi = Chunk(len(x), c.size, c.rank)
	}
	joinSpan(c, tag, len(x), lo, hi, 0, x[lo:hi])
	c.turn++
	return nil
}

func reduceWindows[T Number](c *Comm, tag Tag, x []T, whole bool) error {
	for r, n := range c.notes {
		b, err := c.memory(r, n.Where, len(x)*raw.Size[T]())
		if err != nil {
			return c.endGroup(tag, err)
		}
		c.peers[r] = b
	}
	lo, hi := Chunk(len(x), c.size, c.rank)
	block := blockBytes / raw.Size[T]()
	for ; lo < hi; lo += block {
		to := min(lo+block, hi)
		var dst []T
		if !whole {
			dst = x[lo:to]
		}
		joinSpan(c, tag, len(x), lo, to, 0, dst)
	}
	return c.meet(&tag, Note{})
}

// reduceStaged continues after the first piece has been copied to the staging windows. It
// copies the next piece in while one is summed, so that each piece takes one meeting.
func reduceStaged[T Number](c *Comm, tag Tag, x []T, whole bool) error {
	size := raw.Size[T]()
	piece := halfBytes / size
	for lo := 0; lo < len(x); lo += piece {
		hi := min(lo+piece, len(x))
		for r := range c.size {
			c.peers[r] = c.half(r)[:(hi-lo)*size]
		}
		mine := c.peers[c.rank]
		from, to := Chunk(hi-lo, c.size, c.rank)
		joinSpan[T](c, tag, len(x), lo+from, lo+to, lo, nil)
		c.turn++
		copy(c.half(c.rank), raw.Bytes(x[hi:]))
		if err := c.meet(&tag, Note{}); err != nil {
			return err
		}
		from, to = lo, hi
		if !whole {
			from, to = Chunk(len(x), c.size, c.rank)
			from, to = max(from, lo), min(to, hi)
		}
		if from < to {
			copy(raw.Bytes(x[from:to]), mine[(from-lo)*size:])
		}
	}
	c.turn++
	return nil
}
