package table

import (
	"sync"
	"sync/atomic"
)

// At most maxAhead bytes of a slab are touched before they are needed, and at most one in
// aheadShare, so that a table takes little more memory than it holds.
const (
	maxAhead   = 8 << 20
	aheadShare = 8
)

// touches tracks pages that are being touched in the background.
type touches struct {
	busy atomic.Bool
	all  sync.WaitGroup
}

// touchAhead starts to touch the pages that follow item i in the background. If other pages
// are being touched, a later item tries again.
func (s *slabs) touchAhead(i uint32) {
	k, first := s.slab(i), uint64(0)
	if k > 0 {
		first = 1 << (s.shift + uint(k) - 1)
	}
	mem := s.full[k].mem
	most := min(maxAhead, len(mem)/aheadShare) &^ (touchBytes - 1)
	if most == 0 {
		s.next = max(2*first, 1<<s.shift) // item in the next slab
		return
	}
	at := int(uint64(i)-first) * s.size
	lo, hi := max(s.ready, at+touchBytes)&^(touchBytes-1), min(at+touchBytes+most, len(mem))&^(touchBytes-1)
	if s.aside == nil {
		s.aside = new(touches)
	}
	if lo < hi && !s.aside.touch(mem[lo:hi]) {
		s.next = uint64(i) + uint64(max(1, touchBytes/8/s.size))
		return
	}
	s.ready, s.next = hi, max(uint64(i)+1, first+uint64(max(0, hi-most)/s.size))
	if hi+touchBytes > len(mem) {
		s.next = 2 * first
	}
}

// touch starts to touch memory in the background. It returns false if other memory is being
// touched.
func (x *touches) touch(mem []byte) bool {
	if !x.busy.CompareAndSwap(false, true) {
		return false
	}
	x.all.Go(func() {
		for ; len(mem) > 0; mem = mem[touchBytes:] {
			touchPages(mem[:touchBytes])
		}
		x.busy.Store(false)
	})
	return true
}

// wait waits until no memory is being touched.
func (s *slabs) wait() {
	if s.aside != nil {
		s.aside.all.Wait()
	}
}
