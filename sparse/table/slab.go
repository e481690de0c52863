package table

import (
	"errors"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"
)

// slabs is an array of items of equal size that grows without moving them. Slab k ≥ 1 holds
// as many items as all slabs before it together. There are therefore few slabs, and the bit
// length of an item's number gives its slab. A slab is reserved whole, and its pages are
// allocated when touched. A background goroutine touches the next pages of large slabs, so
// that the writer seldom waits for the kernel to find and clear a page. Items start zeroed.
type slabs struct {
	size  int  // bytes of an item, a multiple of 4
	shift uint // log2 of the number of items in slab 0
	full  [33]pages
	place [33]place // places of full

	next  uint64   // reserving this item starts to touch pages
	ready int      // bytes of its slab whose touching has been started
	aside *touches // nil before the first touch
}

// place is the address of a slab: item i is at origin + i·size. base keeps the memory
// alive.
type place struct {
	base   unsafe.Pointer
	origin uintptr // base minus the bytes of the items before
}

const firstSlabBytes = 32 << 10

func newSlabs(size int) slabs {
	return slabs{size: size, shift: uint(bits.Len(uint(max(1, firstSlabBytes/size))) - 1)}
}

// parallel returns slabs with as many items in each slab, of another size.
func (s *slabs) parallel(size int) slabs { return slabs{size: size, shift: s.shift} }

// slab returns the slab of item i.
func (s *slabs) slab(i uint32) int { return bits.Len32(i >> s.shift) }

// at returns item i, for which reserve has been called.
func (s *slabs) at(i uint32) unsafe.Pointer {
	p := &s.place[s.slab(i)]
	return unsafe.Add(p.base, uintptr(i)*uintptr(s.size)+p.origin-uintptr(p.base))
}

// locatePlain is the specification of locate, which writes the addresses of items to addrs:
// nil for item 0 if nothing has been reserved yet.
func (s *slabs) locatePlain(items []Row, addrs []*byte) {
	for i, r := range items {
		addrs[i] = (*byte)(s.at(uint32(r)))
	}
}

// reserve allocates memory for the items up to i.
func (s *slabs) reserve(i uint32) {
	for k := s.slab(i); k >= 0 && s.place[k].base == nil; k-- {
		items, before := 1<<s.shift, 0
		if k > 0 {
			items <<= k - 1
			before = items
		}
		s.full[k] = newPages(items * s.size)
		base := unsafe.Pointer(unsafe.SliceData(s.full[k].mem))
		s.place[k] = place{base, uintptr(base) - uintptr(before*s.size)}
		s.next, s.ready = 0, 0
	}
	if uint64(i) >= s.next {
		s.touchAhead(i)
	}
}

// free frees all memory.
func (s *slabs) free() error {
	s.wait()
	s.next, s.ready = 0, 0
	var errs []error
	for k := range s.full {
		errs = append(errs, s.full[k].free())
		s.place[k] = place{}
	}
	return errors.Join(errs...)
}

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
