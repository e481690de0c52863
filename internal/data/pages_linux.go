package data

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size and alignment that the kernel can back by one page.
const hugePage = 2 << 20

// allocate returns an empty slice with capacity for n bytes. The kernel backs large ones by huge
// pages if it has them. Windows take as much memory as they have records, and a page fault
// for each 4 KiB takes longer than copying the records.
func allocate(n int) []byte {
	b := make([]byte, n)
	if skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % hugePage); skip+hugePage <= n {
		whole := b[skip : skip+(n-skip)/hugePage*hugePage]
		_ = unix.Madvise(whole, unix.MADV_HUGEPAGE) // a hint; without it pages are small
	}
	return b[:0]
}
