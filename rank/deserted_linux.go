package rank

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// maxEnviron bounds the variables of a process.
const maxEnviron = 8 << 20

// Deserted reports that the launcher of this process starts several ranks on this host, and that no process
// of another one exists: all have ended, or the variables are left over in a shell. It returns false
// if that cannot be known, for example in a container of its own.
func (w World) Deserted() bool {
	if !w.together || w.LocalSize == 1 {
		return false
	}
	found, _ := filepath.Glob("/proc/[1-9]*")
	var pids []int
	for _, path := range found {
		if pid, err := strconv.Atoi(filepath.Base(path)); err == nil {
			pids = append(pids, pid)
		}
	}
	return w.deserted(os.Getppid(), pids, func(pid int) (string, error) {
		b, err := regular.ReadFile(fmt.Sprintf("/proc/%d/environ", pid), maxEnviron)
		return string(b), err
	})
}

// deserted looks for ranks among processes. environ returns the variables of one, each followed by a zero byte.
func (w World) deserted(parent int, pids []int, environ func(pid int) (string, error)) bool {
	if _, err := environ(parent); err != nil || parent <= 1 {
		return false // the processes of the launcher may be hidden from this one
	}
	for _, pid := range pids {
		variables, err := environ(pid)
		if err != nil {
			continue
		}
		o, _, err := fromEnv(lookup(variables), w.Host, parent)
		switch same := o.By == w.By && o.Size == w.Size && o.Job == w.Job; {
		case err != nil, !same:
		case o.Rank != w.Rank, pid == 1: // the first process of a container is this rank: others have their own
			return false
		}
	}
	return true
}

// lookup returns a function that finds a variable.
func lookup(variables string) func(name string) string {
	all := map[string]string{}
	for v := range strings.SplitSeq(variables, "\x00") {
		name, value, _ := strings.Cut(v, "=")
		all[name] = value
	}
	return func(name string) string { return all[name] }
}
