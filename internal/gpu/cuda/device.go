//go:build gpu

package cuda

// #include <stdlib.h>
// #include "cuda.h"
//
// #cgo noescape cuda_launch
// #cgo nocallback cuda_launch
// #cgo nocallback cuda_nothing
// #cgo nocallback cuda_copy_in
// #cgo nocallback cuda_copy_out
// #cgo nocallback cuda_multiply
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"unsafe"
)

// Device is one device, with the process's context on it.
type Device struct {
	Name         string
	Ordinal      int // among those that the process may use
	Major, Minor int // compute capability
	Operands     Operands
	sms          int // multiprocessors
	context      C.context
	blas         C.blas
	in, out      atomic.Int64 // bytes copied
}

// Device opens a device by its number, from 0 to Devices−1. Close releases it.
func (l *Library) Device(ordinal int) (*Device, error) {
	if ordinal < 0 || ordinal >= l.Devices {
		return nil, fmt.Errorf("cuda: device %d: there are %d devices", ordinal, l.Devices)
	}
	var name [128]C.char
	var sms, major, minor C.int
	d := &Device{Ordinal: ordinal}
	if err := status(fmt.Sprintf("device %d", ordinal), C.cuda_describe(C.int(ordinal), &name[0], C.int(len(name)), &sms, &major, &minor)); err != nil {
		return nil, err
	}
	d.Name, d.sms, d.Major, d.Minor = C.GoString(&name[0]), int(sms), int(major), int(minor)
	if d.Major < minMajor || d.Major == minMajor && d.Minor < minMinor {
		return nil, fmt.Errorf("cuda: %v has compute capability %d.%d, and the kernels need %d.%d (Turing) or later: leave it out of CUDA_VISIBLE_DEVICES", d, d.Major, d.Minor, minMajor, minMinor)
	}
	if err := status(fmt.Sprintf("device %d", ordinal), C.cuda_device(C.int(ordinal), &d.context, &d.blas)); err != nil {
		return nil, fmt.Errorf("%w (%v, %s)", err, l.CUBLAS, l.Driver.Version)
	}
	return d, nil
}

// minMajor and minMinor are the least compute capability, for which the PTX of the kernels is made.
const minMajor, minMinor = 7, 5

func (d *Device) String() string { return fmt.Sprintf("device %d (%s)", d.Ordinal, d.Name) }

// Identity has identifiers that are unique among all machines. They differ for an instance of a GPU
// (MIG): NVML and NCCL know the GPU.
type Identity struct{ Device, GPU [16]byte }

// Identity returns the identity of a device, which need not be open.
func (l *Library) Identity(ordinal int) (id Identity, err error) {
	at := func(b *[16]byte) *C.char { return (*C.char)(unsafe.Pointer(b)) }
	err = status("cuDeviceGetUuid", C.cuda_uuid(C.int(ordinal), at(&id.Device), at(&id.GPU)))
	return id, err
}

// Context returns the CUcontext, for other libraries.
func (d *Device) Context() uintptr { return uintptr(d.context) }

func (d *Device) nothing() error { return status("nothing", C.cuda_nothing(d.context)) }

// Close releases the context. Everything that was made on the device must be closed.
func (d *Device) Close() error {
	return status("cuDevicePrimaryCtxRelease", C.cuda_device_close(C.int(d.Ordinal), d.context, d.blas))
}

// Memory returns the free bytes of the device and all of them.
func (d *Device) Memory() (free, total int64, err error) {
	var available, all C.size_t
	err = status("cuMemGetInfo", C.cuda_memory(d.context, &available, &all))
	return int64(available), int64(all), err
}

// Module is compiled kernels.
type Module struct {
	device *Device
	module unsafe.Pointer
}

// Kernel is one function of a module.
type Kernel struct {
	device   *Device
	function C.function
}

// Module compiles PTX for the device.
func (d *Device) Module(ptx string) (*Module, error) {
	text := C.CString(ptx)
	defer C.free(unsafe.Pointer(text))
	m := &Module{device: d}
	var log [4096]C.char
	code := C.cuda_module(d.context, &m.module, text, &log[0], C.int(len(log)))
	if err := status("cuModuleLoadDataEx", code); err != nil {
		if text := strings.TrimSpace(C.GoString(&log[0])); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return nil, err
	}
	return m, nil
}

// Close frees the code. No kernel of it may run.
func (m *Module) Close() error {
	return status("cuModuleUnload", C.cuda_module_close(m.device.context, m.module))
}

// Kernel finds a function by its name.
func (m *Module) Kernel(name string) (k Kernel, err error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	k.device = m.device
	if err := status("cuModuleGetFunction", C.cuda_function(m.device.context, &k.function, m.module, text)); err != nil {
		return Kernel{}, fmt.Errorf("%w: kernel %s", err, name)
	}
	return k, nil
}

// Copied returns the number of bytes that streams of the device have copied to it and from it.
func (d *Device) Copied() (in, out int64) { return d.in.Load(), d.out.Load() }

// Stream runs operations in the order in which they are given to it.
type Stream struct {
	device *Device
	stream C.stream
}

// Stream makes a stream.
func (d *Device) Stream() (*Stream, error) {
	s := &Stream{device: d}
	if err := status("cuStreamCreate", C.cuda_stream(d.context, &s.stream)); err != nil {
		return nil, err
	}
	return s, nil
}

// Close ends the stream when its operations have ended.
func (s *Stream) Close() error {
	return errors.Join(s.Wait(), status("cuStreamDestroy", C.cuda_stream_close(s.device.context, s.stream)))
}

// Handle returns the CUstream, for other libraries.
func (s *Stream) Handle() uintptr { return uintptr(s.stream) }

// Wait returns when all operations have ended, with the fault of any.
func (s *Stream) Wait() error {
	return status("cuStreamSynchronize", C.cuda_stream_wait(s.device.context, s.stream))
}

// After makes what is given to s from now on wait for an event.
func (s *Stream) After(e *Event) error {
	return status("cuStreamWaitEvent", C.cuda_stream_after(s.device.context, s.stream, e.event))
}

// Event is a place in the work of a stream.
type Event struct {
	device *Device
	event  C.event
}

// Event makes an event that has happened.
func (d *Device) Event() (*Event, error) {
	e := &Event{device: d}
	if err := status("cuEventCreate", C.cuda_event(d.context, &e.event)); err != nil {
		return nil, err
	}
	return e, nil
}

// Close frees the event.
func (e *Event) Close() error {
	return status("cuEventDestroy", C.cuda_event_close(e.device.context, e.event))
}

// Record moves the event behind all that s has been given.
func (e *Event) Record(s *Stream) error {
	return status("cuEventRecord", C.cuda_event_record(e.device.context, e.event, s.stream))
}

// Wait returns when the event has happened.
func (e *Event) Wait() error {
	return status("cuEventSynchronize", C.cuda_event_wait(e.device.context, e.event))
}

// blockThreads is the threads of a block; wave is how many blocks a multiprocessor runs at
// once. More threads than elements, or than the device runs, gain nothing.
const blockThreads, wave = 256, 8

// Launch runs a kernel over n elements. args points to the structure that is the kernel's
// only argument; it is copied.
func (s *Stream) Launch(k Kernel, n int, args unsafe.Pointer) error {
	if n <= 0 {
		return nil
	}
	blocks := min((n+blockThreads-1)/blockThreads, wave*s.device.sms)
	return status("cuLaunchKernel", C.cuda_launch(s.device.context, s.stream, k.function, C.uint(blocks), blockThreads, args))
}

// Operands is how cuBLAS may round the operands of products. Sums are in float32 with all.
type Operands int

// The forms of operands. TF32 has 10 bits after the binary point, BF16 7.
const (
	FP32 Operands = iota
	TF32
	BF16
)

// compute returns the cublasComputeType_t.
func (o Operands) compute() C.int {
	return [...]C.int{FP32: C.compute_fp32, TF32: C.compute_tf32, BF16: C.compute_bf16}[o]
}

// Multiplies returns an error if the device has no units for products of such operands.
func (d *Device) Multiplies(o Operands) error {
	if o != FP32 && d.Major < 8 {
		return fmt.Errorf("cuda: the device has compute capability %d.%d, and products in TF32 and bfloat16 need 8.0", d.Major, d.Minor)
	}
	return nil
}

// Factor is a matrix of a product, row by row, that may be transposed.
type Factor struct {
	Of         Buffer
	Transposed bool
}

// Multiply sets c, m×n, to a·b for a m×k and b k×n, or adds the product to it.
func (s *Stream) Multiply(c Buffer, a, b Factor, m, k, n int, add bool) error {
	if m == 0 || n == 0 {
		return nil
	}
	if c.Len < m*n || a.Of.Len < m*k || b.Of.Len < k*n {
		panic(fmt.Sprintf("cuda: Stream.Multiply: %d, %d and %d floats for %d×%d · %d×%d", c.Len, a.Of.Len, b.Of.Len, m, k, k, n))
	}
	beta := C.float(0)
	if add {
		beta = 1
	}
	// cuBLAS reads matrices column by column: those are the transposed ones, and
	// cᵀ = bᵀ·aᵀ.
	width := func(f Factor, rows, cols int) C.int {
		if f.Transposed {
			return C.int(rows)
		}
		return C.int(cols)
	}
	code := C.cuda_multiply(s.device.context, s.stream, s.device.blas, flag(b.Transposed), flag(a.Transposed), C.int(n), C.int(m), C.int(k),
		C.address(b.Of.At), width(b, k, n), C.address(a.Of.At), width(a, m, k), C.address(c.At), C.int(n), beta, s.device.Operands.compute())
	return status("cublasGemmEx", code)
}

func flag(b bool) C.int {
	if b {
		return C.transposed
	}
	return C.not_transposed
}
