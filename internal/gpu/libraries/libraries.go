// Package libraries finds the CUDA driver, cuBLAS and NCCL, and decides which of them work
// together. A library of CUDA N needs a driver that supports CUDA N or later, whatever functions
// it has. Only builds with the tag gpu can open libraries; in others nothing is found.
package libraries

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// The names of the libraries.
const (
	driver = "driver"
	cuBLAS = "cuBLAS"
	nccl   = "NCCL"
)

// MinCUDA is the first version of CUDA that a driver must support, encoded as 12000 for 12.0: the
// oldest supported cuBLAS needs it.
const MinCUDA = 12000

// drivers are the first drivers that support a major version of CUDA.
var drivers = map[int]int{12: 525, 13: 580}

// Files selects the libraries. The zero value selects those that the system's loader finds.
type Files struct {
	CUDA, CUBLAS, NCCL string   // paths; "": libcuda.so.1, libcublas.so.13 or .12, libnccl.so.2
	Folders            []string // searched in this order for cuBLAS and NCCL; "" is the system's loader. nil: only that
}

// Library is one library file.
type Library struct {
	Name    string `json:"name"` // driver, cuBLAS or NCCL
	Version string `json:"version"`
	Path    string `json:"path"`
	CUDA    int    `json:"cuda"`            // of a driver: supported; of others: needed. 12040 is 12.4, 0 unknown
	Fault   string `json:"fault,omitempty"` // why it cannot be used, and the remedy
	missing bool   // the file does not exist
}

func (l Library) String() string {
	return strings.TrimSpace(l.Name+" "+l.Version) + " (" + l.Path + ")"
}

// Driver opens the driver.
func Driver(f Files) (Library, error) {
	l := Library{Name: driver, Path: cmp.Or(f.CUDA, "libcuda.so.1")}
	p := probe(l.Path)
	l.Path, l.CUDA = cmp.Or(p.path, l.Path), p.driver
	if l.CUDA > 0 {
		l.Version = "CUDA " + version(l.CUDA)
	}
	switch {
	case p.fault != "":
		l.Fault = p.fault + ": install the NVIDIA driver, or add its folder to LD_LIBRARY_PATH"
	case l.CUDA == 0:
		l.Fault = l.Path + " reports no version: it is not the NVIDIA driver, perhaps the stub of a toolkit"
	case l.CUDA < MinCUDA:
		l.Fault = fmt.Sprintf("the driver supports CUDA %s, at least %s is needed: install driver %d or later", version(l.CUDA), version(MinCUDA), drivers[MinCUDA/1000])
	}
	if l.Fault != "" {
		return l, errors.New(l.Fault)
	}
	return l, nil
}

// CUBLAS returns the newest cuBLAS that a driver for a version of CUDA can run.
func CUBLAS(f Files, cuda int) (Library, error) {
	return choose(cublas(f, cuda), fmt.Sprintf("install cuBLAS %d", min(cuda/1000, newest)))
}

// NCCL returns the first NCCL that a driver for a version of CUDA can run.
func NCCL(f Files, cuda int) (Library, error) {
	return choose(collectives(f, cuda), fmt.Sprintf("install NCCL for CUDA %d", min(cuda/1000, newest)))
}

// Find returns all libraries: the driver, and those that exist. A library that exists nowhere is
// listed once, with the reason.
func Find(f Files) []Library {
	if !built {
		return nil
	}
	d, _ := Driver(f)
	all := []Library{d}
	for _, found := range []iter.Seq[Library]{cublas(f, d.CUDA), collectives(f, d.CUDA)} {
		list := slices.Collect(found)
		exists := slices.DeleteFunc(slices.Clone(list), func(l Library) bool { return l.missing })
		if len(exists) == 0 {
			exists = list[len(list)-1:]
		}
		for _, l := range exists {
			if !slices.ContainsFunc(all, func(x Library) bool { return x.Path == l.Path }) {
				all = append(all, l)
			}
		}
	}
	return all
}

// Write prints a table of libraries, nothing for none.
func Write(w io.Writer, all []Library) error {
	if len(all) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "LIBRARY\tVERSION\tPATH\tFITS")
	for _, l := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", l.Name, cmp.Or(l.Version, "unknown"), l.Path, cmp.Or(l.fits(), "yes"))
	}
	return t.Flush()
}

// fits returns the fault without the path, which a table has in another column.
func (l Library) fits() string {
	if l.Fault == "" {
		return ""
	}
	return "no: " + strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(l.Fault, l.String()), l.Path), ": ")
}

// choose returns the first library without a fault.
func choose(found iter.Seq[Library], install string) (Library, error) {
	var missing, faults []string
	for l := range found {
		if l.Fault == "" {
			return l, nil
		}
		if l.missing {
			missing = append(missing, l.Fault)
		} else {
			faults = append(faults, l.Fault)
		}
	}
	if len(faults) > 0 {
		return Library{}, errors.New(strings.Join(faults, "; "))
	}
	return Library{}, fmt.Errorf("%s: %s, or name its folder in WDLRUN_CUDA_PATH or LD_LIBRARY_PATH", strings.Join(missing, "; "), install)
}

// newest and oldest are the major versions of cuBLAS that are supported. Later ones are not tried.
const newest, oldest = 13, 12

// cublas yields the cuBLAS libraries, the newest major version first.
func cublas(f Files, cuda int) iter.Seq[Library] {
	return func(yield func(Library) bool) {
		for major := newest; major >= oldest; major-- {
			for path := range paths(f, f.CUBLAS, fmt.Sprintf("libcublas.so.%d", major)) {
				if !yield(ofCUBLAS(path, cuda)) {
					return
				}
			}
			if f.CUBLAS != "" {
				return
			}
		}
	}
}

func ofCUBLAS(path string, cuda int) Library {
	p := probe(path)
	l := Library{Name: cuBLAS, Path: cmp.Or(p.path, path), CUDA: 1000 * p.property[0], Fault: p.fault, missing: p.missing}
	if p.fault != "" {
		return l
	}
	if p.property[0] > 0 {
		l.Version = fmt.Sprintf("%d.%d.%d", p.property[0], p.property[1], p.property[2])
	}
	if major := p.property[0]; major < oldest || major > newest {
		l.Fault = fmt.Sprintf("%v is no cuBLAS %d or %d: install one of these", l, oldest, newest)
	}
	l.compare(cuda)
	return l
}

// collectives yields the NCCL libraries. NCCL that the driver cannot run is not opened if its path
// is known, because some versions stay loaded.
func collectives(f Files, cuda int) iter.Seq[Library] {
	return func(yield func(Library) bool) {
		for path := range paths(f, f.NCCL, "libnccl.so.2") {
			if !yield(ofNCCL(path, cuda)) {
				return
			}
		}
	}
}

func ofNCCL(path string, cuda int) Library {
	l := Library{Name: nccl, Path: path}
	if strings.Contains(path, "/") {
		if l.Version, l.CUDA = compiled(path); l.CUDA != 0 {
			if l.compare(cuda); l.Fault != "" {
				return l
			}
		}
	}
	p := probe(path)
	l.Path, l.Fault, l.missing = cmp.Or(p.path, path), p.fault, p.missing
	if l.Fault == "" && l.CUDA == 0 {
		l.Version, l.CUDA = compiled(l.Path)
		l.compare(cuda)
	}
	if l.Version == "" && p.nccl > 0 {
		l.Version = encoded(p.nccl)
	}
	return l
}

// encoded is NCCL's number of a version.
func encoded(v int) string {
	if v < 10000 { // before 2.9
		return fmt.Sprintf("%d.%d.%d", v/1000, v/100%10, v%100)
	}
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
}

// compare sets the fault of a library that needs a later driver.
func (l *Library) compare(cuda int) {
	if l.Fault != "" || l.CUDA/1000 <= cuda/1000 || cuda == 0 {
		return
	}
	needs, has := l.CUDA/1000, cuda/1000
	remedy := fmt.Sprintf("a driver for CUDA %d", needs)
	if n := drivers[needs]; n > 0 {
		remedy = fmt.Sprintf("driver %d or later", n)
	}
	other := fmt.Sprintf("%s for CUDA %d", l.Name, has)
	if l.Name == cuBLAS {
		other = fmt.Sprintf("%s %d", l.Name, has)
	}
	if has >= oldest {
		remedy = other + ", or " + remedy
	}
	l.Fault = fmt.Sprintf("%v needs a driver for CUDA %d, and this one supports CUDA %s: install %s", *l, needs, version(cuda), remedy)
}

// version formats the encoding of a version of CUDA.
func version(cuda int) string { return fmt.Sprintf("%d.%d", cuda/1000, cuda%1000/10) }

// paths yields the names under which a library is opened.
func paths(f Files, file, name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if file != "" {
			yield(file)
			return
		}
		folders := f.Folders
		if len(folders) == 0 {
			folders = []string{""}
		}
		for _, folder := range folders {
			if path := filepath.Join(folder, name); folder != "" && !exists(path) {
				continue
			} else if !yield(path) {
				return
			}
		}
	}
}
