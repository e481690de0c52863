package table

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size and alignment that the kernel can back by one page.
const hugePage = 2 << 20

// touchBytes is how much of slabs is touched at once.
const touchBytes = hugePage

// touchPages has the kernel back memory by pages, and does not change what is
// there. Before Linux 5.14 it has no effect, and they come when they are first touched.
func touchPages(mem []byte) { _ = unix.Madvise(mem, unix.MADV_POPULATE_WRITE) }

// pages is memory outside the Go heap, so that the collector neither scans nor
// counts it. The kernel gives it page by page when it is first touched, zeroed.
type pages struct {
	mem    []byte
	mapped []byte // what munmap needs; nil if mem is of the Go heap
}

// newPages reserves n bytes, aligned for huge pages and advised to be in them. If
// the kernel has none, or n is small, they come from the Go heap.
func newPages(n int) pages {
	if n < hugePage {
		return pages{mem: make([]byte, n)}
	}
	all, err := unix.Mmap(-1, 0, n+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return pages{mem: make([]byte, n)}
	}
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(all))) % hugePage)
	mem := all[skip : skip+n : skip+n]
	// A kernel without huge pages answers with an error and small pages.
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	return pages{mem: mem, mapped: all}
}

// free returns the memory; nothing may refer to it any more.
func (p *pages) free() error {
	all := p.mapped
	*p = pages{}
	if all == nil {
		return nil
	}
	return unix.Munmap(all)
}
