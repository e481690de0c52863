package sparse

import (
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// sendBuffer is a send buffer, aligned to 8 bytes: a window that the other ranks read in place,
// if it is long enough, else memory of this rank.
type sendBuffer struct {
	window []byte
	own    []uint64
	needed int // length of the window that was needed, in bytes; 0: long enough
}

// take returns n bytes of unspecified content. Each call returns the same memory.
func (r *sendBuffer) take(n int) []byte {
	if n <= len(r.window) {
		return r.window[:n]
	}
	r.needed = max(r.needed, (n+n/2+7)&^7) // whole words: small allocations have no larger alignment
	r.own = resize(r.own, (n+7)/8)
	return raw.Bytes(r.own)[:n]
}

// sendBuffers holds the send buffers of a Lookup, in the order in which windows are allocated.
type sendBuffers struct{ keys, rows, grads sendBuffer }

// tooShort reports whether any window was too short since it was made.
func (r *sendBuffers) tooShort() bool { return r.keys.needed+r.rows.needed+r.grads.needed > 0 }

// grow allocates longer windows where this rank needs them. Every rank calls it.
func (r *sendBuffers) grow(a Allocator) error {
	for _, x := range []*sendBuffer{&r.keys, &r.rows, &r.grads} {
		window, err := a.Alloc(x.needed)
		if err != nil {
			return err
		}
		if x.needed > 0 {
			x.window, x.own, x.needed = window, nil, 0
		}
	}
	return nil
}
