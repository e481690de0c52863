// Package doctor examines the hosts of a job before it runs: the resources of each host,
// and the speed between each pair of hosts. Judge compares them with what the job needs.
// It is a pure function.
//
// One rank on each host calls Examine. The links are those that a training uses. Pairs of
// hosts are measured in rounds: in a round each host has at most one partner, so that
// measurements do not disturb each other. With up to 64 hosts every pair is measured,
// otherwise 63 pairs per host. A round takes about 0.2 s, or more if a link is slow.
//
// A value that the system does not report is 0. Only a link that fails causes an error.
// Nothing panics.
package doctor

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/gpu/inventory"
	"github.com/wdlrun/wdlrun/internal/gpu/libraries"
	"github.com/wdlrun/wdlrun/internal/machine/cpus"
)

// Host describes one host.
type Host struct {
	Name         string  `json:"host"`
	Ranks        int     `json:"ranks"` // that the job would have there
	Version      string  `json:"version"`
	System       string  `json:"system"`
	CPU          string  `json:"cpu"`
	Kernels      string  `json:"kernels"` // that compute: AVX512, AVX2, NEON or portable
	BFloat16     bool    `json:"bfloat16"`
	CPUs         int     `json:"cpus"` // on which its processes may run
	NUMANodes    int     `json:"numa_nodes"`
	Load         float64 `json:"load"`   // of the last minute
	GFLOPS       float64 `json:"gflops"` // multiply-adds of one thread, 10⁹ a second
	Memory       int64   `json:"memory_bytes"`
	Available    int64   `json:"memory_available_bytes"`
	MemoryLimit  int64   `json:"memory_limit_bytes,omitempty"` // of its control group, 0 for none
	Disks        []Disk  `json:"disks"`
	SharedMemory int64   `json:"dev_shm_bytes"`
	OpenFiles    uint64  `json:"open_files_limit"`
	LockedMemory uint64  `json:"locked_memory_limit_bytes"`
	FreePorts    int     `json:"free_ports,omitempty"` // of those that -ports allows
	ClockSeconds float64 `json:"clock_seconds"`        // ahead of the median host

	cpus.Room

	GPUs      *inventory.Inventory `json:"gpus,omitempty"`      // nil: unknown
	GPUFault  string               `json:"gpu_fault,omitempty"` // why NVML cannot be read, in builds that read it
	Libraries []libraries.Library  `json:"gpu_libraries,omitempty"`
}

// Disk is a directory that jobs write to.
type Disk struct {
	Use   string `json:"use"` // work, tmp or cache
	Path  string `json:"path"`
	Free  int64  `json:"free_bytes"`
	Fault string `json:"fault,omitempty"` // why it cannot be written
}

// Report describes all hosts.
type Report struct {
	Hosts []Host `json:"hosts"` // by rank
	Pairs []Pair `json:"pairs"`
}

// maxFacts is the maximum size in bytes of the report of one host.
const maxFacts = 1 << 20

// Examine returns the report on rank 0; own describes this host. Every rank of c calls it.
// progress is called after each part of the work.
func Examine(c *collective.Comm, own Host, progress func()) (r Report, err error) {
	own.ClockSeconds, err = clock(c)
	if err != nil {
		return r, err
	}
	progress()
	names, err := collective.AllGatherBytes(c, []byte(own.Name), maxFacts)
	if err != nil {
		return r, err
	}
	pairs, err := measure(c, names, progress)
	if err != nil {
		return r, err
	}
	body, err := json.Marshal(Report{[]Host{own}, pairs})
	if err != nil {
		return r, err
	}
	all, err := collective.GatherBytes(c, body, 0, maxFacts)
	if err != nil {
		return r, err
	}
	for i, b := range all {
		var of Report
		if err := json.Unmarshal(b, &of); err != nil {
			return r, fmt.Errorf("doctor: report of rank %d: %w", i, err)
		}
		r.Hosts, r.Pairs = append(r.Hosts, of.Hosts...), append(r.Pairs, of.Pairs...)
	}
	return r, nil
}

// clockTries is the number of clock comparisons, of which the median is used.
const clockTries = 5

// clock returns by how many seconds the clock of this host is ahead of the median. All
// ranks read their clocks when they leave a barrier.
func clock(c *collective.Comm) (ahead float64, err error) {
	var tries []float64
	for range clockTries {
		if err := collective.Barrier(c); err != nil {
			return 0, err
		}
		times := make([]int64, c.Size())
		times[c.Rank()] = time.Now().UnixNano()
		if err := collective.AllGather(c, times); err != nil {
			return 0, err
		}
		tries = append(tries, time.Duration(times[c.Rank()]-median(times)).Seconds())
	}
	return median(tries), nil
}
