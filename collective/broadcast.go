package collective

import "github.com/wdlrun/wdlrun/internal/raw"

// Broadcast copies the x of rank root to every rank. All ranks give the same
// length and root.
func Broadcast[T Number](c *Comm, x []T, root int) error {
	tag, err := c.begin(CallBroadcast, Sum, typeOf[T](), root, len(x))
	if err != nil {
		return err
	}
	return copyFrom(c, tag, x, root)
}

// copyFrom copies the x of rank root to every rank.
func copyFrom[T Number](c *Comm, tag Tag, x []T, root int) error {
	if c.shares() {
		b := raw.Bytes(x)
		c.wantNothing()
		c.length[root] = len(b)
		if c.rank == root {
			return c.pull(tag, b)
		}
		c.into[root] = b
		return c.pull(tag, nil)
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
	if c.shares() {
		defer c.sh.Leave(c.channel)
		return c.meet(&tag, Note{})
	}
	c.steps = barrierDissemination(c.steps, c.rank, c.size)
	return run[uint8](c, tag, nil, nil)
}
