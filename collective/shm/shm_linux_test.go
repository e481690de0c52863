package shm

import (
	"context"
	"errors"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/colltest"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/rank"
)

// newGroup connects size ranks of this process.
func newGroup(t *testing.T, size int) []collective.Transport {
	t.Helper()
	key := rank.NewKey()
	ts, errs := make([]collective.Transport, size), make([]error, size)
	var wg sync.WaitGroup
	for i := range size {
		wg.Go(func() {
			l, err := Listen(Config{Rank: i, Size: size, Key: key[:], Timeout: patient.Longest})
			if err != nil {
				errs[i] = err
				return
			}
			tr, err := l.Connect(context.Background())
			ts[i], errs[i] = tr, err
		})
	}
	wg.Wait()
	for _, err := range errs {
		fatal.If(t, err)
	}
	return ts
}

// TestConformance: runs the conformance suite with two and three ranks.
func TestConformance(t *testing.T) { colltest.Run(t, newGroup, 2, 3) }

// TestConformanceOfOtherSizes runs the suite with the sizes that TestConformance omits.
func TestConformanceOfOtherSizes(t *testing.T) {
	patient.Long(t)
	colltest.Run(t, newGroup, 1, 4, 5, 8)
}

// TestMemoryIsCounted compares the reported size of windows with the size that the system
// reports for their files.
func TestMemoryIsCounted(t *testing.T) {
	m, fd, err := create(2*hugePage, 2*hugePage)
	fatal.If(t, err)
	defer m.unmap()
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	unix.Close(fd)
	if err != nil || m.huge != (st.Blksize == hugePage) {
		t.Errorf("huge pages: %v; the system reports pages of %d bytes, %v", m.huge, st.Blksize, err)
	}
	tr, _ := lonely()
	tr.peers, tr.maxBytes = nil, 1<<30
	defer tr.release()
	before, _ := tr.Memory()
	if _, err := tr.offer(windowID{}, 2*hugePage, 2*hugePage); err != nil {
		t.Fatal(err)
	}
	if bytes, huge := tr.Memory(); bytes-before != 2*hugePage || huge != 0 && huge != 2*hugePage {
		t.Errorf("%d more bytes, %d of them in huge pages, for a window of %d", bytes-before, huge, 2*hugePage)
	}
}

// TestRingsAreAllocatedByUse counts the pages of a rank's rings before and after a message.
func TestRingsAreAllocatedByUse(t *testing.T) {
	ts, errs := connect(8, func(*Config) {})
	fatal.If(t, errors.Join(errs...))
	allocated := func() (n int) {
		rings := ts[0].page.bytes()[pages(ts[0].channels*deskSize):]
		present := make([]byte, len(rings)/pages(1))
		if _, _, err := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&rings[0])), uintptr(len(rings)), uintptr(unsafe.Pointer(&present[0]))); err != 0 {
			t.Fatal(err)
		}
		for _, p := range present {
			n += int(p & 1)
		}
		return n
	}
	before, after, ring := allocated(), 0, pages(ringSize)/pages(1)
	err := onAll(ts, func(c *collective.Comm) error {
		tag, to, from := collective.Tag{Seq: 1}, -1, -1
		if c.Rank() == 0 {
			to = 5
		} else if c.Rank() == 5 {
			from = 0
		}
		if err := ts[c.Rank()].Exchange(tag, to, make([]byte, 100), from, make([]byte, 100)); err != nil {
			return err
		}
		err := collective.Barrier(c)
		if c.Rank() == 0 {
			after = allocated()
		}
		return err
	})
	if err != nil || before != 0 || after < ring || after > ring+1 {
		t.Errorf("%d pages of rings are allocated before a message and %d after, want 0 and %d or one more; %v", before, after, ring, err)
	}
}
