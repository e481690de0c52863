//go:build gpu

package cuda_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/cudatest"
	"github.com/wdlrun/wdlrun/internal/gpu/kernel"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

var standin cudatest.Files

// again is how a test starts its binary once more: in a process that has not opened the
// libraries, or that ends.
func again(t *testing.T, environment ...string) ([]byte, error) {
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	command.Env = append(append(os.Environ(), "CUDATEST_FOLDER="+standin.Folder), environment...)
	return command.CombinedOutput()
}

func TestMain(m *testing.M) {
	if folder := os.Getenv("CUDATEST_FOLDER"); folder != "" {
		standin = cudatest.FilesIn(folder)
		os.Exit(m.Run())
	}
	os.Exit(cudatest.Main(kernel.PTX, func(f cudatest.Files) int {
		standin = f
		return m.Run()
	}))
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func library(t testing.TB) *cuda.Library {
	t.Helper()
	return must(cuda.Open(cuda.Files{CUDA: standin.CUDA, CUBLAS: standin.CUBLAS}))
}

// open returns a device and a stream, which the test closes at its end.
func open(t testing.TB) (*cuda.Device, *cuda.Stream) {
	t.Helper()
	d := must(library(t).Device(0))
	s := must(d.Stream())
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return d, s
}

// room returns a pool and pinned memory of n floats.
func room(t testing.TB, d *cuda.Device, n int) (*cuda.Pool, *cuda.Pinned) {
	t.Helper()
	p, h := must(d.Pool(n)), must(d.Pin(n))
	t.Cleanup(func() {
		if err := errors.Join(p.Close(), h.Close()); err != nil {
			t.Error(err)
		}
	})
	return p, h
}

func TestLibrariesThatAreMissing(t *testing.T) {
	if os.Getenv("CUDATEST_MISSING") == "" {
		if out, err := again(t, "CUDATEST_MISSING=1"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	newer := t.TempDir() // with a cuBLAS that the stand-in driver cannot run
	fatal.If(t, standin.BuildCUBLAS(newer, 13))
	blas13 := filepath.Join(newer, "libcublas.so.13")
	for _, x := range []struct {
		f       cuda.Files
		version string
		want    string
	}{
		{cuda.Files{CUDA: "/none/libcuda.so.1"}, "", "cuda: open: /none/libcuda.so.1: cannot open shared object file: No such file or directory: install the NVIDIA driver, or add its folder to LD_LIBRARY_PATH"},
		{cuda.Files{CUDA: "libm.so.6"}, "", "/libm.so.6 reports no version: it is not the NVIDIA driver"},
		{cuda.Files{CUDA: standin.CUDA, CUBLAS: "libm.so.6"}, "", "is no cuBLAS 12 or 13"},
		{cuda.Files{CUDA: standin.CUDA, CUBLAS: standin.CUBLAS}, "10020", "cuda: open: the driver supports CUDA 10.2, at least 12.0 is needed: install driver 525 or later"},
		{cuda.Files{CUDA: standin.CUDA, Folders: []string{newer}}, "", "cuda: open: cuBLAS 13.1.3 (" + blas13 + ") needs a driver for CUDA 13, and this one supports CUDA 12.4: install cuBLAS 12, or driver 580 or later"},
	} {
		t.Setenv("STANDIN_VERSION", x.version)
		if _, err := cuda.Open(x.f); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v, want %s", x.f, err, x.want)
		}
	}
	f := cuda.Files{CUDA: standin.CUDA, Folders: []string{newer, standin.Folder}}
	t.Setenv("STANDIN_VERSION", "")
	t.Setenv("STANDIN_CAPABILITY", "70")
	l, err := cuda.Open(f)
	if err != nil || l.CUBLAS.Path != standin.CUBLAS {
		t.Fatalf("%+v, %v", l, err)
	}
	want := "cuda: device 0 (Stand-in 0) has compute capability 7.0, and the kernels need 7.5 (Turing) or later: leave it out of CUDA_VISIBLE_DEVICES"
	if _, err := l.Device(0); err == nil || err.Error() != want {
		t.Error(err)
	}
	t.Setenv("STANDIN_CAPABILITY", "")
	t.Setenv("STANDIN_VERSION", "11080") // the driver was replaced: cuBLAS finds out
	want = "cuda: device 0: the library was not initialized (1) (cuBLAS 12.1.3 (" + standin.CUBLAS + "), CUDA 12.4)"
	if _, err := l.Device(0); err == nil || err.Error() != want {
		t.Error(err)
	}
}

func TestDeviceMemoryIsNotTheHosts(t *testing.T) {
	d, s := open(t)
	p, h := room(t, d, 100)
	b, x := p.Cut(100), h.Cut(100)
	if os.Getenv("CUDATEST_TOUCH") != "" {
		cudatest.Touch(uint64(b.At))
		return
	}
	if out, err := again(t, "CUDATEST_TOUCH=1"); err == nil || !strings.Contains(string(out), "SIGSEGV") {
		t.Errorf("the host reads the device's memory: %v\n%s", err, out)
	}
	clear(x)
	fatal.If(t, errors.Join(s.CopyOut(x, b), s.Wait()))
	for i, v := range x {
		if math.Float32bits(v) != 0xa5a5a5a5 {
			t.Fatalf("float %d starts as %x", i, math.Float32bits(v))
		}
	}
	if err := s.CopyIn(b, make([]float32, 100)); err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_INVALID_VALUE (1)") {
		t.Errorf("memory that is not pinned: %v", err)
	}
}

// TestCallsSetTheContext makes each call on a thread that has made none.
func TestCallsSetTheContext(t *testing.T) {
	d, s := open(t)
	p, h := room(t, d, 256)
	a, x := p.Cut(64), h.Cut(64)
	var m *cuda.Module
	var k cuda.Kernel
	var e *cuda.Event
	var own *cuda.Stream
	args := [4]uint64{uint64(a.At), uint64(a.At), 0}
	for _, call := range []struct {
		name string
		make func() error
	}{
		{"Memory", func() (err error) { _, _, err = d.Memory(); return err }},
		{"Pool", func() error { p, err := d.Pool(1); return errors.Join(err, p.Close()) }},
		{"Pin", func() error { p, err := d.Pin(1); return errors.Join(err, p.Close()) }},
		{"Module", func() (err error) { m, err = d.Module(kernel.PTX); return err }},
		{"Kernel", func() (err error) { k, err = m.Kernel("add"); return err }},
		{"Stream", func() (err error) { own, err = d.Stream(); return err }},
		{"Event", func() (err error) { e, err = d.Event(); return err }},
		{"Record", func() error { return e.Record(s) }},
		{"After", func() error { return own.After(e) }},
		{"Event.Wait", func() error { return e.Wait() }},
		{"CopyIn", func() error { return s.CopyIn(a, x) }},
		{"CopyOut", func() error { return s.CopyOut(x, a) }},
		{"Launch", func() error { return s.Launch(k, 1, pointer(&args)) }},
		{"Multiply", func() error { return s.Multiply(a, cuda.Factor{Of: a}, cuda.Factor{Of: a}, 1, 1, 1, false) }},
		{"Wait", func() error { return s.Wait() }},
		{"Event.Close", func() error { return e.Close() }},
		{"Stream.Close", func() error { return own.Close() }},
		{"Module.Close", func() error { return m.Close() }},
	} {
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			done <- call.make()
		}()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", call.name, err)
		}
	}
}

// closed closes what was opened.
func closed(x interface{ Close() error }, err error) error {
	if err != nil {
		return err
	}
	return x.Close()
}

func TestErrorsNameTheCall(t *testing.T) {
	d, s := open(t)
	p, h := room(t, d, 64)
	a, x := p.Cut(64), h.Cut(64)
	m := must(d.Module(kernel.PTX))
	k := must(m.Kernel("add"))
	e := must(d.Event())
	one := cuda.Factor{Of: a}
	args := [4]uint64{uint64(a.At), uint64(a.At), 0}
	for _, call := range []struct {
		name, after string
		make        func() error
	}{
		{"cuMemGetInfo", "", func() (err error) { _, _, err = d.Memory(); return err }},
		{"cuMemAlloc", "", func() error { p, err := d.Pool(1); return closed(p, err) }},
		{"cuMemHostAlloc", ": 256 bytes of pinned host memory", func() error { p, err := d.Pin(1); return closed(p, err) }},
		{"cuModuleLoadDataEx", "", func() error { p, err := d.Module(kernel.PTX); return closed(p, err) }},
		{"cuModuleGetFunction", ": kernel add", func() (err error) { _, err = m.Kernel("add"); return err }},
		{"cuStreamCreate", "", func() error { p, err := d.Stream(); return closed(p, err) }},
		{"cuEventCreate", "", func() error { p, err := d.Event(); return closed(p, err) }},
		{"cuEventRecord", "", func() error { return e.Record(s) }},
		{"cuStreamWaitEvent", "", func() error { return s.After(e) }},
		{"cuEventSynchronize", "", func() error { return e.Wait() }},
		{"cuMemcpyHtoDAsync", "", func() error { return s.CopyIn(a, x) }},
		{"cuMemcpyDtoHAsync", "", func() error { return s.CopyOut(x, a) }},
		{"cuLaunchKernel", "", func() error { return s.Launch(k, 1, pointer(&args)) }},
		{"cuStreamSynchronize", "", func() error { return s.Wait() }},
	} {
		standin.Fault(call.name, 0, 700)
		err := call.make()
		if err == nil || err.Error() != "cuda: "+call.name+": CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered"+call.after {
			t.Errorf("%s: %v", call.name, err)
		}
		if err := call.make(); err != nil {
			t.Errorf("%s, once more: %v", call.name, err)
		}
	}
	standin.Fault("cublasGemmEx", 0, 1)
	want := "cuda: cublasGemmEx: the function failed to launch on the GPU (13)"
	if err := s.Multiply(a, one, one, 1, 1, 1, false); err == nil || err.Error() != want {
		t.Error(err)
	}
	if _, err := d.Module("PTX"); err == nil || !strings.Contains(err.Error(), "stand-in: status 200 after 0 entries") {
		t.Errorf("no PTX: %v", err)
	}
	if _, err := library(t).Device(1); err == nil || err.Error() != "cuda: device 1: there are 1 devices" {
		t.Error(err)
	}
	if err := errors.Join(m.Close(), e.Close()); err != nil {
		t.Error(err)
	}
}

// TestFaultsOfKernels: a kernel that fails is reported by a later call, and by every one
// after it. It runs in a process of its own.
func TestFaultsOfKernels(t *testing.T) {
	if os.Getenv("CUDATEST_LOST") == "" {
		if out, err := again(t, "CUDATEST_LOST=1", "STANDIN_FAULT=~cuLaunchKernel 1 719"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	d := must(library(t).Device(0))
	s, p := must(d.Stream()), must(d.Pool(64))
	k := must(must(d.Module(kernel.PTX)).Kernel("add"))
	a := p.Cut(64)
	args := [4]uint64{uint64(a.At), uint64(a.At), 64}
	for i := range 2 {
		if err := s.Launch(k, 64, pointer(&args)); err != nil {
			t.Fatalf("launch %d: %v", i, err)
		}
	}
	for range 2 {
		if err := s.Wait(); err == nil || !strings.HasPrefix(err.Error(), "cuda: cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED (719)") {
			t.Error(err)
		}
	}
	one := cuda.Factor{Of: a}
	if err := s.Multiply(a, one, one, 1, 1, 1, false); err == nil || !strings.HasPrefix(err.Error(), "cuda: cublasGemmEx: CUDA_ERROR_LAUNCH_FAILED (719)") {
		t.Errorf("cuBLAS after the fault: %v", err)
	}
	if _, err := d.Pool(1); err == nil {
		t.Error("the device still allocates")
	}
}

func TestOutOfMemory(t *testing.T) {
	t.Setenv("STANDIN_MEMORY", "1000000")
	d, _ := open(t)
	p := must(d.Pool(100_000))
	_, err := d.Pool(200_000)
	if e, ok := cuda.IsMemory(err); !ok || e.Requested != 800_000 || e.Free != 1000_000-4*100_032 || e.Total != 1000_000 {
		t.Errorf("%v: %+v", err, e)
	}
	want := "cuda: out of memory: 800000 bytes were requested, 599872 of 1000000 are free"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	p, err = d.Pool(200_000)
	if err != nil {
		t.Fatalf("memory is not free again: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestMultiply compares products of all forms with the definition.
func TestMultiply(t *testing.T) {
	d, s := open(t)
	const m, k, n = 5, 7, 3
	p, h := room(t, d, 3*64)
	at := [3]cuda.Buffer{p.Cut(m * k), p.Cut(k * n), p.Cut(m * n)}
	x := [3][]float32{h.Cut(m * k), h.Cut(k * n), h.Cut(m * n)}
	random := rand.New(rand.NewPCG(1, 2))
	for form := range 8 {
		ta, tb, add := form&1 != 0, form&2 != 0, form&4 != 0
		for i := range x {
			for j := range x[i] {
				x[i][j] = float32(random.IntN(19) - 9)
			}
		}
		var want [m * n]float32
		for i := range m * n {
			if add {
				want[i] = x[2][i]
			}
			for l := range k {
				a, b := x[0][i/n*k+l], x[1][l*n+i%n]
				if ta {
					a = x[0][l*m+i/n]
				}
				if tb {
					b = x[1][i%n*k+l]
				}
				want[i] += a * b
			}
		}
		if !add {
			x[2][0] = float32(math.NaN()) // is not read
		}
		for i := range x {
			fatal.If(t, s.CopyIn(at[i], x[i]))
		}
		fatal.If(t, errors.Join(s.Multiply(at[2], cuda.Factor{Of: at[0], Transposed: ta}, cuda.Factor{Of: at[1], Transposed: tb}, m, k, n, add),
			s.CopyOut(x[2], at[2]), s.Wait()))
		if got := [m * n]float32(x[2]); got != want {
			t.Errorf("transposed %v and %v, added %v: %v, want %v", ta, tb, add, got, want)
		}
	}
}

// TestOperandsAreRounded multiplies 1 + 2⁻ⁿ by 1. The stand-in rounds operands as cuBLAS may.
func TestOperandsAreRounded(t *testing.T) {
	d, s := open(t)
	p, h := room(t, d, 64)
	at, x := p.Cut(3), h.Cut(3)
	for _, k := range []struct {
		operands cuda.Operands
		n        int
		kept     bool
	}{{cuda.FP32, 23, true}, {cuda.TF32, 10, true}, {cuda.TF32, 11, false}, {cuda.BF16, 7, true}, {cuda.BF16, 8, false}} {
		v := float32(1 + math.Ldexp(1, -k.n))
		for _, turned := range []bool{false, true} {
			d.Operands = k.operands
			x[0], x[1] = v, 1
			if turned {
				x[0], x[1] = 1, v
			}
			fatal.If(t, errors.Join(s.CopyIn(at, x),
				s.Multiply(at.Part(2, 3), cuda.Factor{Of: at.Part(0, 1)}, cuda.Factor{Of: at.Part(1, 2)}, 1, 1, 1, false), s.CopyOut(x, at), s.Wait()))
			if kept := x[2] == v; kept != k.kept {
				t.Errorf("operands %d: %v becomes %v", k.operands, v, x[2])
			}
		}
	}
	old := &cuda.Device{Major: 7, Minor: 5}
	if err := errors.Join(old.Multiplies(cuda.FP32), d.Multiplies(cuda.FP32)); err != nil {
		t.Error(err)
	}
	if err := old.Multiplies(cuda.TF32); err == nil || !strings.Contains(err.Error(), "compute capability 7.5") {
		t.Error(err)
	}
}

// TestEventsOrderStreams: a stream reads what another one has written.
func TestEventsOrderStreams(t *testing.T) {
	d, first := open(t)
	second, e := must(d.Stream()), must(d.Event())
	const n = 1 << 20
	p, h := room(t, d, 2*n)
	b, in, out := p.Cut(n), h.Cut(n), h.Cut(n)
	for i := range in {
		in[i] = float32(i)
	}
	clear(out)
	fatal.If(t, errors.Join(first.CopyIn(b, in), e.Record(first), second.After(e), second.CopyOut(out, b), second.Wait()))
	for i, v := range out {
		if v != float32(i) {
			t.Fatalf("float %d is %v", i, v)
		}
	}
	if err := errors.Join(second.Close(), e.Close()); err != nil {
		t.Error(err)
	}
}

// TestLazyStreams: work starts when something waits for it. Until then, the memory that it copies is not
// freed, and a kernel fails that finds its memory freed or is given an odd address.
func TestLazyStreams(t *testing.T) {
	if os.Getenv("STANDIN_LAZY") == "" {
		if out, err := again(t, "STANDIN_LAZY=1"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	d := must(library(t).Device(0))
	first, second, e := must(d.Stream()), must(d.Stream()), must(d.Event())
	pool, host := must(d.Pool(64)), must(d.Pin(128))
	b, in, out := pool.Cut(64), host.Cut(64), host.Cut(64)
	clear(out)
	fatal.If(t, errors.Join(first.CopyIn(b, in), e.Record(first)))
	for _, x := range []interface{ Close() error }{pool, host} {
		if err := x.Close(); err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_ILLEGAL_ADDRESS (700)") {
			t.Errorf("memory of a copy is freed: %v", err)
		}
	}
	in[5] = 5 // the copy has not begun
	fatal.If(t, errors.Join(second.After(e), second.CopyOut(out, b), second.Wait()))
	if out[5] != 5 {
		t.Errorf("%v: the copy did not wait", out[5])
	}
	k := must(must(d.Module(kernel.PTX)).Kernel("add"))
	for _, x := range []struct {
		at    uint64
		freed bool
		want  string
	}{{uint64(b.At) + 2, false, "CUDA_ERROR_MISALIGNED_ADDRESS (716)"}, {uint64(b.At), true, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"}} {
		args := [4]uint64{x.at, x.at, 8}
		fatal.If(t, first.Launch(k, 8, pointer(&args)))
		if x.freed {
			fatal.If(t, pool.Close())
		}
		if err := first.Wait(); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, want %s", err, x.want)
		}
		standin.Break(-1) // ends the fault
	}
}

func TestCallsAllocateNothing(t *testing.T) {
	d, s := open(t)
	p, h := room(t, d, 64)
	m := must(d.Module(kernel.PTX))
	k := must(m.Kernel("add"))
	b, x := p.Cut(64), h.Cut(64)
	one := cuda.Factor{Of: b}
	if n := testing.AllocsPerRun(100, func() {
		args := [4]uint64{uint64(b.At), uint64(b.At), 64}
		err := errors.Join(s.CopyIn(b, x), s.Launch(k, 64, pointer(&args)), s.Multiply(b, one, one, 1, 1, 1, true), s.CopyOut(x, b), s.Wait())
		fatal.If(t, err)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// BenchmarkCalls compares calls on a driver that does nothing with the crossing from Go to C
// and back.
func BenchmarkCalls(b *testing.B) {
	d, s := open(b)
	p, h := room(b, d, 64)
	m := must(d.Module(kernel.PTX))
	b.Cleanup(func() {
		if err := m.Close(); err != nil {
			b.Error(err)
		}
	})
	k, e := must(m.Kernel("add")), must(d.Event())
	on, x := p.Cut(64), h.Cut(64)
	args := [4]uint64{uint64(on.At), uint64(on.At), 64}
	standin.Nothing(true)
	defer standin.Nothing(false)
	for _, c := range []struct {
		name string
		call func() error
	}{
		{"crossing", d.Nothing},
		{"Launch", func() error { return s.Launch(k, 64, pointer(&args)) }},
		{"CopyIn", func() error { return s.CopyIn(on, x) }},
		{"Record", func() error { return e.Record(s) }},
		{"Wait", s.Wait},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fatal.If(b, c.call())
			}
		})
	}
}
