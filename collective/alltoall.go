package collective

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// AllToAll sends the i-th of P equal parts of send to rank i, and stores the part from
// rank i in the i-th part of recv. Both slices have the same length on every rank, a
// multiple of P, and do not overlap.
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

// AllToAllV sends sendCounts[i] elements of send to rank i and receives recvCounts[i]
// elements from it. Parts are contiguous and in rank order. The counts must sum to the
// lengths of the slices, which do not overlap. Every sendCounts[i] must equal the
// recvCounts that rank i has for this rank.
func AllToAllV[T Number](c *Comm, send []T, sendCounts []int, recv []T, recvCounts []int) error {
	sendAt := c.bounds(CallAllToAllV, c.to, sendCounts, len(send))
	recvAt := c.bounds(CallAllToAllV, c.at, recvCounts, len(recv))
	tag, err := c.begin(CallAllToAllV, Sum, typeOf[T](), 0, 0)
	if err != nil {
		return err
	}
	return toAll(c, tag, send, sendAt, recv, recvAt)
}

// AllToAllVisit is AllToAllV without a receive buffer: it calls visit once with the
// part of each rank, in rank order. A part in memory of Alloc is read in place, in the
// buffer of the other rank. A part is valid until its visit returns and must not be
// changed. visit must not make calls on c. If visit returns an error, AllToAllVisit
// skips the other parts and returns the error; the group stays usable.
func AllToAllVisit[T Number](c *Comm, send []T, sendCounts, recvCounts []int, visit func(from int, part []T) error) error {
	total := 0
	for _, n := range recvCounts {
		total += n
	}
	sendAt := c.bounds(callAllToAllVisit, c.to, sendCounts, len(send))
	recvAt := c.bounds(callAllToAllVisit, c.at, recvCounts, total)
	tag, err := c.begin(callAllToAllVisit, Sum, typeOf[T](), 0, 0)
	if err != nil {
		return err
	}
	if !c.shares() {
		recv := grow[T](&c.parts, total)
		if err := exchangeParts(c, tag, send, sendAt, recv, recvAt); err != nil {
			return err
		}
		for r := range c.size {
			if err := visit(r, recv[recvAt[r]:recvAt[r+1]]); err != nil {
				return err
			}
		}
		return nil
	}
	size := raw.Size[T]()
	for r, n := range recvCounts {
		c.into[r], c.length[r] = nil, n*size
	}
	return c.pullParts(tag, raw.Bytes(send), sendAt, size, func() error {
		for r := range c.size {
			if err := visit(r, raw.Of[T](c.into[r])); err != nil {
				return err
			}
		}
		return nil
	})
}

// toAll exchanges the parts bounded by sendAt and recvAt.
func toAll[T Number](c *Comm, tag Tag, send []T, sendAt []int, recv []T, recvAt []int) error {
	if c.shares() {
		size, b := raw.Size[T](), raw.Bytes(recv)
		for r := range c.size {
			c.into[r] = b[recvAt[r]*size : recvAt[r+1]*size]
			c.length[r] = len(c.into[r])
		}
		return c.pullParts(tag, raw.Bytes(send), sendAt, size, nil)
	}
	return exchangeParts(c, tag, send, sendAt, recv, recvAt)
}
