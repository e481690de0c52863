package doctor

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/internal/machine/cpus"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// system adds what is only available on Linux.
func (h *Host) system() {
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		h.System = "linux " + unix.ByteSliceToString(name.Release[:]) + " " + unix.ByteSliceToString(name.Machine[:])
	}
	if all, err := cpus.Here(); err == nil {
		nodes := map[int]bool{}
		for _, c := range all {
			nodes[c.Node] = true
		}
		h.CPUs, h.NUMANodes = len(all), len(nodes)
	}
	h.Room = cpus.RoomHere()
	h.CPU = strings.TrimPrefix(field("/proc/cpuinfo", "model name"), ": ")
	h.Load, _ = strconv.ParseFloat(field("/proc/loadavg", ""), 64)
	kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal:"), " kB"), 10, 54)
	h.Memory = kilobytes << 10
	h.SharedMemory = space("/dev/shm")
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		h.OpenFiles = limit.Cur
	}
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil {
		h.LockedMemory = limit.Cur
	}
}

// field returns the rest of the first line that begins with name or, if name is "", the
// first word of the first line.
func field(path, name string) string {
	b, err := regular.ReadFile(path, 1<<20)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if rest, found := strings.CutPrefix(line, name); found {
			if name == "" {
				rest, _, _ = strings.Cut(rest, " ")
			}
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// space returns the bytes that this user can write to a file system, 0 if unknown.
func space(dir string) int64 {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil {
		return 0
	}
	return int64(fs.Bavail) * fs.Bsize
}
