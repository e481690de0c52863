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

// TestRanksEndWithTheirLauncher: a stand-in for torchrun, which starts two ranks, is killed. The ranks write
// a checkpoint and end. When it starts them again without -resume, a line says so.
func TestRanksEndWithTheirLauncher(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	const script = `export TORCHELASTIC_RUN_ID=none MASTER_ADDR=localhost MASTER_PORT=$$ WORLD_SIZE=2 LOCAL_WORLD_SIZE=2
for r in 0 1; do RANK=$r LOCAL_RANK=$r "$0" "$@" & done
wait`
	start := func(restarts string, args ...string) *exec.Cmd {
		cmd := command(t, dir, append([]string{"train", "-set", "model.hidden=[32]"}, args...)...)
		cmd.Args, cmd.Path = append([]string{"sh", "-c", script}, cmd.Args...), "/bin/sh"
		cmd.Env = append(os.Environ(), "TORCHELASTIC_RESTART_COUNT="+restarts)
		fatal.If(t, cmd.Start())
		return cmd
	}
	cmd := start("0", "-set", "train.epochs=1000")
	waitRun(t, dir, cmd)
	pids := map[int]int{0: withVariable(t, dir, "RANK=0"), 1: withVariable(t, dir, "RANK=1")}
	kill(t, cmd.Process.Pid, syscall.SIGKILL)
	gone(t, pids)
	cmd.Wait() // the ranks hold its output
	if said := fmt.Sprint(cmd.Stderr); strings.Count(said, "wdlrun: torchrun, process ") != 1 {
		t.Error(said)
	}
	waitCheckpoint(t, dir)

	cmd = start("1")
	if o := end(t, cmd); o.code != 0 || !strings.Contains(o.stderr, "wdlrun: torchrun has started this job again (restart 1): it begins at step 0; ") {
		t.Errorf("exit code %d: %s", o.code, o.stderr)
	}
}
