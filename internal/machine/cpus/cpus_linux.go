package cpus

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/internal/machine/cgroup"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// Here returns the CPUs on which this process may run. A launcher or a control group may
// have restricted them.
func Here() ([]CPU, error) {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return nil, fmt.Errorf("cpus: the CPUs of this process are unknown: %w", err)
	}
	return of(may, "/sys/devices/system/cpu"), nil
}

// of reads cores and nodes of CPUs. A CPU without this information counts as a separate
// core on node 0.
func of(may unix.CPUSet, dir string) (all []CPU) {
	for id := range len(may) * 64 {
		if !may.IsSet(id) {
			continue
		}
		at := filepath.Join(dir, fmt.Sprint("cpu", id))
		c := CPU{ID: id, Core: id}
		if core, err := number(filepath.Join(at, "topology/core_id")); err == nil {
			socket, _ := number(filepath.Join(at, "topology/physical_package_id"))
			c.Core = socket<<16 | core
		}
		entries, _ := os.ReadDir(at)
		for _, e := range entries {
			if n, found := strings.CutPrefix(e.Name(), "node"); found {
				c.Node, _ = strconv.Atoi(n)
			}
		}
		all = append(all, c)
	}
	return all
}

func number(path string) (int, error) {
	b, err := regular.ReadFile(path, 64)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// On calls start with this thread bound to CPUs. Processes started by start inherit the
// binding. The caller must have locked its goroutine to the thread.
func On(cpus []int, start func() error) error {
	if len(cpus) == 0 {
		return start()
	}
	var before, bound unix.CPUSet
	for _, id := range cpus {
		bound.Set(id)
	}
	err := unix.SchedGetaffinity(0, &before)
	if err == nil {
		err = unix.SchedSetaffinity(0, &bound)
	}
	if err != nil {
		return fmt.Errorf("bind to CPUs %s: %w; give -bind none", List(cpus), err)
	}
	defer unix.SchedSetaffinity(0, &before)
	return start()
}

// RoomHere returns the CPU time of this process.
func RoomHere() Room {
	r := Room{Quota: cgroup.CPUs()}
	all, err := Here()
	if err != nil {
		return r
	}
	for _, c := range all {
		r.Allowed = append(r.Allowed, c.ID)
	}
	if b, err := regular.ReadFile("/sys/devices/system/cpu/online", 4096); err == nil {
		r.Online = countList(strings.TrimSpace(string(b)))
	}
	r.Online = max(r.Online, len(all))
	return r
}

// countList counts the CPUs of a list such as 0-3,8; 0 if it cannot be read.
func countList(list string) (n int) {
	for part := range strings.SplitSeq(list, ",") {
		from, to, several := strings.Cut(part, "-")
		lo, err := strconv.Atoi(from)
		hi := lo
		if several && err == nil {
			hi, err = strconv.Atoi(to)
		}
		if err != nil || hi < lo {
			return 0
		}
		n += hi - lo + 1
	}
	return n
}
