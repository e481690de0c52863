package table

import (
	"errors"
	"math/bits"
	"unsafe"
)

// slabs is an array of items of equal size that grows without moving them: slab
// k ≥ 1 holds as many items as all slabs before it together, so that there are
// few and an item's slab is the length of its number. A slab is reserved whole
// and takes memory as it is touched. Items start zeroed.
type slabs struct {
	size  int  // bytes of an item, a multiple of 4
	shift uint // log2 of the items of slab 0
	full  [33]pages
	base  [33]unsafe.Pointer // of full
}

const firstSlabBytes = 32 << 10

func newSlabs(size int) slabs {
	return slabs{size: size, shift: uint(bits.Len(uint(max(1, firstSlabBytes/size))) - 1)}
}

// slab returns the slab of item i and the item's number in it.
func (s *slabs) slab(i uint32) (k int, at uint32) {
	if k = bits.Len32(i >> s.shift); k > 0 {
		i -= 1 << (s.shift + uint(k) - 1)
	}
	return k, i
}

// at returns item i, which reserve has made room for.
func (s *slabs) at(i uint32) unsafe.Pointer {
	k, at := s.slab(i)
	return unsafe.Add(s.base[k], int(at)*s.size)
}

// reserve makes room for the items up to i.
func (s *slabs) reserve(i uint32) {
	last, _ := s.slab(i)
	for k := last; k >= 0 && s.base[k] == nil; k-- {
		items := 1 << s.shift
		if k > 0 {
			items <<= k - 1
		}
		s.full[k] = newPages(items * s.size)
		s.base[k] = unsafe.Pointer(unsafe.SliceData(s.full[k].mem))
	}
}

// free returns all memory.
func (s *slabs) free() error {
	var errs []error
	for k := range s.full {
		errs = append(errs, s.full[k].free())
		s.base[k] = nil
	}
	return errors.Join(errs...)
}

// Pages returns zeroed memory of n bytes as tables use it, outside the Go heap
// and in huge pages where the system has them, and how to free it: what
// measurements of a machine's memory need.
func Pages(n int) (words []uint64, free func() error) {
	p := newPages(n)
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(p.mem))), n/8), p.free
}
