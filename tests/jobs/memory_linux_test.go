package jobs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// limitMemory creates a control group with a memory limit in bytes under the group of this
// process. It returns the path of the file to which a process writes its id to enter the group.
func limitMemory(t *testing.T, bytes int64) (procs string) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip("no control groups: ", err)
	}
	dir, limit := "", ""
	for line := range strings.Lines(string(b)) {
		switch parts := strings.SplitN(strings.TrimSpace(line), ":", 3); {
		case len(parts) != 3:
		case parts[1] == "memory":
			dir, limit = filepath.Join("/sys/fs/cgroup/memory", parts[2]), "memory.limit_in_bytes"
		case parts[0] == "0" && dir == "":
			dir, limit = filepath.Join("/sys/fs/cgroup", parts[2]), "memory.max"
		}
	}
	dir = filepath.Join(dir, "wdlrun-test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip("cannot create a control group: ", err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	if err := os.WriteFile(filepath.Join(dir, limit), strconv.AppendInt(nil, bytes, 10), 0o644); err != nil {
		t.Skip("cannot limit the memory of a control group: ", err)
	}
	return filepath.Join(dir, "cgroup.procs")
}

// TestOutOfMemoryIsNamed: if the kernel kills a rank for lack of memory, the verdict names this
// cause. Shared windows beyond the limit fail earlier, with an error.
func TestOutOfMemoryIsNamed(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	procs := limitMemory(t, 256<<20)
	cmd := command(t, t.TempDir(), "-np", "1", "train", "-set", "model.batch_norm=true", "-set", "train.batch=32561", "-set", "model.hidden=[4096]")
	cmd.Args = append([]string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, procs, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	fatal.If(t, cmd.Start())
	o := end(t, cmd)
	if o.code == 0 || !strings.Contains(o.stderr, "was killed by signal 9 (SIGKILL)") || !strings.Contains(o.stderr, "used up its 256 MiB of memory") {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
}

// TestFewFiles: ranks that may open fewer files than they have connections report it at once.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	cmd := command(t, t.TempDir(), "-np", "4", "-oversubscribe", "-transport", "tcp", "-streams", "16", "train")
	cmd.Args, cmd.Path = append([]string{"sh", "-c", `ulimit -n 50; exec "$0" "$@"`}, cmd.Args...), "/bin/sh"
	fatal.If(t, cmd.Start())
	o := end(t, cmd)
	const want = "of 4: 99 connections are needed, and this process may open "
	if o.code != 1 || !strings.Contains(o.stderr, want) || !strings.Contains(o.stderr, "raise the limit (ulimit -n), or give a smaller -streams") || strings.Contains(o.stderr, "timeout") {
		t.Errorf("exit code %d, want %q\n%s", o.code, want, o.stderr)
	}
}
