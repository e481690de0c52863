package shm

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/internal/machine/cgroup"
)

const hugePage = 2 << 20

// memory is a mapped window.
type memory struct {
	p    unsafe.Pointer
	n    int  // whole pages
	huge bool // made of huge pages from the system's pool
}

func (m memory) bytes() []byte { return unsafe.Slice((*byte)(m.p), m.n) }

// pages rounds a length up to whole pages, at least one.
func pages(n int) int {
	size := os.Getpagesize()
	return (max(n, 1) + size - 1) / size * size
}

// hugePages rounds a length up to whole huge pages.
func hugePages(n int) int { return (n + hugePage - 1) / hugePage * hugePage }

// create makes a window of n zeroed bytes and allocates the first now bytes of it. It
// returns the window and the sealed file from which others map it. The window consists of
// huge pages if the pool of the system has enough (vm.nr_hugepages). Otherwise the kernel
// may combine its pages into huge ones, if it does so in shared memory
// (transparent_hugepage/shmem_enabled).
func create(n, now int) (memory, int, error) {
	if n >= hugePage {
		if m, fd, err := createOf(hugePages(n), now, unix.MFD_HUGETLB|unix.MFD_HUGE_2MB); err == nil {
			m.huge = true
			return m, fd, nil
		}
	}
	return createOf(pages(n), now, 0)
}

func createOf(n, now, flags int) (memory, int, error) {
	// If memory is short, populating would kill the process instead of returning an error.
	// The pool of huge pages does not count as free memory.
	if free := cgroup.Read().Available; flags == 0 && int64(n) > free {
		return memory{}, -1, fmt.Errorf("%d bytes: %w: %d bytes of memory are available", n, unix.ENOMEM, free)
	}
	fd, err := unix.MemfdCreate("wdlrun", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|flags)
	if err != nil {
		return memory{}, -1, fmt.Errorf("memfd_create: %w", err)
	}
	m, err := fill(fd, n, now)
	if err != nil {
		unix.Close(fd)
		return memory{}, -1, err
	}
	return m, fd, nil
}

const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

func fill(fd, n, now int) (memory, error) {
	if err := unix.Ftruncate(fd, int64(n)); err != nil {
		return memory{}, fmt.Errorf("ftruncate to %d bytes: %w", n, err)
	}
	m, err := mapShared(fd, n)
	if err != nil {
		return memory{}, err
	}
	// Populating through the mapping allows huge pages. If the kernel does not support it,
	// the file is filled instead.
	if err = m.populate(0, now); errors.Is(err, unix.EINVAL) {
		err = unix.Fallocate(fd, 0, 0, int64(n))
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		m.unmap()
		return memory{}, fmt.Errorf("%d bytes: %w", n, err)
	}
	return m, nil
}

// populateBytes are populated by one system call. During the call no other thread of the
// process can map memory or touch new pages. In one call for a large window, heartbeats
// would wait for all of it on a busy host.
const populateBytes = 4 << 20

// populate has the system allocate the pages of the bytes from begin to end.
func (m memory) populate(begin, end int) error {
	begin, end = begin/os.Getpagesize()*os.Getpagesize(), min(pages(end), m.n)
	for rest := range slices.Chunk(m.bytes()[begin:end], populateBytes) {
		if err := unix.Madvise(rest, unix.MADV_POPULATE_WRITE); err != nil {
			return err
		}
	}
	return nil
}

// mapShared maps a file of n bytes, with huge pages if the system allows them.
func mapShared(fd, n int) (memory, error) {
	p, err := unix.MmapPtr(fd, 0, nil, uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return memory{}, fmt.Errorf("mmap of %d bytes: %w", n, err)
	}
	m := memory{p: p, n: n}
	if n >= hugePage {
		unix.Madvise(m.bytes(), unix.MADV_HUGEPAGE) // a hint; without it pages are small
	}
	return m, nil
}

// attach maps the window of a peer, which has announced n bytes.
func attach(fd, n int) (memory, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return memory{}, fmt.Errorf("fstat: %w", err)
	}
	if st.Size != int64(pages(n)) && (n < hugePage || st.Size != int64(hugePages(n))) {
		return memory{}, fmt.Errorf("its window has %d bytes, it announced %d", st.Size, n)
	}
	n = int(st.Size)
	if has, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil || has&seals != seals {
		return memory{}, fmt.Errorf("its window is not sealed (%#x, %v)", has, err)
	}
	return mapShared(fd, n) // page tables fill on use: otherwise each of P ranks would fill the page tables of P windows
}

// unmap frees the memory.
func (m memory) unmap() {
	if m.p != nil {
		unix.MunmapPtr(m.p, uintptr(m.n))
	}
}

// forget frees the memory but keeps its addresses readable, as zeros, because the program
// may still hold slices of it.
func (m memory) forget() {
	if m.p != nil {
		unix.MmapPtr(-1, 0, m.p, uintptr(m.n), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED|unix.MAP_NORESERVE)
	}
}
