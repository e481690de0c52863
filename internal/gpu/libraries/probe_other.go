//go:build !(gpu && cgo && linux)

package libraries

const built = false

// probed is what the build with the tag gpu learns about a library.
type probed struct {
	path, fault  string
	missing      bool
	driver, nccl int
	property     [3]int
}

func probe(name string) probed {
	return probed{fault: name + ": this program was built without GPU support", missing: true}
}
