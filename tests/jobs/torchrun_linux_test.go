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

// torchrun prepares PyTorch's launcher of two processes. tests/jobs/torchrun installs it.
func torchrun(t *testing.T, dir string, flags []string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("torchrun")
	if err != nil {
		t.Skipf("%v: tests/jobs/torchrun FOLDER, and add its bin to PATH", err)
	}
	cmd := command(t, dir, args...)
	cmd.Args = append(append([]string{path, "--nproc_per_node=2", "--no_python"}, flags...), cmd.Args...)
	cmd.Path, cmd.Env = path, append(os.Environ(), "TMPDIR="+t.TempDir())
	return cmd
}

// both returns the processes of the two ranks.
func both(t *testing.T, dir string) map[int]int {
	t.Helper()
	return map[int]int{0: withVariable(t, dir, "RANK=0"), 1: withVariable(t, dir, "RANK=1")}
}

// TestTorchrun trains under PyTorch's launcher: with the bits of another launcher; when it is ended by a signal that it
// does not pass on; when it starts the ranks again; and when its variables are left over in a shell.
func TestTorchrun(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	t.Run("bits", torchrunTrains)
	for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) { torchrunEnds(t, sig) })
	}
	t.Run("again", func(t *testing.T) { torchrunStartsAgain(t, false) })
	t.Run("again with resume", func(t *testing.T) { torchrunStartsAgain(t, true) })
	t.Run("left over", torchrunLeftOver)
}

func torchrunTrains(t *testing.T) {
	dir := t.TempDir()
	want := train(t, dir, 2, append(few(t), "-out", "calm")...)
	cmd := torchrun(t, dir, nil, append([]string{"train", "--json"}, few(t)...)...)
	fatal.If(t, cmd.Start())
	if o := end(t, cmd); o.code != 0 {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	} else if r := parseTrained(t, o); r.WorldSize != 2 || r.AUC != want.AUC || r.LogLoss != want.LogLoss {
		t.Errorf("%+v, under wdlrun %+v", r, want)
	}
}

// torchrunEnds: the ranks write a checkpoint and end when torchrun has ended.
func torchrunEnds(t *testing.T, sig syscall.Signal) {
	dir := t.TempDir()
	cmd := torchrun(t, dir, nil, "train", "-set", "model.hidden=[32]", "-set", "train.epochs=1000")
	fatal.If(t, cmd.Start())
	waitRun(t, dir, cmd)
	pids := both(t, dir)
	kill(t, cmd.Process.Pid, sig)
	gone(t, pids)
	cmd.Wait() // the ranks hold its output
	if said := fmt.Sprint(cmd.Stderr); strings.Count(said, "wdlrun: torchrun, process ") != 1 {
		t.Error(said)
	}
	waitCheckpoint(t, dir)
}

// torchrunStartsAgain kills a rank. torchrun starts both again, at step 0 without -resume, which a line says.
func torchrunStartsAgain(t *testing.T, resume bool) {
	dir := t.TempDir()
	args := append([]string{"train", "--json"}, append(few(t), "-set", "train.epochs=20")...)
	if resume {
		args = append(args, "-resume", "auto")
	}
	cmd := torchrun(t, dir, []string{"--max-restarts=1", "--monitor_interval=1"}, args...)
	fatal.If(t, cmd.Start())
	waitCheckpoint(t, dir)
	kill(t, both(t, dir)[1], syscall.SIGKILL)
	o := end(t, cmd)
	begins := strings.Contains(o.stderr, "wdlrun: torchrun has started this job again (restart 1): it begins at step 0; ")
	if o.code != 0 || begins == resume {
		t.Errorf("exit code %d, begins at step 0: %t\n%s%s", o.code, begins, o.stdout, o.stderr)
	}
	found, _ := filepath.Glob(filepath.Join(dir, "runs", "2*"))
	if want := map[bool]int{false: 2, true: 1}[resume]; len(found) != want {
		t.Errorf("run directories %q, want %d", found, want)
	}
}

// torchrunLeftOver starts wdlrun in the environment of a rank, without torchrun. The error names the variables.
func torchrunLeftOver(t *testing.T) {
	dir := t.TempDir()
	cmd := torchrun(t, dir, nil)
	cmd.Args = append(cmd.Args[:3:3], "sh", "-c", `if [ $RANK = 0 ]; then env; fi`)
	fatal.If(t, cmd.Start())
	env := end(t, cmd).stdout
	cmd = command(t, dir, "train")
	cmd.Env = strings.Split(strings.TrimSpace(env), "\n")
	fatal.If(t, cmd.Start())
	o := end(t, cmd)
	if want := `by the variables of torchrun, this is rank 0 of 2 (RANK="0", WORLD_SIZE="2"), but no process of another rank is on this host`; o.code == 0 || strings.Count(o.stderr, want) != 1 {
		t.Errorf("exit code %d, want one line %q\n%s", o.code, want, o.stderr)
	}
}
