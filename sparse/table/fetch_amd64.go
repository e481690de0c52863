//go:build amd64 && !noasm

package table

import (
	"unsafe"

	"github.com/wdlrun/wdlrun/optim"
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

func (t *Table) locate(rows []Row, at []optim.Record) {
	n, s, marks := len(rows), &t.records, &t.notes.stamps
	if !cpu.X86.HasBMI2 {
		t.locatePlain(rows, at)
		return
	}
	places, words := (*byte)(unsafe.Pointer(&s.place[0])), (*byte)(unsafe.Pointer(&marks.place[0]))
	_ = at[:n]
	eights := 0
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512CD {
		if eights = n &^ 7; eights > 0 {
			locateEights((*byte)(unsafe.Pointer(&at[0])), (*uint32)(&rows[0]), eights, places, words, int(s.shift), s.size)
		}
	}
	if n > eights {
		locateMarked((*byte)(unsafe.Pointer(&at[eights])), (*uint32)(&rows[eights]), n-eights, places, words, int(s.shift), s.size)
	}
}

func copyFound(dst, src []Row) (missing bool) {
	eights := 0
	if cpu.X86.HasAVX2 {
		if eights = len(src) &^ 7; eights > 0 {
			_ = dst[eights-1]
			missing = copyRows((*uint32)(&dst[0]), (*uint32)(&src[0]), eights)
		}
	}
	return copyFoundPlain(dst[eights:], src[eights:]) || missing
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
