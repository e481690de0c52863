// Package cgroup reads the limits of memory and CPU time of this process: the limits of its
// control groups (versions 1 and 2), by which containers and batch systems limit a job, and the
// memory of the machine. A limit that cannot be read is ignored.
package cgroup

import (
	"bufio"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// Memory is the state of the memory of this process.
type Memory struct {
	Limit     int64 // bytes allowed by its control groups; math.MaxInt64: unlimited
	Available int64 // bytes that it can still use without being killed; math.MaxInt64: unknown
	Kills     int64 // processes of its control group killed for lack of memory
}

// Read returns the current state. It reads a few files of /proc and /sys, in about 0.1 ms.
func Read() Memory { return read("/") }

func read(root string) Memory {
	m := Memory{Limit: math.MaxInt64, Available: math.MaxInt64}
	if free, ok := field(filepath.Join(root, "proc/meminfo"), "MemAvailable:"); ok {
		m.Available = free << 10
	}
	for _, line := range lines(filepath.Join(root, "proc/self/cgroup")) {
		parts := strings.SplitN(line, ":", 3) // number:controllers:path
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[0] == "0" && parts[1] == "":
			m.unified(filepath.Join(root, "sys/fs/cgroup"), parts[2])
		case parts[1] == "memory":
			m.legacy(filepath.Join(root, "sys/fs/cgroup/memory"), parts[2])
		}
	}
	return m
}

// unified reads version 2, in which a group is limited by all its ancestors.
func (m *Memory) unified(mount, path string) {
	kills, _ := field(filepath.Join(mount, path, "memory.events"), "oom_kill")
	m.Kills = max(m.Kills, kills)
	for at := filepath.Clean("/" + path); ; at = filepath.Dir(at) {
		dir := filepath.Join(mount, at)
		stat := filepath.Join(dir, "memory.stat")
		cache, _ := field(stat, "file")
		shared, _ := field(stat, "shmem")
		m.bound(number(filepath.Join(dir, "memory.max")), number(filepath.Join(dir, "memory.current")), cache-shared)
		if at == "/" {
			return
		}
	}
}

// legacy reads version 1.
func (m *Memory) legacy(mount, path string) {
	dir := filepath.Join(mount, path)
	limit := number(filepath.Join(dir, "memory.limit_in_bytes"))
	if limit < 0 { // in a container the group is mounted as the root
		dir = mount
		limit = number(filepath.Join(dir, "memory.limit_in_bytes"))
	}
	kills, _ := field(filepath.Join(dir, "memory.oom_control"), "oom_kill")
	m.Kills = max(m.Kills, kills)
	cache, _ := field(filepath.Join(dir, "memory.stat"), "total_cache")
	shared, _ := field(filepath.Join(dir, "memory.stat"), "total_shmem")
	m.bound(limit, number(filepath.Join(dir, "memory.usage_in_bytes")), cache-shared)
}

// unlimited is about the value by which version 1 represents no limit.
const unlimited = math.MaxInt64 / 2

// bound applies one group's limit. The file cache is dropped before a process is killed,
// so it counts as free.
func (m *Memory) bound(limit, used, cache int64) {
	if limit < 0 || limit > unlimited {
		return
	}
	m.Limit = min(m.Limit, limit)
	if used >= 0 {
		m.Available = min(m.Available, max(limit-used+max(cache, 0), 0))
	}
}

// CPUs returns the CPU time per second that the control groups of this process allow, in CPUs; 0:
// unlimited.
func CPUs() float64 { return quota("/") }

func quota(root string) (least float64) {
	bound := func(time, period int64) {
		if time > 0 && period > 0 && (least == 0 || float64(time)/float64(period) < least) {
			least = float64(time) / float64(period)
		}
	}
	for _, line := range lines(filepath.Join(root, "proc/self/cgroup")) {
		parts := strings.SplitN(line, ":", 3) // number:controllers:path
		if len(parts) != 3 {
			continue
		}
		mount, unified := filepath.Join(root, "sys/fs/cgroup"), parts[0] == "0" && parts[1] == ""
		if !unified && !slices.Contains(strings.Split(parts[1], ","), "cpu") {
			continue
		}
		for at := filepath.Clean("/" + parts[2]); ; at = filepath.Dir(at) {
			if dir := filepath.Join(mount, at); unified {
				bound(pair(filepath.Join(dir, "cpu.max")))
			} else {
				dir = filepath.Join(mount, "cpu", at) // a link to cpu,cpuacct where both are one
				bound(number(filepath.Join(dir, "cpu.cfs_quota_us")), number(filepath.Join(dir, "cpu.cfs_period_us")))
			}
			if at == "/" {
				break
			}
		}
	}
	return least
}

// pair returns the two numbers of a line such as "150000 100000"; -1 for one that is missing.
func pair(path string) (a, b int64) {
	for _, line := range lines(path) {
		if _, err := fmt.Sscan(line, &a, &b); err == nil {
			return a, b
		}
	}
	return -1, -1
}

// maxFile is the maximum size of the files read.
const maxFile = 1 << 20

func lines(path string) (all []string) {
	b, err := regular.ReadFile(path, maxFile)
	if err != nil {
		return nil
	}
	for s := bufio.NewScanner(strings.NewReader(string(b))); s.Scan(); {
		all = append(all, s.Text())
	}
	return all
}

// number returns the number in a file, -1 if there is none.
func number(path string) int64 {
	for _, line := range lines(path) {
		if n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil {
			return n
		}
	}
	return -1
}

// field returns the number after a name at the beginning of a line.
func field(path, name string) (int64, bool) {
	for _, line := range lines(path) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
