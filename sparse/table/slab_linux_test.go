package table

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// resident returns the number of pages of mem that are backed by memory. mem consists of whole
// pages.
func resident(t *testing.T, mem []byte) (n int) {
	seen := make([]byte, len(mem)/unix.Getpagesize())
	_, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mem[0])), uintptr(len(mem)), uintptr(unsafe.Pointer(&seen[0])))
	if e != 0 {
		t.Fatal(e)
	}
	for _, page := range seen {
		n += int(page & 1)
	}
	return n
}

// TestPagesAreTouchedAhead fills slabs until one is large enough for its pages to be touched
// ahead. The documented number of pages after the last item must be backed by memory before they
// are used, and no more. Their contents must not change.
func TestPagesAreTouchedAhead(t *testing.T) {
	probe := newPages(hugePage)
	defer probe.free()
	if unix.Madvise(probe.mem, unix.MADV_POPULATE_WRITE) != nil {
		t.Skip("this kernel cannot touch pages ahead")
	}
	const size, last = 4096, 97 << 20 / 4096 // in the slab of 64 MiB of the 65th on
	s := newSlabs(size)
	for i := range uint32(last + 1) {
		s.reserve(i)
		*(*uint32)(s.at(i)) = i
	}
	s.wait()
	s.touchAhead(last) // another goroutine may have been touching pages at the time
	s.wait()
	mem := s.full[s.slab(last)].mem
	at := (last*size - (len(mem)/size)*size) &^ (hugePage - 1)
	if n := resident(t, mem[at:][:hugePage+maxAhead]); n*unix.Getpagesize() != hugePage+maxAhead {
		t.Errorf("%d pages after the last item are backed by memory, want %d", n, (hugePage+maxAhead)/unix.Getpagesize())
	}
	if n := resident(t, mem[at+hugePage+maxAhead:]); n != 0 {
		t.Errorf("%d of the following pages are backed by memory", n)
	}
	for i := range uint32(last + 1) {
		if is := *(*uint32)(s.at(i)); is != i {
			t.Fatalf("item %d has changed to %d", i, is)
		}
	}
	if err := s.free(); err != nil {
		t.Error(err)
	}
}
