package serve

import (
	"math/bits"
	"sync"
)

// received is a pool of memory for the messages of requests. gRPC's own pool has no size between 32 KiB
// and 1 MiB and clears a buffer whenever it is used again: 1 MiB for a request of 36 kB, which also
// displaces the rows of the model from the caches. These buffers are not cleared, because a message
// fills its buffer.
type received struct {
	sizes [maxPooled + 1]sync.Pool // by the logarithm of the capacity
}

// maxPooled is the logarithm of the largest buffer that is used again.
const maxPooled = 24

// Get returns a buffer of n bytes with undefined contents.
func (p *received) Get(n int) *[]byte {
	size := bits.Len(uint(max(n, 1) - 1))
	if size > maxPooled {
		b := make([]byte, n)
		return &b
	}
	if b, ok := p.sizes[size].Get().(*[]byte); ok {
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n, 1<<size)
	return &b
}

// Put takes back a buffer of Get.
func (p *received) Put(b *[]byte) {
	if size := bits.Len(uint(cap(*b) - 1)); size <= maxPooled && cap(*b) == 1<<size {
		p.sizes[size].Put(b)
	}
}
