//go:build amd64 && !noasm

package table

import (
	"unsafe"

	"github.com/wdlrun/wdlrun/optim"
	"golang.org/x/sys/cpu"
)

// prefetch prefetches the cache lines at disp bytes from addrs.
func prefetch(addrs []*byte, disp int) {
	if len(addrs) > 0 {
		prefetchLines(&addrs[0], len(addrs), disp)
	}
}

// prefetchSet prefetches the slots of hashes.
func prefetchSet(slots []setSlot, hashes []uint64) {
	if len(hashes) > 0 {
		prefetchSlots16((*byte)(unsafe.Pointer(&slots[0])), uint64(len(slots)-1), &hashes[0], len(hashes))
	}
}

// eights reports whether the processor has the instructions for eight keys at a time.
var eights = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT

func hashAll(hashes, keys []uint64, salt uint64) {
	n := 0
	if eights {
		if n = len(keys) &^ 7; n > 0 {
			_ = hashes[n-1]
			hashEights(&hashes[0], &keys[0], n, salt)
		}
	}
	hashPlain(hashes[n:], keys[n:], salt)
}

func (s *setSlots) match(keys []uint64, hashes *[setChunk]uint64, ids []uint32, missed *[setChunk]uint8) []uint8 {
	n := len(keys)
	if n == 0 {
		return nil
	}
	_, _ = ids[n-1], hashes[n-1]
	return missed[:matchSlots16(&keys[0], &hashes[0], n, (*byte)(unsafe.Pointer(&s.slots[0])), uint64(len(s.slots)-1), s.epoch, &ids[0], &missed[0])]
}

// prefetchFlat prefetches the entries of flat that lead to the buckets of hashes.
func (x *index) prefetchFlat(hashes []uint64) {
	if cpu.X86.HasBMI2 && x.depth > 0 && len(hashes) > 0 {
		prefetchPointers(&hashes[0], len(hashes), 64-int(x.depth), (*byte)(unsafe.Pointer(&x.flat[0])))
	}
}

func (x *index) prefetchBuckets(g *flatGroup, n int) {
	if !cpu.X86.HasBMI2 || x.depth == 0 { // no processor shifts by 64
		x.prefetchBucketsPlain(g, n)
	} else if n > 0 {
		prefetchBuckets((**byte)(unsafe.Pointer(&g.starts[0])), &g.hashes[0], n, 64-int(x.depth), (*byte)(unsafe.Pointer(&x.flat[0])), &x.masks[0])
	}
}

func (g *flatGroup) match(keys []uint64, rows []Row, missed *[group]uint8) (n int, union Row) {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasBMI1 || !cpu.X86.HasBMI2 || len(keys) == 0 {
		return g.matchPlain(keys, rows, missed)
	}
	_, _ = rows[len(keys)-1], g.starts[len(keys)-1]
	n, bits := matchBuckets(&keys[0], &g.hashes[0], (**byte)(unsafe.Pointer(&g.starts[0])), len(keys), (*uint32)(&rows[0]), &missed[0])
	return n, Row(bits)
}

func (s *slabs) locate(items []Row, addrs []*byte) {
	if !cpu.X86.HasBMI2 {
		s.locatePlain(items, addrs)
	} else if n := len(items); n > 0 {
		_ = addrs[n-1]
		locateItems(&addrs[0], (*uint32)(&items[0]), n, (*byte)(unsafe.Pointer(&s.place[0])), int(s.shift), s.size)
	}
}

func (t *memory) locate(rows []Row, at []optim.Record) {
	n, s, marks := len(rows), &t.records, &t.notes.stamps
	if !cpu.X86.HasBMI2 {
		t.locatePlain(rows, at)
		return
	}
	places, words := (*byte)(unsafe.Pointer(&s.place[0])), (*byte)(unsafe.Pointer(&marks.place[0]))
	_ = at[:n]
	done := 0
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512CD {
		if done = n &^ 7; done > 0 {
			locateEights((*byte)(unsafe.Pointer(&at[0])), (*uint32)(&rows[0]), done, places, words, int(s.shift), s.size)
		}
	}
	if n > done {
		locateMarked((*byte)(unsafe.Pointer(&at[done])), (*uint32)(&rows[done]), n-done, places, words, int(s.shift), s.size)
	}
}

func copyFound(dst, src []Row) (missing bool) {
	done := 0
	if cpu.X86.HasAVX2 {
		if done = len(src) &^ 7; done > 0 {
			_ = dst[done-1]
			missing = copyRows((*uint32)(&dst[0]), (*uint32)(&src[0]), done)
		}
	}
	return copyFoundPlain(dst[done:], src[done:]) || missing
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
	silent := max(0, ahead-(len(addrs)-n)) // rows without a later row to prefetch
	gatherRows((*byte)(unsafe.Pointer(&dst[0])), 4*stride, &addrs[0], n, silent, 4*width)
}
