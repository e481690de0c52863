//go:build gpu

package nccl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/wdlrun/wdlrun/internal/gpu/nccltest"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// where the stand-ins are.
var where Config

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv(childVariable) != "" {
		return child()
	}
	dir, err := os.MkdirTemp("", "nccl-standin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if where.Path, where.Cuda, err = nccltest.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return patient.Settled(m).Run()
}

// library opens the stand-in, as each rank does.
func library(t testing.TB) *Library {
	t.Helper()
	l, err := Open(where)
	fatal.If(t, err)
	return l
}

// stream makes a stream for a test.
func stream(t testing.TB) Stream {
	t.Helper()
	s, destroy, err := nccltest.NewStream(where.Cuda)
	fatal.If(t, err)
	t.Cleanup(func() {
		if !t.Failed() { // otherwise its work may never end
			destroy()
		}
	})
	return Stream(s)
}

// device is a context of a rank's own.
func device(rank int) Context { return Context(0xc0de00 + rank) }

// pointer is the address of x, which the stand-in reads as a device address. The
// caller keeps x alive.
func pointer[T raw.Number](x []T) Pointer { return Pointer(unsafe.Pointer(unsafe.SliceData(x))) }

// memory returns zeros that do not move, as they could on a stack.
//
//go:noinline
func memory[T raw.Number](n int) []T { return make([]T, n) }

// numbers is memory with the given contents.
func numbers(x ...float32) []float32 { return append(memory[float32](len(x))[:0], x...) }

// soon bounds a test that could wait forever.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("the test waits too long"))
	t.Cleanup(cancel)
	return ctx
}

// connected makes communicators of size ranks, each with a library of its own.
func connected(t testing.TB, size int) []*Comm {
	t.Helper()
	comms, errs := connect(t, soon(t), size)
	fatal.If(t, errors.Join(errs...))
	return comms
}

func connect(t testing.TB, ctx context.Context, size int) ([]*Comm, []error) {
	id, err := library(t).NewID()
	fatal.If(t, err)
	comms, errs := make([]*Comm, size), make([]error, size)
	libs := make([]*Library, size)
	for r := range size {
		libs[r] = library(t)
	}
	onAll(size, func(r int) { comms[r], errs[r] = libs[r].Connect(ctx, id, r, size, device(r)) })
	return comms, errs
}

// onAll runs f as each rank at once.
func onAll(size int, f func(r int)) {
	var all sync.WaitGroup
	for r := range size {
		all.Go(func() { f(r) })
	}
	all.Wait()
}

// closeAll closes communicators in good order.
func closeAll(t testing.TB, comms []*Comm) {
	t.Helper()
	errs := make([]error, len(comms))
	onAll(len(comms), func(r int) { errs[r] = errors.Join(comms[r].Close(soon(t)), comms[r].Close(soon(t))) })
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// noneLeft checks that the stand-in has removed the files that ranks share.
func noneLeft(t *testing.T) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(where.Path), "shared-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
