package collective

// Broadcast copies the x of rank root to every rank. All ranks give the same
// length and root.
func Broadcast[T Number](c *Comm, x []T, root int) error {
	tag, err := c.begin(CallBroadcast, Sum, typeOf[T](), root, len(x))
	if err != nil {
		return err
	}
	c.steps = broadcastTree(c.steps, c.rank, c.size, root, len(x))
	return run(c, tag, x, x)
}

// Barrier returns when every rank has called it.
func Barrier(c *Comm) error {
	tag, err := c.begin(CallBarrier, Sum, typeNone, 0, 0)
	if err != nil {
		return err
	}
	c.steps = barrierDissemination(c.steps, c.rank, c.size)
	return run[uint8](c, tag, nil, nil)
}
