package collective

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// AllGather fills x on every rank: rank i provides the i-th [Chunk] of x, which must be
// in its place beforehand. All ranks pass the same length.
func AllGather[T Number](c *Comm, x []T) error {
	tag, err := c.begin(CallAllGather, Sum, typeOf[T](), 0, len(x))
	if err != nil {
		return err
	}
	return gatherAll(c, tag, x, c.chunks(len(x)))
}

// AllGatherV is AllGather with parts of counts[i] elements instead of chunks. All ranks
// pass the same counts, which must sum to len(x).
func AllGatherV[T Number](c *Comm, x []T, counts []int) error {
	at := c.bounds(callAllGatherV, c.at, counts, len(x))
	tag, err := c.begin(callAllGatherV, Sum, typeOf[T](), 0, len(x))
	if err != nil {
		return err
	}
	return gatherAll(c, tag, x, at)
}

// gatherAll fills x with the parts bounded by at, part i from rank i.
func gatherAll[T Number](c *Comm, tag Tag, x []T, at []int) error {
	if c.shares() {
		size := raw.Size[T]()
		b := raw.Bytes(x)
		for r := range c.size {
			c.into[r] = b[at[r]*size : at[r+1]*size]
			c.length[r] = len(c.into[r])
		}
		return c.pull(tag, c.into[c.rank])
	}
	c.steps = c.steps[:0]
	if tag.Algorithm = c.way(CallAllGather, tag, len(x)*raw.Size[T]()); tag.Algorithm == Bruck {
		return gatherBruck(c, tag, x, at)
	}
	c.steps = allGatherRing(c.steps, c.rank, c.size, at)
	return run(c, &tag, x, x)
}

// gatherBruck is gatherAll in ⌈log2 P⌉ rounds. It uses scratch memory in which this rank's
// part comes first.
func gatherBruck[T Number](c *Comm, tag Tag, x []T, at []int) error {
	all := grow[T](&c.parts, len(x))
	c.to[0] = 0
	for j := range c.size {
		r := (c.rank + j) % c.size
		c.to[j+1] = c.to[j] + at[r+1] - at[r]
	}
	copy(all, x[at[c.rank]:at[c.rank+1]])
	c.steps = allGatherBruck(c.steps, c.rank, c.size, c.to)
	if err := run(c, &tag, all, all); err != nil {
		return err
	}
	for j := 1; j < c.size; j++ {
		copy(x[at[(c.rank+j)%c.size]:], all[c.to[j]:c.to[j+1]])
	}
	return nil
}

// Gather copies the x of every rank to recv on rank root, in rank order. There recv has
// P times the length of x; the others ignore it. All ranks pass the same length and
// root. The slices do not overlap.
func Gather[T Number](c *Comm, x, recv []T, root int) error {
	if c.rank == root && len(recv) != c.size*len(x) {
		panic(fmt.Sprintf("collective: Gather: %d elements to receive of %d ranks with %d each", len(recv), c.size, len(x)))
	}
	tag, err := c.begin(callGather, Sum, typeOf[T](), root, len(x))
	if err != nil {
		return err
	}
	for i := range c.at {
		c.at[i] = i * len(x)
	}
	return gatherTo(c, tag, x, recv, root)
}

// gatherTo fills buf on rank root with the b of every rank, bounded by c.at.
func gatherTo[T Number](c *Comm, tag Tag, b, buf []T, root int) error {
	if c.shares() {
		size := raw.Size[T]()
		c.clearTargets()
		for r := range c.size {
			c.length[r] = (c.at[r+1] - c.at[r]) * size
			if c.rank == root {
				c.into[r] = raw.Bytes(buf)[c.at[r]*size : c.at[r+1]*size]
			}
		}
		return c.pull(tag, raw.Bytes(b))
	}
	c.steps = gatherDirect(c.steps, c.rank, c.size, root, c.at)
	return run(c, &tag, b, buf)
}
