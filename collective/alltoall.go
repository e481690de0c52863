package collective

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/raw"
)

// AllToAll cuts send into P equal parts, one for each rank in order, and fills
// recv with the parts that the ranks have for this one, in order. Both slices
// have the same length, a multiple of P, on every rank, and do not overlap.
func AllToAll[T Number](c *Comm, send, recv []T) error {
	if len(send) != len(recv) || len(send)%c.size != 0 {
		panic(fmt.Sprintf("collective: AllToAll: %d elements to send and %d to receive among %d ranks", len(send), len(recv), c.size))
	}
	tag, err := c.begin(CallAllToAll, Sum, typeOf[T](), 0, len(send))
	if err != nil {
		return err
	}
	at := c.chunks(len(send))
	return toAll(c, tag, send, at, recv, at)
}

// AllToAllV sends sendCounts[i] elements of send to rank i and receives
// recvCounts[i] elements from it. Parts are contiguous, in the order of ranks;
// counts add up to the lengths of the slices, which do not overlap. Every
// sendCounts[i] must be what rank i has as recvCounts for this rank.
func AllToAllV[T Number](c *Comm, send []T, sendCounts []int, recv []T, recvCounts []int) error {
	sendAt := c.parts(CallAllToAllV, c.to, sendCounts, len(send))
	recvAt := c.parts(CallAllToAllV, c.at, recvCounts, len(recv))
	tag, err := c.begin(CallAllToAllV, Sum, typeOf[T](), 0, 0)
	if err != nil {
		return err
	}
	return toAll(c, tag, send, sendAt, recv, recvAt)
}

// toAll exchanges the parts bounded by sendAt and recvAt.
func toAll[T Number](c *Comm, tag Tag, send []T, sendAt []int, recv []T, recvAt []int) error {
	if c.shares() {
		size, b := raw.Size[T](), raw.Bytes(recv)
		for r := range c.size {
			c.into[r] = b[recvAt[r]*size : recvAt[r+1]*size]
		}
		return c.pullParts(tag, raw.Bytes(send), sendAt, size)
	}
	c.steps = allToAllPairwise(c.steps, c.rank, c.size, sendAt, recvAt)
	return run(c, tag, send, recv)
}
