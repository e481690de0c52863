package doctor

import (
	"errors"
	"math"
	"net"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/gpu/inventory"
	"github.com/wdlrun/wdlrun/internal/gpu/libraries"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/machine/cgroup"
	"github.com/wdlrun/wdlrun/internal/machine/ports"
)

// Here returns the description of this host. work is the directory of the ranks, cache
// is the directory of binaries, and gpu selects the libraries of GPUs.
func Here(name, version, work, cache string, within ports.Range, gpu libraries.Files) Host {
	h := Host{Name: name, Version: version, System: runtime.GOOS + " " + runtime.GOARCH, Kernels: f32.Backend(), BFloat16: f32.NoBF16() == nil, CPUs: runtime.NumCPU(), GFLOPS: gflops()}
	m := cgroup.Read()
	if m.Available != math.MaxInt64 {
		h.Available = m.Available
	}
	if m.Limit != math.MaxInt64 {
		h.MemoryLimit = m.Limit
	}
	h.Disks = []Disk{disk("work", work), disk("tmp", os.TempDir()), disk("cache", cache)}
	if within != (ports.Range{}) {
		h.FreePorts = free(within)
	}
	if v, err := inventory.Here(); err == nil {
		h.GPUs, h.Libraries = &v, libraries.Find(gpu)
	} else if !errors.Is(err, inventory.ErrNotBuilt) {
		h.GPUFault = err.Error()
	}
	h.system()
	return h
}

// gflops measures the multiply-adds of one thread: the best of several short runs.
func gflops() (best float64) {
	const rounds = 1 << 14
	for range 100 {
		start := time.Now()
		n := f32.PeakFLOP(rounds)
		best = max(best, float64(n)/time.Since(start).Seconds()*1e-9)
	}
	return best
}

// disk tries to write to a directory, or to the nearest one above it that exists.
func disk(use, dir string) Disk {
	for {
		if _, err := os.Stat(dir); !os.IsNotExist(err) || !strings.Contains(dir[1:], "/") {
			break
		}
		dir = dir[:strings.LastIndexByte(dir, '/')]
	}
	d := Disk{Use: use, Path: dir, Free: space(dir)}
	f, err := os.CreateTemp(dir, ".wdlrun-doctor-")
	if err != nil {
		d.Fault = err.Error()
		return d
	}
	f.Close()
	os.Remove(f.Name())
	return d
}

// maxPorts is the maximum number of ports tried.
const maxPorts = 4096

// free counts the ports of a range at which this process can listen.
func free(within ports.Range) (n int) {
	for port := within.First; port <= min(within.Last, within.First+maxPorts); port++ {
		if ln, err := net.ListenTCP("tcp", &net.TCPAddr{Port: port}); err == nil {
			ln.Close()
			n++
		}
	}
	return n
}
