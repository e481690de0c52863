//go:build gpu

package cuda

// #cgo CFLAGS: -O2 -Wall
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "cuda.h"
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/wdlrun/wdlrun/internal/gpu/libraries"
)

// Files selects the libraries.
type Files = libraries.Files

// Library is the opened driver.
type Library struct {
	Version int // of CUDA that the driver supports: 12040 for 12.4
	Devices int // that this process may use
	Driver  libraries.Library
	CUBLAS  libraries.Library
}

// process holds the libraries of this process. It has one driver: a second copy would have contexts
// of its own.
var process struct {
	sync.Mutex
	open         bool
	driver, blas libraries.Library
}

// Open opens the driver, and the newest cuBLAS that the driver can run. A process opens them once;
// further calls ignore the files.
func Open(f Files) (*Library, error) {
	process.Lock()
	defer process.Unlock()
	if !process.open {
		if err := open(f); err != nil {
			return nil, fmt.Errorf("cuda: open: %w", err)
		}
	}
	var devices C.int
	if err := status("cuInit", C.cuda_init(&devices)); err != nil {
		return nil, err
	}
	return &Library{Version: process.driver.CUDA, Devices: int(devices), Driver: process.driver, CUBLAS: process.blas}, nil
}

// open fills process. The caller holds its lock.
func open(f Files) (err error) {
	driver, err := libraries.Driver(f)
	if err != nil {
		return err
	}
	blas, err := libraries.CUBLAS(f, driver.CUDA)
	if err != nil {
		return err
	}
	paths := [2]*C.char{C.CString(driver.Path), C.CString(blas.Path)}
	defer C.free(unsafe.Pointer(paths[0]))
	defer C.free(unsafe.Pointer(paths[1]))
	var reason [512]C.char
	if C.cuda_open(paths[0], paths[1], &reason[0], C.size_t(len(reason))) != 0 {
		return errors.New(C.GoString(&reason[0]))
	}
	process.open, process.driver, process.blas = true, driver, blas
	return nil
}

// Error is the status of a call of a library.
type Error struct {
	Call       string // "cuMemAlloc"
	Code       int    // the driver's, or cuBLAS's
	Name, Text string // "CUDA_ERROR_INVALID_VALUE", "invalid argument"
}

func (e *Error) Error() string {
	text := fmt.Sprintf("cuda: %s: %s (%d)", e.Call, e.Name, e.Code)
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// status is the error of a status, nil for 0.
func status(call string, code C.int) error {
	if code == 0 {
		return nil
	}
	var name, text *C.char
	C.cuda_name(code, &name, &text)
	e := &Error{Call: call, Code: int(code), Name: C.GoString(name), Text: C.GoString(text)}
	if e.Code >= C.cublas_status {
		e.Code -= C.cublas_status
	}
	if e.Name == "" {
		e.Name = "unknown status"
	}
	return e
}

// MemoryError is an allocation that does not fit on a device.
type MemoryError struct {
	Requested, Free, Total int64 // bytes
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("cuda: out of memory: %d bytes were requested, %d of %d are free", e.Requested, e.Free, e.Total)
}

// IsMemory returns the MemoryError that an error wraps, if there is one.
func IsMemory(err error) (e *MemoryError, ok bool) {
	ok = errors.As(err, &e)
	return e, ok
}
