//go:build gpu && cgo && linux

package nccl

// #cgo LDFLAGS: -ldl
// #cgo noescape native_launch
// #cgo nocallback native_launch
// #cgo noescape native_group
// #cgo nocallback native_group
// #cgo nocallback native_query
// #cgo nocallback native_nothing
// #include <stdlib.h>
// #include "native.h"
import "C"

import (
	"errors"
	"unsafe"
)

const built = true

// native is the opened libraries.
type native struct{ lib *C.struct_native_library }

// openNative opens libnccl and libcuda. An error that names a path and a version may come
// with both.
func openNative(nccl, cuda string) (n native, version Version, path string, err error) {
	names := [2]*C.char{C.CString(nccl), C.CString(cuda)}
	defer C.free(unsafe.Pointer(names[0]))
	defer C.free(unsafe.Pointer(names[1]))
	var code C.int
	var where, text [C.NATIVE_ERROR]C.char
	n.lib = C.native_open(names[0], names[1], &code, &where[0], &text[0])
	if n.lib == nil {
		err = errors.New(C.GoString(&text[0]))
	}
	return n, Version(code), C.GoString(&where[0]), err
}

func (n native) preferInterface(name string) {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	C.native_prefer_interface(s)
}

func (n native) newID() (id ID, err error) {
	var text [C.NATIVE_ERROR]C.char
	if rc := C.native_id(n.lib, (*C.char)(unsafe.Pointer(&id[0])), &text[0]); rc != C.NATIVE_SUCCESS {
		return id, &Error{Doing: "make an id", Code: int(rc), Text: C.GoString(&text[0])}
	}
	return id, nil
}

// nativeComm is a communicator in the library's memory, which one goroutine at a time uses.
type nativeComm struct{ c *C.struct_native_comm }

func (n native) newComm(context Context) nativeComm {
	return nativeComm{C.native_new(n.lib, C.uintptr_t(context))}
}

func (n nativeComm) exists() bool { return n.c.comm != nil }
func (n nativeComm) text() string { return C.GoString(&n.c.error[0]) }
func (n nativeComm) free()        { C.native_free(n.c) }

func (n nativeComm) init(id ID, size, rank int) int {
	return int(C.native_init(n.c, (*C.char)(unsafe.Pointer(&id[0])), C.int(size), C.int(rank)))
}

func (n nativeComm) state() int    { return int(C.native_state(n.c)) }
func (n nativeComm) finalize() int { return int(C.native_finalize(n.c)) }
func (n nativeComm) destroy() int  { return int(C.native_destroy(n.c)) }
func (n nativeComm) abort() int    { return int(C.native_abort(n.c)) }

func (n nativeComm) query(s Stream) int { return int(C.native_query(n.c, C.uintptr_t(s))) }

func (n nativeComm) launch(s Stream, k *Call) int {
	return int(C.native_launch(n.c, C.uintptr_t(s), C.int(k.Kind), C.int(k.Type), C.int(k.Op), C.int(k.Peer), C.uintptr_t(k.Send), C.uintptr_t(k.Recv), C.size_t(k.Count)))
}

func (n nativeComm) group(s Stream, calls []Call) int {
	var few [8]C.struct_native_call // groups of a step are small
	all := few[:0]
	for _, k := range calls {
		all = append(all, C.struct_native_call{
			kind: C.int(k.Kind), _type: C.int(k.Type), op: C.int(k.Op), peer: C.int(k.Peer),
			send: C.uintptr_t(k.Send), recv: C.uintptr_t(k.Recv), count: C.size_t(k.Count),
		})
	}
	return int(C.native_group(n.c, C.uintptr_t(s), &all[0], C.int(len(all))))
}

func (n nativeComm) split(color, key int, part nativeComm) int {
	return int(C.native_split(n.c, C.int(color), C.int(key), part.c))
}

func (n nativeComm) world() (rank, size, rc int) {
	var r, s C.int
	rc = int(C.native_world(n.c, &r, &s))
	return int(r), int(s), rc
}

// nothing crosses to C and back, for BenchmarkLaunch.
func (n nativeComm) nothing() int { return int(C.native_nothing(n.c)) }
