//go:build amd64 && !noasm

package table

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// prefetch asks for the lines at disp bytes from addrs.
func prefetch(addrs []*byte, disp int) {
	if len(addrs) > 0 {
		prefetchLines(&addrs[0], len(addrs), disp)
	}
}

// prefetchSet asks for the slots of hashes.
func prefetchSet(slots []setSlot, hashes []uint64) {
	if len(hashes) > 0 {
		prefetchSlots16((*byte)(unsafe.Pointer(&slots[0])), uint64(len(slots)-1), &hashes[0], len(hashes))
	}
}

func (s *slabs) locate(items []Row, addrs []*byte) {
	if !cpu.X86.HasBMI2 {
		s.locatePlain(items, addrs)
	} else if n := len(items); n > 0 {
		_ = addrs[n-1]
		locateItems(&addrs[0], (*uint32)(&items[0]), n, (*byte)(unsafe.Pointer(&s.place[0])), int(s.shift), s.size)
	}
}

// ask is locate that asks for the items' lines, too.
func (s *slabs) ask(items []Row, addrs []*byte) {
	if !cpu.X86.HasBMI2 {
		s.locatePlain(items, addrs)
		prefetch(addrs[:len(items)], 0)
	} else if n := len(items); n > 0 {
		_ = addrs[n-1]
		askItems(&addrs[0], (*uint32)(&items[0]), n, (*byte)(unsafe.Pointer(&s.place[0])), int(s.shift), s.size)
	}
}

func gather(dst []float32, stride int, addrs []*byte, n, width int) {
	if n == 0 || width == 0 {
		return
	}
	if !cpu.X86.HasAVX {
		gatherPlain(dst, stride, addrs, n, width)
		return
	}
	_, _ = dst[(n-1)*stride+width-1], addrs[n-1]
	silent := max(0, ahead-(len(addrs)-n)) // rows that know of none ahead
	gatherRows((*byte)(unsafe.Pointer(&dst[0])), 4*stride, &addrs[0], n, silent, 4*width)
}
