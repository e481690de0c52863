//go:build gpu && cgo && linux

package libraries

// #cgo LDFLAGS: -ldl
// #define _GNU_SOURCE
// #include <dlfcn.h>
// #include <link.h>
// #include <stdio.h>
// #include <stdlib.h>
//
// struct probed {
//	char path[4096], fault[1024];
//	int driver, nccl, property[3];
// };
//
// // Opens a library, asks it for its versions in ways that need no device, and closes it.
// static void probe_library(const char *name, struct probed *p) {
//	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
//	if (!library) {
//		snprintf(p->fault, sizeof p->fault, "%s", dlerror());
//		return;
//	}
//	struct link_map *map = NULL;
//	if (!dlinfo(library, RTLD_DI_LINKMAP, &map) && map)
//		snprintf(p->path, sizeof p->path, "%s", map->l_name);
//	int (*version)(int *) = (int (*)(int *))dlsym(library, "cuDriverGetVersion");
//	if (version)
//		version(&p->driver);
//	version = (int (*)(int *))dlsym(library, "ncclGetVersion");
//	if (version)
//		version(&p->nccl);
//	int (*property)(int, int *) = (int (*)(int, int *))dlsym(library, "cublasGetProperty");
//	for (int i = 0; property && i < 3; i++)
//		property(i, &p->property[i]);
//	dlclose(library);
// }
import "C"

import (
	"debug/elf"
	"strings"
	"unsafe"
)

const built = true

// probed is what a library answers, or why it cannot be opened.
type probed struct {
	path, fault  string
	missing      bool
	driver, nccl int
	property     [3]int // of cuBLAS: major, minor and patch level
}

func probe(name string) probed {
	if strings.Contains(name, "/") && exists(name) {
		if err := read(name, func(*elf.File) {}); err != nil {
			return probed{fault: err.Error()}
		}
	}
	p := new(C.struct_probed)
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	C.probe_library(text, p)
	out := probed{
		path: C.GoString(&p.path[0]), fault: C.GoString(&p.fault[0]),
		driver: int(p.driver), nccl: int(p.nccl),
		property: [3]int{int(p.property[0]), int(p.property[1]), int(p.property[2])},
	}
	out.missing = strings.HasPrefix(out.fault, name+": ") && strings.Contains(out.fault, "No such file")
	return out
}
