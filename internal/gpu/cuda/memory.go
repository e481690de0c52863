//go:build gpu

package cuda

// #include "cuda.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// Address is an address of a device's memory; 0 is none.
type Address uint64

// Buffer is floats in a device's memory.
type Buffer struct {
	At  Address
	Len int
}

// Part is the floats from lo to hi.
func (b Buffer) Part(lo, hi int) Buffer {
	if lo < 0 || hi < lo || hi > b.Len {
		panic(fmt.Sprintf("cuda: Buffer.Part: [%d:%d] of %d floats", lo, hi, b.Len))
	}
	return Buffer{b.At + Address(4*lo), hi - lo}
}

// Pool is one allocation of device memory, from which buffers are cut.
type Pool struct {
	device *Device
	at     C.address
	floats int
	used   int
}

// aligned is the alignment of buffers, in floats: what loads of whole lines need.
const aligned = 64

// Room is how many floats of a pool n floats occupy.
func Room(n int) int { return (n + aligned - 1) / aligned * aligned }

// Pool allocates floats. An error may be a *MemoryError.
func (d *Device) Pool(floats int) (*Pool, error) {
	p := &Pool{device: d, floats: Room(max(floats, 1))}
	code := C.cuda_alloc(d.context, &p.at, C.size_t(4*p.floats))
	if code == C.out_of_memory {
		if free, total, err := d.Memory(); err == nil {
			return nil, &MemoryError{4 * int64(p.floats), free, total}
		}
	}
	if err := status("cuMemAlloc", code); err != nil {
		return nil, err
	}
	return p, nil
}

// Cut returns the next n floats. It panics if fewer are left: a pool needs the sum of Room
// over its buffers.
func (p *Pool) Cut(n int) Buffer {
	if n < 0 || p.used+n > p.floats {
		panic(fmt.Sprintf("cuda: Pool.Cut: %d floats, %d of %d are used", n, p.used, p.floats))
	}
	b := Buffer{Address(p.at) + Address(4*p.used), n}
	p.used += Room(n)
	return b
}

// Reset makes all floats free again. Earlier buffers are no longer valid.
func (p *Pool) Reset() { p.used = 0 }

// Close frees the pool. No operation that uses it may be running.
func (p *Pool) Close() error {
	return status("cuMemFree", C.cuda_free(p.device.context, p.at))
}

// Pinned is host memory that copies of a stream read and write while the caller continues.
type Pinned struct {
	device *Device
	at     unsafe.Pointer
	used   int
	bytes  int
}

// Pin allocates pinned host memory.
func (d *Device) Pin(floats int) (*Pinned, error) {
	p := &Pinned{device: d, bytes: 4 * Room(max(floats, 1))}
	if err := status("cuMemHostAlloc", C.cuda_pin(d.context, &p.at, C.size_t(p.bytes))); err != nil {
		return nil, fmt.Errorf("%w: %d bytes of pinned host memory", err, p.bytes)
	}
	return p, nil
}

// Cut returns the next n floats, as Pool.Cut does.
func (p *Pinned) Cut(n int) []float32 {
	if n < 0 || p.used+4*n > p.bytes {
		panic(fmt.Sprintf("cuda: Pinned.Cut: %d floats, %d of %d bytes are used", n, p.used, p.bytes))
	}
	b := unsafe.Slice((*float32)(unsafe.Add(p.at, p.used)), n)
	p.used += 4 * Room(n)
	return b
}

// Reset makes all floats free again. Earlier slices are no longer valid.
func (p *Pinned) Reset() { p.used = 0 }

// Close frees the memory. No slice of it may be used any more.
func (p *Pinned) Close() error {
	return status("cuMemFreeHost", C.cuda_unpin(p.device.context, p.at))
}

// CopyIn copies pinned floats to the device. They must not change before it has ended.
func (s *Stream) CopyIn(to Buffer, from []float32) error {
	same("CopyIn", to, from)
	if len(from) == 0 {
		return nil
	}
	s.device.in.Add(4 * int64(len(from)))
	code := C.cuda_copy_in(s.device.context, s.stream, C.address(to.At), C.uintptr_t(uintptr(unsafe.Pointer(&from[0]))), C.size_t(4*len(from)))
	return status("cuMemcpyHtoDAsync", code)
}

// CopyOut copies floats of the device to pinned ones.
func (s *Stream) CopyOut(to []float32, from Buffer) error {
	same("CopyOut", from, to)
	if len(to) == 0 {
		return nil
	}
	s.device.out.Add(4 * int64(len(to)))
	code := C.cuda_copy_out(s.device.context, s.stream, C.uintptr_t(uintptr(unsafe.Pointer(&to[0]))), C.address(from.At), C.size_t(4*len(to)))
	return status("cuMemcpyDtoHAsync", code)
}

func same(call string, b Buffer, x []float32) {
	if b.Len != len(x) {
		panic(fmt.Sprintf("cuda: Stream.%s: %d floats of the device, %d of the host", call, b.Len, len(x)))
	}
}
