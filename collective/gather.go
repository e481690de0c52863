package collective

// AllGather fills x on every rank: the i-th Chunk of it comes from rank i. A
// rank's own chunk must be in its place in x beforehand. All ranks give the same
// length.
func AllGather[T Number](c *Comm, x []T) error {
	tag, err := c.begin(CallAllGather, Sum, typeOf[T](), 0, len(x))
	if err != nil {
		return err
	}
	c.steps = allGatherRing(c.steps, c.rank, c.size, c.chunks(len(x)))
	return run(c, tag, x, x)
}

// AllGatherV is AllGather with parts of counts[i] elements instead of chunks.
// All ranks give the same counts, which add up to len(x).
func AllGatherV[T Number](c *Comm, x []T, counts []int) error {
	at := c.parts(CallAllGatherV, c.at, counts, len(x))
	tag, err := c.begin(CallAllGatherV, Sum, typeOf[T](), 0, len(x))
	if err != nil {
		return err
	}
	c.steps = allGatherRing(c.steps, c.rank, c.size, at)
	return run(c, tag, x, x)
}
