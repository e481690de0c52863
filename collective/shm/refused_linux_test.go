package shm

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/rank"
)

// Variants of rank processes in which the system rejects requests of this package.
const (
	noFiles  = "no-files"  // memfd_create fails from the start
	noMemory = "no-memory" // memory for windows cannot be allocated after the ranks have connected
)

// refuse makes a system call of this process fail from now on if its argument has the given
// value.
func refuse(call, argument, value uint32, errno unix.Errno) error {
	const load, same, end = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	filter := []unix.SockFilter{ // struct seccomp_data: number u32, architecture u32, address u64, arguments u64 [6]
		{Code: load, K: 0},
		{Code: same, K: call, Jf: 3},
		{Code: load, K: 16 + 8*argument},
		{Code: same, K: value, Jf: 1},
		{Code: end, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: end, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if failed != 0 {
		return failed
	}
	return nil
}

// TestMemfdFailureIsReportedByAllRanks: if a rank cannot create a memory file, no rank connects, and all
// report the rank and the reason.
func TestMemfdFailureIsReportedByAllRanks(t *testing.T) {
	key := rank.NewKey()
	p := start(t, 1, 2, key, noFiles)
	l, err := Listen(Config{Rank: 0, Size: 2, Key: key[:], Timeout: patient.Longest})
	fatal.If(t, err)
	tr, err := l.Connect(context.Background())
	if err == nil {
		tr.Close()
	}
	const why = "memfd_create: operation not permitted"
	if err == nil || !strings.Contains(err.Error(), "rank 1: "+why) {
		t.Errorf("rank 0: %v, want %q", err, "rank 1: "+why)
	}
	if out := p.rest(); !strings.Contains(out, "connect: rank 1 of 2: "+why) {
		t.Errorf("rank 1: %s", out)
	}
}

// TestWindowFallsBackToHeapMemory: if one rank cannot allocate a window, all ranks get ordinary
// memory and calls continue to work.
func TestWindowFallsBackToHeapMemory(t *testing.T) {
	key := rank.NewKey()
	p := start(t, 1, 2, key, noMemory)
	l, err := Listen(Config{Rank: 0, Size: 2, Key: key[:], Timeout: patient.Longest})
	fatal.If(t, err)
	tr, err := l.Connect(context.Background())
	fatal.If(t, err)
	defer tr.Close()
	if err := withoutWindow(collective.New(tr)); err != nil {
		t.Errorf("rank 0: %v", err)
	}
	if out := p.rest(); !p.ProcessState.Success() {
		t.Errorf("rank 1: %s", out)
	}
}

// withoutWindow requests a window for which there is no memory.
func withoutWindow(c *collective.Comm) error {
	if err := collective.AllReduce(c, make([]float32, 5000), collective.Sum); err != nil {
		return err
	}
	if c.Rank() == 1 {
		if err := refuse(unix.SYS_MADVISE, 2, unix.MADV_POPULATE_WRITE, unix.ENOMEM); err != nil {
			return err
		}
	}
	x, err := collective.Alloc[float32](c, 300_000)
	if err != nil {
		return err
	}
	if collective.InWindow(c, x) {
		return fmt.Errorf("memory of Alloc is in a window")
	}
	x[299_999] = 3
	if err := collective.AllReduce(c, x, collective.Sum); err != nil {
		return err
	}
	if x[299_999] != 6 {
		return fmt.Errorf("sum is %v", x[299_999])
	}
	return nil
}

// TestWindowsTakeHugePages: windows use huge pages if the system has free ones, and small pages
// otherwise.
func TestWindowsTakeHugePages(t *testing.T) {
	for _, n := range []int{1, hugePage - 1, hugePage + 1} {
		before := hugePagesFree(t)
		m, fd, err := create(n, n)
		fatal.If(t, err)
		var fs unix.Statfs_t
		fatal.If(t, unix.Fstatfs(fd, &fs))
		huge, want := fs.Type == unix.HUGETLBFS_MAGIC, hugePages(n)/hugePage
		if size := map[bool]int{true: hugePages(n), false: pages(n)}[huge]; m.n != size || huge && n < hugePage {
			t.Errorf("a window of %d bytes has %d; huge pages: %t", n, m.n, huge)
		}
		if n >= hugePage && !huge && min(before, hugePagesFree(t)) >= want {
			t.Errorf("a window of %d bytes uses no huge pages, although %d are free", n, before)
		}
		m.bytes()[n-1] = 7
		far, err := attach(fd, n)
		fatal.If(t, err)
		if far.n != m.n || far.bytes()[n-1] != 7 {
			t.Errorf("a window of %d bytes: %d of %d bytes are mapped, the last is %d", n, far.n, m.n, far.bytes()[n-1])
		}
		far.unmap()
		m.forget()
		if m.bytes()[n-1] != 0 {
			t.Errorf("%d bytes are still counted after they were freed", n)
		}
		m.unmap()
		unix.Close(fd)
	}
}

// hugePagesFree returns the number of huge pages that the system has free.
func hugePagesFree(t *testing.T) (n int) {
	t.Helper()
	b, err := os.ReadFile("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
	if err != nil {
		return 0
	}
	fmt.Sscan(string(b), &n)
	return n
}
