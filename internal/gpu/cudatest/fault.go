//go:build gpu

package cudatest

// #cgo LDFLAGS: -ldl
// #include <dlfcn.h>
// #include <stdlib.h>
//
// static int fault(const char *library, const char *call, int after, int code) {
//	void *l = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
//	void (*f)(const char *, int, int) = l ? (void (*)(const char *, int, int))dlsym(l, "standin_fault") : NULL;
//	if (f)
//		f(call, after, code);
//	return f != NULL;
// }
//
// static int nothing(const char *library, int on) {
//	void *l = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
//	void (*f)(int) = l ? (void (*)(int))dlsym(l, "standin_nothing") : NULL;
//	if (f)
//		f(on);
//	return f != NULL;
// }
//
// static int record(const char *library, int on) {
//	void *l = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
//	void (*f)(int) = l ? (void (*)(int))dlsym(l, "standin_record") : NULL;
//	if (f)
//		f(on);
//	return f != NULL;
// }
//
// static const char *noted(const char *library, int i, unsigned long long *at) {
//	void *l = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
//	const char *(*f)(int, unsigned long long *) = l ? (const char *(*)(int, unsigned long long *))dlsym(l, "standin_noted") : NULL;
//	return f ? f(i, at) : NULL;
// }
//
// static int copied(const char *library, unsigned long long *in, unsigned long long *out) {
//	void *l = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
//	void (*f)(unsigned long long *, unsigned long long *) = l ? (void (*)(unsigned long long *, unsigned long long *))dlsym(l, "standin_copied") : NULL;
//	if (f)
//		f(in, out);
//	return f != NULL;
// }
//
// static long long allocations(const char *library) {
//	void *l = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
//	unsigned long long (*f)(void) = l ? (unsigned long long (*)(void))dlsym(l, "standin_allocations") : NULL;
//	return f ? (long long)f() : -1;
// }
//
// // watched returns instruction i and clears whether it ran. It returns NULL after the last.
// static const char *watched(const char *library, int i, int *ran) {
//	void *l = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
//	const char *const *texts = l ? dlsym(l, "standin_texts") : NULL;
//	unsigned char *all = l ? dlsym(l, "standin_ran") : NULL;
//	if (!texts || !all || !texts[i])
//		return NULL;
//	*ran = all[i], all[i] = 0;
//	return texts[i];
// }
//
// static int set_broken(const char *library, int i) {
//	void *l = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
//	int *broken = l ? dlsym(l, "standin_broken") : NULL;
//	void (*heal)(void) = l ? (void (*)(void))dlsym(l, "standin_heal") : NULL;
//	if (!broken || !heal)
//		return 0;
//	*broken = i;
//	heal();
//	return 1;
// }
//
// // touch reads a byte of the host at an address.
// static int touch(unsigned long long at) { return *(volatile char *)at; }
import "C"

import "unsafe"

// Fault makes a call of the opened stand-in fail with a code of the driver, after the given
// number of successful calls. "~cuLaunchKernel" makes the kernel fail instead of the call that launches it.
// It panics if the library is not open.
func (f Files) Fault(call string, after, code int) {
	library, name := C.CString(f.CUDA), C.CString(call)
	defer C.free(unsafe.Pointer(library))
	defer C.free(unsafe.Pointer(name))
	if C.fault(library, name, C.int(after), C.int(code)) == 0 {
		panic("cudatest: Fault: " + f.CUDA + " is not open")
	}
}

// Nothing makes the calls of the opened stand-in of the driver return at once and without
// effect until on is false. It panics if the library is not open.
func (f Files) Nothing(on bool) {
	library, flag := C.CString(f.CUDA), C.int(0)
	defer C.free(unsafe.Pointer(library))
	if on {
		flag = 1
	}
	if C.nothing(library, flag) == 0 {
		panic("cudatest: Nothing: " + f.CUDA + " is not open")
	}
}

// Work is work that was given to a stream: a kernel, "product" or "host function", as NCCL's
// calls are. At is the address of the result of a product, and the number of blocks of a kernel.
type Work struct {
	Name string
	At   uint64
}

// Enqueued returns the work that the opened stand-in is given while f runs, in the order of the
// calls. It panics if the library is not open.
func (f Files) Enqueued(run func()) (all []Work) {
	library := C.CString(f.CUDA)
	defer C.free(unsafe.Pointer(library))
	if C.record(library, 1) == 0 {
		panic("cudatest: Enqueued: " + f.CUDA + " is not open")
	}
	run()
	C.record(library, 0)
	for i := 0; ; i++ {
		var at C.ulonglong
		name := C.noted(library, C.int(i), &at)
		if name == nil {
			return all
		}
		all = append(all, Work{C.GoString(name), uint64(at)})
	}
}

// Copied returns the bytes that the opened stand-in has copied to devices and from them. It
// panics if the library is not open.
func (f Files) Copied() (in, out uint64) {
	library := C.CString(f.CUDA)
	defer C.free(unsafe.Pointer(library))
	var to, from C.ulonglong
	if C.copied(library, &to, &from) == 0 {
		panic("cudatest: Copied: " + f.CUDA + " is not open")
	}
	return uint64(to), uint64(from)
}

// Allocated returns how often the opened stand-in has allocated memory of devices or pinned
// memory. It panics if the library is not open.
func (f Files) Allocated() int64 {
	library := C.CString(f.CUDA)
	defer C.free(unsafe.Pointer(library))
	n := int64(C.allocations(library))
	if n < 0 {
		panic("cudatest: Allocated: " + f.CUDA + " is not open")
	}
	return n
}

// Instruction is an instruction of the PTX: "KERNEL: OPCODE OPERANDS;".
type Instruction struct {
	Text string
	Ran  bool // since the last call of Instructions
}

// Instructions returns the instructions of the PTX that the opened stand-in was built with, which must be
// Watched. No kernel may run.
func (f Files) Instructions() (all []Instruction) {
	library := C.CString(f.CUDA)
	defer C.free(unsafe.Pointer(library))
	for {
		var ran C.int
		text := C.watched(library, C.int(len(all)), &ran)
		if text == nil {
			return all
		}
		all = append(all, Instruction{C.GoString(text), ran != 0})
	}
}

// Break makes an instruction give a wrong result, or none, and ends the effect of an earlier call and of
// its faults. -1 only does the latter. No kernel may run. It panics if the stand-in is not open or does
// not run PTX.
func (f Files) Break(instruction int) {
	library := C.CString(f.CUDA)
	defer C.free(unsafe.Pointer(library))
	if C.set_broken(library, C.int(instruction)) == 0 {
		panic("cudatest: Break: " + f.CUDA + " is not open, or was not built with PTX")
	}
}

// Touch reads a byte at an address of the device as the host, which must fault.
func Touch(at uint64) { C.touch(C.ulonglong(at)) }
