package collective

import "github.com/wdlrun/wdlrun/internal/kernel/raw"

// Broadcast copies the x of rank root to every rank. All ranks pass the same length and
// root.
func Broadcast[T Number](c *Comm, x []T, root int) error {
	tag, err := c.begin(CallBroadcast, Sum, typeOf[T](), root, len(x))
	if err != nil {
		return err
	}
	return copyFrom(c, tag, x, root)
}

// copyFrom is Broadcast for a call that has begun.
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
	tag.Algorithm = c.way(CallBroadcast, tag, len(x)*raw.Size[T]())
	c.steps = c.steps[:0]
	switch tag.Algorithm {
	case Rails:
		return copyRails(c, tag, x, root)
	case Scatter:
		c.steps = broadcastScatter(c.steps, c.rank, c.size, root, c.chunks(len(x)))
	default:
		c.steps = broadcastTree(c.steps, c.rank, c.size, root, len(x))
	}
	return run(c, &tag, x, x)
}

// Barrier returns when every rank has called it.
func Barrier(c *Comm) error {
	tag, err := c.begin(CallBarrier, Sum, typeNone, 0, 0)
	if err != nil {
		return err
	}
	return c.meetAll(tag)
}

// meetAll is Barrier for a call that has begun.
func (c *Comm) meetAll(tag Tag) error {
	if c.shares() {
		defer c.sh.Leave(c.channel)
		return c.meet(&tag, Note{})
	}
	if tag.Algorithm = c.way(CallBarrier, tag, 0); tag.Algorithm == Rails {
		return meetRails(c, tag)
	}
	c.steps = barrierDissemination(c.steps[:0], c.rank, c.size)
	return run[uint8](c, &tag, nil, nil)
}
