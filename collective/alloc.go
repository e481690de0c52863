package collective

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// Alloc returns n zeroed elements in a window: memory that the ranks of one host share,
// so that calls on it copy less or nothing. If the ranks share no memory, or none is
// left, it returns ordinary memory, which works the same. Every rank calls Alloc in the
// same order as the other calls of the channel; n may differ. Once all ranks have the
// memory, it may be used on every channel, whole or in parts. It is freed when the
// transport is closed.
func Alloc[T Number](c *Comm, n int) ([]T, error) {
	if n < 0 || n > maxWindow/raw.Size[T]() {
		panic(fmt.Sprintf("collective: Alloc: %d elements", n))
	}
	tag, err := c.begin(callAlloc, Sum, typeOf[T](), 0, 0)
	if err != nil {
		return nil, err
	}
	if c.hosts != nil {
		x, err := alloc[T](c.hosts.local, tag, n)
		if err != nil {
			return nil, c.recordError(err)
		}
		return x, c.barrier(tag)
	}
	return alloc[T](c, tag, n)
}

func alloc[T Number](c *Comm, tag Tag, n int) ([]T, error) {
	size := raw.Size[T]()
	if !c.shares() { // all ranks must meet, as if memory were shared
		return make([]T, n), c.barrier(tag)
	}
	own, err := c.share(tag, n*size)
	if err != nil {
		return nil, err
	}
	if own == nil {
		return make([]T, n), nil
	}
	return raw.Of[T](own[: n*size : n*size]), nil
}
