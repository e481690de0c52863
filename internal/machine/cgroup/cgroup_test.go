package cgroup

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

func TestRead(t *testing.T) {
	const meminfo = "MemTotal: 1000 kB\nMemAvailable:     500 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  Memory
	}{
		"nothing is known": {nil, Memory{math.MaxInt64, math.MaxInt64, 0}},
		"no control group": {map[string]string{"proc/meminfo": meminfo}, Memory{math.MaxInt64, 500 << 10, 0}},
		"version 2, bounded by the parent": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/pod/rank\n",
			"sys/fs/cgroup/pod/rank/memory.max": "max\n", "sys/fs/cgroup/pod/rank/memory.current": "7000\n",
			"sys/fs/cgroup/pod/rank/memory.events": "low 0\noom 1\noom_kill 3\n",
			"sys/fs/cgroup/pod/memory.max":         "100000\n", "sys/fs/cgroup/pod/memory.current": "90000\n",
			"sys/fs/cgroup/pod/memory.stat": "anon 60000\nfile 30000\nshmem 10000\n",
		}, Memory{100000, 30000, 3}},
		"version 2, full": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "100000\n", "sys/fs/cgroup/memory.current": "100001\n",
		}, Memory{100000, 0, 0}},
		"version 1": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "5:cpu:/\n4:memory:/job\n0::/\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "200000\n", "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "50000\n",
			"sys/fs/cgroup/memory/job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
		}, Memory{200000, 150000, 2}},
		"version 1 in a container, unlimited": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/docker/abc\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n",
		}, Memory{math.MaxInt64, 500 << 10, 0}},
		"garbage": {map[string]string{
			"proc/meminfo": "MemAvailable: many kB\n", "proc/self/cgroup": "::\n0\n0::/x\n", "sys/fs/cgroup/x/memory.max": "-5\n",
		}, Memory{math.MaxInt64, math.MaxInt64, 0}},
	} {
		root := t.TempDir()
		for path, text := range c.files {
			path = filepath.Join(root, path)
			fatal.If(t, os.MkdirAll(filepath.Dir(path), 0o755))
			fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
		}
		if got := read(root); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestCPUs(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  float64
	}{
		"no control group":                 {nil, 0},
		"version 2, unlimited":             {map[string]string{"proc/self/cgroup": "0::/pod\n", "sys/fs/cgroup/pod/cpu.max": "max 100000\n"}, 0},
		"version 2, bounded by the parent": {map[string]string{"proc/self/cgroup": "0::/pod/rank\n", "sys/fs/cgroup/pod/rank/cpu.max": "400000 100000\n", "sys/fs/cgroup/pod/cpu.max": "150000 100000\n"}, 1.5},
		"version 1":                        {map[string]string{"proc/self/cgroup": "3:cpu,cpuacct:/job\n4:memory:/job\n", "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "50000\n", "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n"}, 0.5},
		"version 1, unlimited":             {map[string]string{"proc/self/cgroup": "3:cpu:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 0},
		"version 1 in a container":         {map[string]string{"proc/self/cgroup": "3:cpu:/docker/abc\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 2},
		"garbage":                          {map[string]string{"proc/self/cgroup": "0::/../x\n3:cpu\n", "sys/fs/cgroup/x/cpu.max": "-5 0\n"}, 0},
	} {
		root := t.TempDir()
		for path, text := range c.files {
			path = filepath.Join(root, path)
			fatal.If(t, os.MkdirAll(filepath.Dir(path), 0o755))
			fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
		}
		if got := quota(root); got != c.want {
			t.Errorf("%s: %v CPUs, want %v", name, got, c.want)
		}
	}
}
