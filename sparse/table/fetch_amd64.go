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

// gather copies the width floats at each of addrs but the last ahead to dst,
// stride floats apart, and asks for what lies at those last.
func gather(dst []float32, stride int, addrs []*byte, width int) {
	n := len(addrs) - ahead
	if n == 0 || width == 0 {
		return
	}
	if !cpu.X86.HasAVX {
		gatherPlain(dst, stride, addrs, width)
		return
	}
	_ = dst[(n-1)*stride+width-1]
	gatherRows((*byte)(unsafe.Pointer(&dst[0])), 4*stride, &addrs[0], n, 4*width)
}
