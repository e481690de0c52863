package step

import "golang.org/x/sys/unix"

// hugeMemory returns memory of n bytes in huge pages, if the kernel has them, and frees it by free.
func hugeMemory(n int) (mem []byte, free func()) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return make([]byte, n), func() {}
	}
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // without them, small pages make reads slower
	return mem, func() { _ = unix.Munmap(mem) }
}
