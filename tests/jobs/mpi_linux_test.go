package jobs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestAStoppedRankUnderHydra: mpiexec of MPICH and Intel MPI sends the other ranks SIGTERM after the verdict,
// which a stopped process does not receive, and waits for it. The job ends all the same.
func TestAStoppedRankUnderHydra(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	mpiexec, err := exec.LookPath("mpiexec.hydra")
	if err != nil {
		t.Skipf("%v: install mpich", err)
	}
	for _, stopped := range []int{1, 0} {
		dir := t.TempDir()
		cmd := command(t, dir, "train", "-set", "train.epochs=1000", "-set", "model.hidden=[32]")
		cmd.Args, cmd.Path = append([]string{mpiexec, "-np", "3"}, cmd.Args...), mpiexec
		fatal.If(t, cmd.Start())
		waitRun(t, dir, cmd)
		pid := withVariable(t, dir, fmt.Sprintf("PMI_RANK=%d", stopped))
		kill(t, pid, syscall.SIGSTOP)
		o := end(t, cmd)
		if want := fmt.Sprintf("rank %d", stopped); o.code == 0 || !strings.Contains(o.stderr, want) || !strings.Contains(o.stderr, "has been silent for ") || alive(pid) {
			t.Errorf("rank %d: exit code %d, alive %t\n%s", stopped, o.code, alive(pid), o.stderr)
		}
	}
}

// withVariable returns the process that works in dir and has an environment variable NAME=VALUE.
func withVariable(t *testing.T, dir, variable string) (pid int) {
	t.Helper()
	eventually(t, "the process with "+variable, func() bool {
		found, _ := filepath.Glob("/proc/[1-9]*/environ")
		for _, path := range found {
			b, _ := os.ReadFile(path)
			cwd, _ := os.Readlink(filepath.Join(filepath.Dir(path), "cwd"))
			if cwd == dir && strings.Contains("\x00"+string(b), "\x00"+variable+"\x00") {
				fmt.Sscan(filepath.Base(filepath.Dir(path)), &pid)
			}
		}
		return pid != 0
	})
	return pid
}
