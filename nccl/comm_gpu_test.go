//go:build gpu

package nccl

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/gpu/nccltest"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

func TestOpenNamesWhatIsMissing(t *testing.T) {
	lacks, _, err := nccltest.Build(t.TempDir(), "-DLACKS_RECV")
	fatal.If(t, err)
	newer, _, err := nccltest.Build(t.TempDir(), `-DCUDA="13.0"`)
	fatal.If(t, err)
	for _, k := range []struct {
		cfg    Config
		option string
		want   []string
	}{
		{Config{Path: "/nowhere/libnccl.so.2", Cuda: where.Cuda}, "", []string{"nccl: open: ", "/nowhere/libnccl.so.2", "install NCCL for CUDA 12, or name its folder in WDLRUN_CUDA_PATH"}},
		{Config{Path: newer, Cuda: where.Cuda}, "", []string{"nccl: open: NCCL 2.19.3 (" + newer + ") needs a driver for CUDA 13, and this one supports CUDA 12.4: install NCCL for CUDA 12, or driver 580 or later"}},
		{Config{Path: where.Path, Cuda: "/nowhere/libcuda.so.1"}, "", []string{"/nowhere/libcuda.so.1"}},
		{Config{Path: where.Cuda, Cuda: where.Cuda}, "", []string{where.Cuda + " has no function ncclGetVersion"}},
		{Config{Path: lacks, Cuda: where.Cuda}, "", []string{lacks + " has no function ncclRecv"}},
		{Config{Path: lacks, Cuda: where.Cuda}, "version=21705", []string{lacks + " is NCCL 2.17.5; install 2.19.0 or later"}},
		{where, "version=21805", []string{where.Path + " is NCCL 2.18.5; install 2.19.0 or later"}},
	} {
		t.Setenv(nccltest.Env, k.option)
		_, err := Open(k.cfg)
		for _, want := range k.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %q", k, err, want)
			}
		}
	}
	t.Setenv(nccltest.Env, "version=22703")
	if l := library(t); l.Version() != 22703 || l.Path() != where.Path {
		t.Errorf("%v, %s", l.Version(), l.Path())
	}
}

// TestCollectives compares every call with what it is defined to give, for each type.
func TestCollectives(t *testing.T) {
	for _, size := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprintf("P=%d", size), func(t *testing.T) {
			comms := connected(t, size)
			streams := make([]Stream, size)
			for r := range streams {
				streams[r] = stream(t)
			}
			for _, n := range []int{0, 1, 1000, 40000} {
				collectives(t, comms, streams, n, Float32, func(x int) float32 { return float32(x) })
				collectives(t, comms, streams, n, Int64, func(x int) int64 { return int64(x) << 40 })
				collectives(t, comms, streams, n, BFloat16, func(x int) uint16 { return uint16(collective.ToBF16(float32(x))) })
				collectives(t, comms, streams, n, Uint8, func(x int) uint8 { return uint8(x) })
			}
			closeAll(t, comms)
		})
	}
	noneLeft(t)
}

// collectives makes each call with n elements of a rank, which are small whole numbers.
func collectives[T raw.Number](t *testing.T, comms []*Comm, streams []Stream, n int, typ Type, of func(int) T) {
	t.Helper()
	size := len(comms)
	value := func(rank, i int) int { return (i*7 + rank*3) % 11 }
	fill := func(rank, n int) []T {
		x := memory[T](n)
		for i := range x {
			x[i] = of(value(rank, i))
		}
		return x
	}
	all := func(op Op, i int) T {
		v := value(0, i)
		for r := 1; r < size; r++ {
			switch x := value(r, i); op {
			case Sum:
				v += x
			case Max:
				v = max(v, x)
			case Min:
				v = min(v, x)
			}
		}
		return of(v)
	}
	root := n % size
	for _, k := range []struct {
		call       Call
		send, recv int // elements
		want       func(r, i int) T
	}{
		{Call{Kind: AllReduce, Op: Sum}, n, n, func(r, i int) T { return all(Sum, i) }},
		{Call{Kind: AllReduce, Op: Max}, n, n, func(r, i int) T { return all(Max, i) }},
		{Call{Kind: AllReduce, Op: Min}, n, n, func(r, i int) T { return all(Min, i) }},
		{Call{Kind: ReduceScatter, Op: Sum}, n * size, n, func(r, i int) T { return all(Sum, r*n+i) }},
		{Call{Kind: AllGather}, n, n * size, func(r, i int) T { return of(value(i/n, i%n)) }},
		{Call{Kind: Broadcast, Peer: root}, n, n, func(r, i int) T { return of(value(root, i)) }},
	} {
		errs := make([]error, size)
		onAll(size, func(r int) {
			send, recv := fill(r, k.send), memory[T](k.recv)
			call := k.call
			call.Type, call.Count, call.Send, call.Recv = typ, n, pointer(send), pointer(recv)
			errs[r] = errors.Join(comms[r].Launch(streams[r], call), comms[r].Wait(soon(t), streams[r]))
			runtime.KeepAlive(send)
			for i, x := range recv {
				if want := k.want(r, i); x != want && errs[r] == nil {
					errs[r] = fmt.Errorf("rank %d: %v: element %d is %v, want %v", r, call, i, x, want)
				}
			}
		})
		fatal.If(t, errors.Join(errs...))
	}
}

// TestGroup exchanges with both neighbours at once, which without a group would wait
// forever, while collective calls run on another stream.
func TestGroup(t *testing.T) { exchange(t) }

// TestLaunchesInProgress has a library that launches on another thread, and answers "in progress".
// The next call waits for it.
func TestLaunchesInProgress(t *testing.T) {
	t.Setenv(nccltest.Env, "launch=later")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // goroutines share a thread
	for range 5 {
		exchange(t)
	}
}

func exchange(t *testing.T) {
	t.Helper()
	const size, n = 3, 100000
	comms := connected(t, size)
	errs := make([]error, size)
	streams := [size][2]Stream{}
	for r := range streams {
		streams[r] = [2]Stream{stream(t), stream(t)}
	}
	ctx, cancel := context.WithCancel(soon(t)) // the calls of the others do not end after one that fails
	defer cancel()
	onAll(size, func(r int) {
		own, left, right, sum := memory[float32](n), memory[float32](n), memory[float32](n), numbers(1)
		for i := range own {
			own[i] = float32(r)
		}
		next, before := (r+1)%size, (r+2)%size
		c, p := comms[r], pointer(own)
		errs[r] = errors.Join(
			c.Launch(streams[r][0],
				Call{Kind: Send, Type: Float32, Count: n, Peer: next, Send: p}, Call{Kind: Send, Type: Float32, Count: n, Peer: before, Send: p},
				Call{Kind: Recv, Type: Float32, Count: n, Peer: before, Recv: pointer(left)}, Call{Kind: Recv, Type: Float32, Count: n, Peer: next, Recv: pointer(right)}),
			c.Launch(streams[r][1], Call{Kind: AllReduce, Type: Float32, Count: 1, Send: pointer(sum), Recv: pointer(sum)}),
			c.Launch(streams[r][1]))
		if errs[r] != nil {
			cancel()
			return
		}
		errs[r] = errors.Join(c.Wait(ctx, streams[r][1]), c.Wait(ctx, streams[r][0]))
		if errs[r] == nil && (sum[0] != size || left[n-1] != float32(before) || right[0] != float32(next)) {
			errs[r] = fmt.Errorf("rank %d: sum %v, from %d: %v, from %d: %v", r, sum[0], before, left[n-1], next, right[0])
		}
		runtime.KeepAlive(own)
	})
	fatal.If(t, errors.Join(errs...))
	closeAll(t, comms)
}

// TestSplit parts five ranks in reverse order, without rank 0, and parts of those again.
func TestSplit(t *testing.T) {
	const size = 5
	comms := connected(t, size)
	errs, parts := make([]error, size), make([]*Comm, size)
	sum := func(c *Comm, s Stream, x float32) (float32, error) {
		v := numbers(x)
		err := errors.Join(c.Launch(s, Call{Kind: AllReduce, Type: Float32, Count: 1, Send: pointer(v), Recv: pointer(v)}), c.Wait(soon(t), s))
		return v[0], err
	}
	streams := make([]Stream, size)
	for r := range streams {
		streams[r] = stream(t)
	}
	onAll(size, func(r int) {
		errs[r] = func() error {
			color := r % 2
			if r == 0 {
				color = -3
			}
			part, err := comms[r].Split(soon(t), color, -r)
			if err != nil || (part == nil) != (r == 0) {
				return fmt.Errorf("Split of rank %d: %v, %v", r, part, err)
			}
			parts[r] = part
			if part != nil {
				if wantRank := (size - 1 - r) / 2; part.Size() != 2 || part.Rank() != wantRank {
					return fmt.Errorf("rank %d became %d of %d, want %d of 2", r, part.Rank(), part.Size(), wantRank)
				}
				if x, err := sum(part, streams[r], float32(r)); err != nil || x != float32(6-r%2*2) {
					return fmt.Errorf("rank %d: sum of its part is %v, %v", r, x, err)
				}
				again, err := part.Split(soon(t), part.Rank(), 0)
				if err != nil || again.Size() != 1 || again.part == part.part {
					return fmt.Errorf("rank %d: Split of the part: %v", r, err)
				}
				if err := again.Close(soon(t)); err != nil {
					return err
				}
			}
			if x, err := sum(comms[r], streams[r], 1); err != nil || x != size {
				return fmt.Errorf("rank %d: sum of all is %v, %v", r, x, err)
			}
			return nil
		}()
	})
	fatal.If(t, errors.Join(errs...))
	if parts[1].part != parts[3].part || parts[1].part == parts[2].part {
		t.Error("the calls of parts are not told apart")
	}
	closeAll(t, slices.Concat(comms, parts[1:]))
	if n := len(comms[1].owner.lib.owners); n != 0 {
		t.Errorf("the library still has %d groups", n)
	}
	noneLeft(t)
}

// TestErrorsAreThoseOfTheirCall: the text is from the call that failed, also within a
// group, and no group stays open.
func TestErrorsAreThoseOfTheirCall(t *testing.T) {
	runtime.LockOSThread() // an open group belongs to a thread
	defer runtime.UnlockOSThread()
	t.Setenv(nccltest.Env, "fail=0@2")
	for name, launch := range map[string]func(c *Comm, s Stream, k Call) error{
		"alone":      func(c *Comm, s Stream, k Call) error { return errors.Join(c.Launch(s, k), c.Launch(s, k)) },
		"in a group": func(c *Comm, s Stream, k Call) error { return c.Launch(s, k, k, k) },
	} {
		s, x := stream(t), numbers(1)
		c := connected(t, 1)[0]
		k := Call{Kind: AllReduce, Type: Float32, Count: 1, Send: pointer(x), Recv: pointer(x), Place: "here"}
		err := launch(c, s, k)
		var e *Error
		if !errors.As(err, &e) || e.Code != 4 || e.Text != "invalid argument: the stand-in rejects this call" || e.Doing != "AllReduce(sum) of 1 float32 (here)" {
			t.Errorf("%s: %v", name, err)
		}
		if later := c.Launch(s, k); later == nil || later.Error() != err.Error() {
			t.Errorf("%s: after the error: %v", name, later)
		}
		if err := c.Close(soon(t)); err == nil {
			t.Errorf("%s: closed as if nothing had been", name)
		}
		x[0] = 0 // does the thread work as before?
		c = connected(t, 1)[0]
		y := numbers(7)
		k.Send, k.Recv = pointer(y), pointer(x)
		if err := errors.Join(c.Launch(s, k), c.Wait(soon(t), s)); err != nil || x[0] != 7 {
			t.Errorf("%s: the next call of the thread: %v, %v", name, x[0], err)
		}
		closeAll(t, []*Comm{c})
	}
}

func TestWrongContext(t *testing.T) {
	id, err := library(t).NewID()
	fatal.If(t, err)
	if _, err = library(t).Connect(soon(t), id, 0, 1, 0xbad); err == nil || !strings.Contains(err.Error(), "cuCtxSetCurrent: invalid device context") {
		t.Errorf("%v", err)
	}
}

func TestWaitFindsLateErrors(t *testing.T) {
	t.Setenv(nccltest.Env, "late=0@2")
	c, s := connected(t, 1)[0], stream(t)
	x := numbers(1)
	k := Call{Kind: AllReduce, Type: Float32, Count: 1, Send: pointer(x), Recv: pointer(x)}
	fatal.If(t, errors.Join(c.Launch(s, k), c.Wait(soon(t), s)))
	k.Kind, k.Place = AllGather, "late"
	fatal.If(t, c.Launch(s, k))
	err := c.Wait(soon(t), s)
	if want := "nccl: rank 0: AllGather of 1 float32 (late), call 2: remote process exited or there was a network error: a peer is gone (error 6)"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	c.Close(soon(t))
}

// TestConnectGivesUp: initialisation that does not end returns with the reason for giving
// up, and frees what it has.
func TestConnectGivesUp(t *testing.T) {
	t.Setenv(nccltest.Env, "init=hang abort=together")
	ctx, cancel := context.WithTimeoutCause(context.Background(), 200*time.Millisecond, errors.New("the moon is full"))
	defer cancel()
	_, errs := connect(t, ctx, 2)
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "the moon is full") || !strings.Contains(err.Error(), "NCCL 2.19.3, "+where.Path) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	noneLeft(t)
}

// TestThreadsOfCalls has two ranks on one thread of Go at a time, where NCCL rejects a call before
// the last one of a thread is done, and a goroutine whose first initialisation fails, after which
// NCCL leaves a group open on the thread.
func TestThreadsOfCalls(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for range 20 {
		closeAll(t, connected(t, 3))
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		l := library(t)
		id, err := l.NewID()
		fatal.If(t, err)
		t.Setenv(nccltest.Env, "init=fail")
		if _, err := l.Connect(soon(t), id, 0, 1, device(0)); err == nil || !strings.Contains(err.Error(), "the stand-in does not initialise") {
			t.Errorf("%v", err)
		}
		t.Setenv(nccltest.Env, "")
		c, err := l.Connect(soon(t), id, 0, 1, device(0))
		if err == nil {
			err = c.Close(soon(t))
		}
		done <- err
	}()
	fatal.If(t, <-done)
	noneLeft(t)
}

// TestSplitGivesUp: a Split whose context ends stops the communicator, and the memory of the part
// outlives it.
func TestSplitGivesUp(t *testing.T) {
	t.Setenv(nccltest.Env, "abort=together")
	comms, errs := connected(t, 2), make([]error, 2)
	ctx, cancel := context.WithTimeoutCause(context.Background(), 100*time.Millisecond, errors.New("the moon is full"))
	defer cancel()
	if _, err := comms[0].Split(ctx, 0, 0); err == nil || !strings.Contains(err.Error(), "the moon is full") {
		t.Errorf("%v", err)
	}
	if err := comms[0].Launch(stream(t), Call{Kind: AllReduce, Type: Float32}); err == nil || err != comms[0].Err() {
		t.Errorf("after it: %v", err)
	}
	onAll(2, func(r int) { errs[r] = comms[r].owner.lib.Abort(errors.New("the end")) })
	fatal.If(t, errors.Join(errs...))
	noneLeft(t)
}

// TestAbort: pending calls end with the cause, later ones do not begin. An abort may have
// to wait for other ranks and other communicators: all are aborted at once.
func TestAbort(t *testing.T) {
	t.Setenv(nccltest.Env, "hang=0@1 abort=together")
	const size = 2
	comms, cause := connected(t, size), errors.New("the moon is full")
	parts, errs := make([]*Comm, size), make([]error, size)
	onAll(size, func(r int) { parts[r], errs[r] = comms[r].Split(soon(t), 0, 0) })
	fatal.If(t, errors.Join(errs...))
	streams := make([]Stream, size)
	for r := range streams {
		streams[r] = stream(t)
	}
	x := make([][]float32, size)
	onAll(2*size, func(i int) {
		r := i / 2
		if i%2 == 0 {
			x[r] = numbers(1)
			k := Call{Kind: AllReduce, Type: Float32, Count: 1, Send: pointer(x[r]), Recv: pointer(x[r])}
			errs[r] = errors.Join(comms[r].Launch(streams[r], k), comms[r].Wait(soon(t), streams[r]))
			return
		}
		time.Sleep(50 * time.Millisecond)
		if err := comms[r].owner.lib.Abort(cause); err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	})
	for r, err := range errs {
		k := Call{Kind: AllReduce, Type: Float32, Count: 1, Send: pointer(x[r]), Recv: pointer(x[r])}
		for i, err := range []error{err, comms[r].Launch(streams[r], k), parts[r].Launch(streams[r], k), parts[r].Err(), second(comms[r].Split(soon(t), 0, 0))} {
			if !errors.Is(err, cause) {
				t.Errorf("rank %d, error %d: %v", r, i, err)
			}
		}
		if err := errors.Join(comms[r].Close(soon(t)), parts[r].Close(soon(t))); err != nil {
			t.Errorf("rank %d: Close after the abort: %v", r, err)
		}
	}
	noneLeft(t)
}

func second[T any](_ T, err error) error { return err }

// TestAbortThatHangs is reported, by name, to who can end the process.
func TestAbortThatHangs(t *testing.T) {
	t.Setenv(nccltest.Env, "abort=hang")
	stuck := make(chan error, 1)
	c := connected(t, 1)[0]
	c.owner.lib.cfg.abortTime = 50 * time.Millisecond
	c.owner.lib.cfg.Stuck = func(err error) { stuck <- err }
	err := c.owner.lib.Abort(errors.New("the moon is full"))
	var e *StuckError
	if !errors.As(err, &e) || e.Left != 1 || e.Of != 1 || <-stuck != err || !strings.Contains(err.Error(), "1 of 1 communicators were not aborted within ") {
		t.Errorf("%v", err)
	}
}

// TestLaunchAllocatesNothing, alone and as a group.
func TestLaunchAllocatesNothing(t *testing.T) {
	t.Setenv(nccltest.Env, "nothing")
	c, s := connected(t, 1)[0], stream(t)
	ctx := soon(t)
	k := Call{Kind: AllReduce, Type: Float32, Place: "here"}
	for name, f := range map[string]func(){
		"a call":  func() { c.Launch(s, k) },
		"a group": func() { c.Launch(s, k, k, k, k) },
		"a wait":  func() { c.Wait(ctx, s) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	if err := c.Err(); err != nil {
		t.Error(err)
	}
}

// BenchmarkLaunch compares a call on a library that does nothing with crossing to C and
// back.
func BenchmarkLaunch(b *testing.B) {
	b.Setenv(nccltest.Env, "nothing")
	c, s := connected(b, 1)[0], stream(b)
	k := Call{Kind: AllReduce, Type: Float32, Count: 1, Place: "here"}
	b.Run("crossing", func(b *testing.B) {
		for b.Loop() {
			c.native.nothing()
		}
	})
	b.Run("call", func(b *testing.B) {
		for b.Loop() {
			fatal.If(b, c.Launch(s, k))
		}
	})
	b.Run("group of 4", func(b *testing.B) {
		for b.Loop() {
			fatal.If(b, c.Launch(s, k, k, k, k))
		}
	})
}
