package collective

// AllReduce joins the x of all ranks element by element and leaves the result
// in x on every rank. All ranks give the same length.
func AllReduce[T Number](c *Comm, x []T, op Op) error {
	tag, err := c.begin(CallAllReduce, op, typeOf[T](), 0, len(x))
	if err != nil {
		return err
	}
	if c.shares() {
		return reduceShared(c, tag, x, true)
	}
	c.steps = allReduceRing(c.steps, c.rank, c.size, c.chunks(len(x)))
	return run(c, tag, x, x)
}

// ReduceScatter joins the x of all ranks element by element and leaves this
// rank's Chunk of the result in x[lo:hi]. The rest of x holds partial results
// afterwards. All ranks give the same length.
func ReduceScatter[T Number](c *Comm, x []T, op Op) (lo, hi int, err error) {
	lo, hi = Chunk(len(x), c.size, c.rank)
	tag, err := c.begin(CallReduceScatter, op, typeOf[T](), 0, len(x))
	if err != nil {
		return lo, hi, err
	}
	if c.shares() {
		return lo, hi, reduceShared(c, tag, x, false)
	}
	c.steps = reduceScatterRing(c.steps, c.rank, c.size, c.chunks(len(x)))
	return lo, hi, run(c, tag, x, x)
}
