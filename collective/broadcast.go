package collective

import (
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

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
		c.clearTargets()
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
	return c.barrier(tag)
}

// barrier is Barrier for a call that has begun.
func (c *Comm) barrier(tag Tag) error {
	if c.shares() {
		defer c.sh.Leave(c.channel)
		return c.meet(&tag, Note{})
	}
	if tag.Algorithm = c.way(CallBarrier, tag, 0); tag.Algorithm == Rails {
		return railBarrier(c, tag)
	}
	c.steps = barrierDissemination(c.steps[:0], c.rank, c.size)
	return run[uint8](c, &tag, nil, nil)
}

// copyRails is a broadcast on root's host, then between hosts, then on the other hosts.
func copyRails[T Number](c *Comm, tag Tag, x []T, root int) error {
	h := c.hosts
	home := h.where[root]
	if h.host == home {
		at := 0
		for i, r := range h.ranks[home] {
			if r == root {
				at = i
			}
		}
		if err := copyFrom(h.local, tag, x, at); err != nil {
			return c.recordError(err)
		}
	}
	if h.index == 0 {
		if err := copyFrom(h.rail, tag, x, home); err != nil {
			return c.recordError(err)
		}
	}
	if h.host == home {
		return nil
	}
	return c.recordError(copyFrom(h.local, tag, x, 0))
}

// railBarrier is a barrier on each host, then between hosts, then on each host again.
func railBarrier(c *Comm, tag Tag) error {
	h := c.hosts
	if err := h.local.barrier(tag); err != nil {
		return c.recordError(err)
	}
	if h.index == 0 {
		if err := h.rail.barrier(tag); err != nil {
			return c.recordError(err)
		}
	}
	return c.recordError(h.local.barrier(tag))
}
