package collective

import (
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// AllReduce combines the x of all ranks element by element with op and stores the
// result in x on every rank. All ranks pass the same length.
func AllReduce[T Number](c *Comm, x []T, op Op) error {
	tag, err := c.begin(CallAllReduce, op, typeOf[T](), 0, len(x))
	if err != nil {
		return err
	}
	return reduceAll(c, tag, x)
}

// ReduceScatter combines the x of all ranks element by element and stores this rank's
// [Chunk] of the result in x[lo:hi]. The rest of x then holds partial results. All
// ranks pass the same length.
func ReduceScatter[T Number](c *Comm, x []T, op Op) (lo, hi int, err error) {
	lo, hi = Chunk(len(x), c.size, c.rank)
	tag, err := c.begin(CallReduceScatter, op, typeOf[T](), 0, len(x))
	if err != nil {
		return lo, hi, err
	}
	return lo, hi, reduceChunk(c, tag, x)
}

// reduceAll is AllReduce for a call that has begun.
func reduceAll[T Number](c *Comm, tag Tag, x []T) error {
	if c.size == 1 {
		return nil
	}
	if c.shares() {
		return reduceShared(c, tag, x, true)
	}
	tag.Algorithm = c.way(CallAllReduce, tag, len(x)*raw.Size[T]())
	c.steps = c.steps[:0]
	switch tag.Algorithm {
	case Rails:
		return reduceRails(c, tag, x)
	case Bruck:
		return reduceGathered(c, tag, x, 0, len(x))
	case Direct:
		if err := reduceDirect(c, &tag, x); err != nil {
			return err
		}
		return gatherBruck(c, tag, x, c.chunks(len(x)))
	case Doubling:
		c.steps = allReduceDoubling(c.steps, c.rank, c.size, len(x))
	default:
		c.steps = inPieces(allReduceRing(c.steps, c.rank, c.size, c.chunks(len(x))), c.pieces(len(x)*raw.Size[T]()))
	}
	return run(c, &tag, x, x)
}

// reduceChunk is ReduceScatter for a call that has begun.
func reduceChunk[T Number](c *Comm, tag Tag, x []T) error {
	if c.size == 1 {
		return nil
	}
	if c.shares() {
		return reduceShared(c, tag, x, false)
	}
	tag.Algorithm = c.way(CallReduceScatter, tag, len(x)*raw.Size[T]())
	c.steps = c.steps[:0]
	switch tag.Algorithm {
	case Bruck:
		lo, hi := Chunk(len(x), c.size, c.rank)
		return reduceGathered(c, tag, x, lo, hi)
	case Direct:
		return reduceDirect(c, &tag, x)
	}
	c.steps = reduceScatterRing(c.steps, c.rank, c.size, c.chunks(len(x)))
	return run(c, &tag, x, x)
}

// reduceGathered gathers the x of all ranks and reduces the elements lo to hi.
func reduceGathered[T Number](c *Comm, tag Tag, x []T, lo, hi int) error {
	n := len(x)
	for i := range c.at {
		c.at[i] = i * n
	}
	all := grow[T](&c.parts, c.size*n)
	copy(all, x)
	c.steps = allGatherBruck(c.steps, c.rank, c.size, c.at)
	if err := run(c, &tag, all, all); err != nil {
		return err
	}
	c.headers()
	for j := range c.size {
		c.peers[(c.rank+j)%c.size] = raw.Bytes(all[j*n : (j+1)*n])
	}
	joinSpan(c, tag, n, lo, hi, 0, x[lo:hi])
	return nil
}

// reduceDirect receives this rank's chunk of every rank's x and reduces it.
func reduceDirect[T Number](c *Comm, tag *Tag, x []T) error {
	lo, hi := Chunk(len(x), c.size, c.rank)
	n := hi - lo
	for i := range c.to {
		c.to[i] = i * n
	}
	all := grow[T](&c.parts, c.size*n)
	if err := toOwners(c, tag, x, all); err != nil {
		return err
	}
	c.headers()
	for r := range c.size {
		c.peers[r] = raw.Bytes(all[r*n : (r+1)*n])
	}
	joinSpan(c, *tag, len(x), lo, hi, lo, x[lo:hi])
	return nil
}

// reduceRails is AllReduce over the hosts. The ranks of each host reduce among themselves,
// and each rail reduces its chunk between the hosts:
//
//	even hosts   reduce-scatter of n | allreduce of n/L over H hosts | all-gather of n
//	otherwise    allreduce of n      | the same with L the number of rails | all-gather of n
func reduceRails[T Number](c *Comm, tag Tag, x []T) error {
	h := c.hosts
	first := reduceAll[T]
	if c.even() {
		first = reduceChunk[T]
	}
	if err := first(h.local, tag, x); err != nil {
		return c.recordError(err)
	}
	at := h.local.at
	for i := range at[1:] {
		at[i], at[i+1] = len(x), len(x)
		if i < h.rails {
			at[i], at[i+1] = Chunk(len(x), h.rails, i)
		}
	}
	if h.rail != nil {
		if err := reduceAll(h.rail, tag, x[at[h.index]:at[h.index+1]]); err != nil {
			return c.recordError(err)
		}
	}
	return c.recordError(gatherAll(h.local, tag, x, at))
}
