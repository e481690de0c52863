package shm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// connect connects a group of this process. change modifies the configuration of each rank.
func connect(size int, change func(*Config)) ([]*Transport, []error) {
	key := make([]byte, KeySize)
	rand.Read(key)
	ts, errs := make([]*Transport, size), make([]error, size)
	var wg sync.WaitGroup
	for r := range size {
		cfg := Config{Rank: r, Size: size, Key: key, Timeout: patient.Longest}
		change(&cfg)
		wg.Go(func() {
			l, err := Listen(cfg)
			if err == nil {
				ts[r], err = l.Connect(context.Background())
			}
			errs[r] = err
		})
	}
	wg.Wait()
	return ts, errs
}

// onAll runs body on every rank and joins the errors.
func onAll(ts []*Transport, body func(c *collective.Comm) error) error {
	errs := make([]error, len(ts))
	var wg sync.WaitGroup
	for r, tr := range ts {
		wg.Go(func() { errs[r] = body(collective.New(tr)) })
	}
	wg.Wait()
	for _, tr := range ts {
		tr.Close()
	}
	return errors.Join(errs...)
}

// TestStrangersDoNotHarm: connections that do not prove the job key are closed, and the group
// forms.
func TestStrangersDoNotHarm(t *testing.T) {
	key := make([]byte, KeySize)
	rand.Read(key)
	zero := Config{Rank: 0, Size: 2, Key: key, Timeout: patient.Longest}
	l, err := Listen(zero)
	fatal.If(t, err)
	g := gathering{cfg: Config{Rank: 1, Size: 2, Key: key, Channels: defaultChannels}}
	good := g.hello(0)
	other := gathering{cfg: Config{Rank: 1, Size: 3, Key: key, Channels: defaultChannels}}
	wrong := other.hello(0)
	var strangers []net.Conn
	for _, packet := range [][]byte{[]byte("GET / HTTP/1.1\r\n\r\n"), good.b[:7], append(good.b[:], 0), wrong.b[:], good.b[:], nil} {
		conn, err := net.DialUnix("unixpacket", nil, zero.address(0))
		fatal.If(t, err)
		strangers = append(strangers, conn)
		conn.Write(packet) // the valid hello is followed by a proof with another key
		if len(packet) == helloSize {
			conn.Write(make([]byte, proofSize))
		}
	}
	two := make([]*Transport, 2)
	var wg sync.WaitGroup
	wg.Go(func() { two[0], err = l.Connect(context.Background()) })
	l1, err1 := Listen(Config{Rank: 1, Size: 2, Key: key, Timeout: patient.Longest})
	if err1 != nil {
		t.Fatal(err1)
	}
	two[1], err1 = l1.Connect(context.Background())
	wg.Wait()
	if err != nil || err1 != nil {
		t.Fatal(err, err1)
	}
	for _, conn := range strangers {
		conn.SetReadDeadline(time.Now().Add(patient.Longest))
		for err == nil {
			_, err = conn.Read(make([]byte, 256))
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the connection of a stranger was not closed")
		}
		conn.Close()
	}
	if err := onAll(two, collective.Barrier); err != nil {
		t.Error(err)
	}
}

// TestMissingPeerIsNamed: if a rank does not connect in time, the error names it.
func TestMissingPeerIsNamed(t *testing.T) {
	key := make([]byte, KeySize)
	rand.Read(key)
	l, err := Listen(Config{Rank: 1, Size: 3, Key: key, Timeout: 30 * time.Millisecond})
	fatal.If(t, err)
	if _, err := l.Connect(context.Background()); err == nil || !strings.Contains(err.Error(), "no link with rank 0 and 1 more within 30ms") {
		t.Error(err)
	}
}

// TestNoMemoryForThePageIsSaid: if the memory limit does not allow the page of a rank,
// connecting fails with the reason.
func TestNoMemoryForThePageIsSaid(t *testing.T) {
	_, errs := connect(3, func(c *Config) {
		if c.Rank == 1 {
			c.MaxBytes = 1000
		}
	})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "more than the limit of 1000") && !strings.Contains(err.Error(), "rank 1 was lost") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestShortMemoryIsOrdinaryMemory limits the memory of one rank to its page, or to its page and
// staging windows. Calls work on every rank all the same.
func TestShortMemoryIsOrdinaryMemory(t *testing.T) {
	page := int64(pages(pageBytes(3, 2)))
	for _, limit := range []int64{page, page + 512<<10} {
		ts, errs := connect(3, func(c *Config) {
			if c.Rank == 1 {
				c.MaxBytes = limit
			}
		})
		fatal.If(t, errors.Join(errs...))
		if err := onAll(ts, func(c *collective.Comm) error {
			x, err := collective.Alloc[float32](c, 100_000)
			if err != nil {
				return err
			}
			if collective.InWindow(c, x) {
				return errors.New("memory past the limit is in a window")
			}
			x[0], x[99_999] = 1, 2
			if err := collective.AllReduce(c, x, collective.Sum); err != nil {
				return err
			}
			if x[0] != 3 || x[99_999] != 6 {
				return fmt.Errorf("sums are %v and %v", x[0], x[99_999])
			}
			return nil
		}); err != nil {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

// TestAnImpossibleWindowIsAnError requests too much memory from the system.
func TestAnImpossibleWindowIsAnError(t *testing.T) {
	if m, fd, err := create(1<<62, 1<<62); err == nil {
		m.unmap()
		t.Errorf("a window of 4 EiB was created, as file %d", fd)
	}
}

// TestSteadyStateAllocatesNothing: after the first calls, a call allocates no memory.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	const size, runs = 2, 100
	ts, errs := connect(size, func(*Config) {})
	fatal.If(t, errors.Join(errs...))
	if err := onAll(ts, func(c *collective.Comm) error {
		x, err := collective.Alloc[float32](c, 50_000)
		if err != nil {
			return err
		}
		plain, keys, got := make([]float32, 200_000), make([]int64, 20*size), make([]int64, 20*size)
		counts := []int{20, 20}
		step := func() {
			_, _, e := collective.ReduceScatter(c, plain, collective.Min)
			err = errors.Join(err, e, collective.AllReduce(c, x, collective.Sum), collective.AllReduce(c, plain, collective.Sum),
				collective.AllReduce(c, x[:9], collective.Max), collective.AllGather(c, x), collective.Broadcast(c, x, 1),
				collective.AllToAllV(c, keys, counts, got, counts), collective.Barrier(c))
		}
		if c.Rank() != 0 {
			for range runs + 1 {
				step()
			}
			return err
		}
		if n := testing.AllocsPerRun(runs, step); n >= 1 {
			t.Errorf("%v allocations in 8 calls, want none", n)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestSlicesOutliveTheTransport: slices of Alloc remain usable after Close.
func TestSlicesOutliveTheTransport(t *testing.T) {
	ts, errs := connect(2, func(*Config) {})
	fatal.If(t, errors.Join(errs...))
	xs := make([][]float32, 2)
	fatal.If(t, onAll(ts, func(c *collective.Comm) (err error) {
		xs[c.Rank()], err = collective.Alloc[float32](c, 3000)
		xs[c.Rank()][2999] = 5
		return err
	}))
	for _, x := range xs {
		if x[2999] != 0 {
			t.Errorf("after Close the memory contains %v, want zeros", x[2999])
		}
		x[0] = 1 // writing is allowed too
	}
}

// TestNothingIsLeftInTheProcess counts the files and windows of this process before and after
// groups in which a rank leaves or aborts.
func TestNothingIsLeftInTheProcess(t *testing.T) {
	count := func() (files, windows int) {
		list, err := os.ReadDir("/proc/self/fd")
		maps, err1 := os.ReadFile("/proc/self/maps")
		if err := errors.Join(err, err1); err != nil {
			t.Skip(err)
		}
		return len(list), strings.Count(string(maps), "memfd:wdlrun")
	}
	closing := func(tr *Transport) { tr.Close() }
	aborting := func(tr *Transport) { tr.Abort(errors.New("enough")) }
	ts, _ := connect(2, func(*Config) {}) // opens the files of the runtime
	onAll(ts, collective.Barrier)
	files, windows := count()
	for _, end := range []func(tr *Transport){closing, aborting} {
		ts, errs := connect(3, func(*Config) {})
		fatal.If(t, errors.Join(errs...))
		err := onAll(ts, func(c *collective.Comm) error {
			x, err := collective.Alloc[float32](c, 1<<20)
			if err == nil {
				err = collective.AllReduce(c, x, collective.Sum)
			}
			if c.Rank() == 1 {
				end(ts[1])
			}
			return errors.Join(err, collective.Barrier(c))
		})
		if err == nil {
			t.Error("a barrier succeeded without rank 1")
		}
	}
	late := time.Now().Add(patient.Longest)
	for f, w := count(); f > files || w > 0 || windows != 0; f, w = count() {
		if time.Now().After(late) {
			t.Fatalf("%d files and %d windows, %d and %d before", f, w, files, windows)
		}
		time.Sleep(time.Millisecond)
	}
}
