package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// ranksOf returns the process ids of a launcher's ranks.
func ranksOf(launcher int) map[int]int {
	pids := map[int]int{}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", launcher))
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		for _, f := range strings.Fields(string(b)) {
			pid, _ := strconv.Atoi(f)
			env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			for _, v := range bytes.Split(env, []byte{0}) {
				if r, ok := strings.CutPrefix(string(v), "WDLRUN_RANK="); ok {
					rank, _ := strconv.Atoi(r)
					pids[rank] = pid
				}
			}
		}
	}
	return pids
}

// waitRanks waits until all ranks of a launcher run. If the job ends earlier, it returns the
// ranks found so far.
func waitRanks(t testing.TB, launcher, np int) (pids map[int]int) {
	t.Helper()
	eventually(t, "the start of all ranks", func() bool {
		ended := !alive(launcher)
		pids = ranksOf(launcher)
		return len(pids) == np || ended
	})
	return pids
}

// waitCheckpoint waits for the first checkpoint under dir.
func waitCheckpoint(t testing.TB, dir string) {
	t.Helper()
	eventually(t, "a checkpoint", func() bool {
		found, _ := filepath.Glob(filepath.Join(dir, "runs", "2*", "checkpoints", "step-*"))
		return len(found) > 0
	})
}

// gone waits until all processes have ended.
func gone(t testing.TB, pids map[int]int) {
	t.Helper()
	eventually(t, fmt.Sprintf("the end of processes %v", pids), func() bool { return !slices.ContainsFunc(values(pids), alive) })
}

func values(m map[int]int) (v []int) {
	for _, x := range m {
		v = append(v, x)
	}
	return v
}

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// kill sends a signal, unless the process has ended or was not found. Its id is then 0, and a
// signal to 0 would reach this test and all its processes.
func kill(t testing.TB, pid int, sig syscall.Signal) {
	t.Helper()
	if pid == 0 {
		return
	}
	if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
		t.Error(err)
	}
}

// TestKillAnyRankAtAnyMoment kills one of three ranks with SIGKILL at up to ten moments between
// start and end. A moment is a number of lines of metrics plus a random pause, so that a slow
// machine is in the same phase. The job must end with a verdict that names the rank. The resumed
// training must give the bits of the uninterrupted one.
func TestKillAnyRankAtAnyMoment(t *testing.T) {
	t.Parallel()
	moments := patient.Size(2, 10)
	const np = 3
	whole, want := undisturbed(t, np, few(t))
	lines := whole.Steps / 20 // package train writes a line every 20 steps
	rng := rand.New(rand.NewPCG(20, 1))
	verdicts := 0
	for i := range moments {
		m := moment{lines: int(lines) * i / moments, pause: time.Duration(rng.IntN(30)) * time.Millisecond, victim: rng.IntN(np)}
		t.Run(fmt.Sprint(m), func(t *testing.T) {
			if killed := killAndResume(t, np, m, whole, want); killed {
				verdicts++
			}
		})
	}
	if verdicts < moments/2 {
		t.Errorf("only %d of %d kills happened while the job was running", verdicts, moments)
	}
}

// moment names the rank to kill and when to kill it.
type moment struct {
	lines  int // of metrics.jsonl, at least
	pause  time.Duration
	victim int
}

func (m moment) String() string {
	return fmt.Sprintf("rank %d %v after line %d", m.victim, m.pause, m.lines)
}

// wait waits for the moment, or the end of the job.
func (m moment) wait(dir string, done <-chan struct{}) {
	for {
		found, _ := filepath.Glob(filepath.Join(dir, "runs", "2*", "metrics.jsonl"))
		var b []byte
		if len(found) > 0 {
			b, _ = os.ReadFile(found[0])
		}
		if bytes.Count(b, []byte("\n")) >= m.lines {
			break
		}
		select {
		case <-done:
			return
		case <-time.After(2 * time.Millisecond):
		}
	}
	time.Sleep(m.pause)
}

// killAt kills a rank of a job at a moment and waits for the end of the job.
func killAt(t *testing.T, cmd *exec.Cmd, pids map[int]int, m moment) outcome {
	t.Helper()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() { m.wait(cmd.Dir, done); kill(t, pids[m.victim], syscall.SIGKILL); close(ended) }()
	o := end(t, cmd)
	close(done)
	<-ended
	gone(t, pids)
	return o
}

func killAndResume(t *testing.T, np int, m moment, whole trained, want map[string]string) (killed bool) {
	dir := t.TempDir()
	cmd := command(t, dir, append([]string{"-np", fmt.Sprint(np), "train", "--json"}, few(t)...)...)
	fatal.If(t, cmd.Start())
	pids := waitRanks(t, cmd.Process.Pid, np)
	o := killAt(t, cmd, pids, m)
	if killed = o.code != 0; killed {
		if line := fmt.Sprintf("rank %d ", m.victim); o.code != 137 || !strings.Contains(o.stderr, line) || !strings.Contains(o.stderr, "killed by signal 9") {
			t.Errorf("exit code %d, no verdict on rank %d:\n%s", o.code, m.victim, o.stderr)
		}
		var said struct {
			ExitCode int `json:"exit_code"`
			Verdict  struct{ Rank int }
		}
		if err := json.Unmarshal([]byte(o.stdout), &said); err != nil || said.ExitCode != 137 || said.Verdict.Rank != m.victim {
			t.Errorf("JSON line %q (%v)", o.stdout, err)
		}
		if n := strings.Count(o.stderr, "wdlrun: rank "); n != 1 {
			t.Errorf("%d verdicts, want 1:\n%s", n, o.stderr)
		}
	}
	runs, _ := filepath.Glob(filepath.Join(dir, "runs", "2*"))
	if len(runs) == 0 {
		return killed // there is no checkpoint yet
	}
	run, _ := filepath.Rel(dir, runs[0])
	if found, _ := filepath.Glob(filepath.Join(runs[0], "checkpoints", "step-*")); len(found) == 0 {
		return killed
	}
	r := train(t, dir, np, "-resume", run)
	if r.AUC != whole.AUC || r.TrainLogLoss != whole.TrainLogLoss || r.Samples != whole.Samples {
		t.Errorf("resumed %+v, uninterrupted %+v", r, whole)
	}
	samePart(t, "killed and resumed", parts(t, dir, r.RunDir, r.Steps), want)
	return killed
}

// TestKilledLauncher: if the launcher is killed, its ranks and their child processes end.
func TestKilledLauncher(t *testing.T) {
	t.Parallel()
	for name, program := range map[string][]string{
		"training":      {"train", "-set", "train.epochs=1000"},
		"grandchildren": {"sh", "-c", "sleep 1000 & wait"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := command(t, dir, append([]string{"-np", "2"}, program...)...)
			// The output goes to files: with pipes an orphan would keep this test waiting.
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			fatal.If(t, err)
			defer out.Close()
			cmd.Stdout, cmd.Stderr = out, out
			fatal.If(t, cmd.Start())
			pids := waitRanks(t, cmd.Process.Pid, 2)
			if name == "training" {
				waitRun(t, dir)
			} else {
				eventually(t, "what the ranks start", func() bool {
					return !slices.ContainsFunc(values(pids), func(pid int) bool { return len(children(pid)) == 0 })
				})
			}
			for _, pid := range values(pids) {
				for i, child := range children(pid) {
					pids[100*pid+i] = child
				}
			}
			kill(t, cmd.Process.Pid, syscall.SIGKILL)
			cmd.Wait()
			gone(t, pids)
		})
	}
}

func children(pid int) (all []int) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, f := range strings.Fields(string(b)) {
		child, _ := strconv.Atoi(f)
		all = append(all, child)
	}
	return all
}

// TestStoppedRankIsNamed: a rank stopped by SIGSTOP ends the job. The verdict names it, and the
// stacks and traces of all ranks are stored.
func TestStoppedRankIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := command(t, dir, "-np", "2", "train", "-set", "train.epochs=1000") // the job must end before the timeout of 30 s
	fatal.If(t, cmd.Start())
	pids := waitRanks(t, cmd.Process.Pid, 2)
	waitCheckpoint(t, dir)
	kill(t, pids[1], syscall.SIGSTOP)
	begin := time.Now()
	o := end(t, cmd)
	gone(t, pids)
	if o.code == 0 || !strings.Contains(o.stderr, "wdlrun: rank 1 ") || !strings.Contains(o.stderr, "silent") {
		t.Errorf("exit code %d after %v:\n%s", o.code, time.Since(begin), o.stderr)
	}
	if !strings.Contains(o.stderr, "rank 0 waits for it in phase ") {
		t.Errorf("no rank is reported as waiting:\n%s", o.stderr)
	}
	_, folder, _ := strings.Cut(o.stderr, "wdlrun: kept: stacks and traces of ranks 0, 1: ") // the stopped rank is resumed so that it writes its stacks
	folder, _, _ = strings.Cut(folder, "\n")
	for name, holds := range map[string]string{
		"rank-0000.stacks": "train.(*Job).", // this rank waited, usually in a step
		"rank-0001.stacks": "goroutine 1 ",  // this rank was stopped at a random place
		"rank-0000.trace":  "  so far\n",
		"rank-0001.trace":  "  so far\n",
		"verdict.txt":      "rank 1 (host ",
	} {
		if b, err := os.ReadFile(filepath.Join(dir, folder, name)); err != nil || !strings.Contains(string(b), holds) {
			t.Errorf("%s does not contain %q (%v):\n%.300s", name, holds, err, b)
		}
	}
}

// TestInterrupt: after Ctrl-C the job writes a checkpoint, and every rank ends with exit code
// 130. The training resumes from the checkpoint.
func TestInterrupt(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	cmd := command(t, dir, append([]string{"-np", "2", "train", "--json"}, short...)...)
	fatal.If(t, cmd.Start())
	pids := waitRanks(t, cmd.Process.Pid, 2)
	waitCheckpoint(t, dir)
	kill(t, cmd.Process.Pid, syscall.SIGINT)
	o := end(t, cmd)
	gone(t, pids)
	if o.code != 130 {
		t.Fatalf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	stopped := parseTrained(t, o)
	if !stopped.Stopped || stopped.Steps == 0 {
		t.Fatalf("result %+v", stopped)
	}
	resumed := train(t, dir, 2, "-resume", stopped.RunDir)
	_, want := undisturbed(t, 2, short)
	samePart(t, "interrupted and resumed", parts(t, dir, resumed.RunDir, resumed.Steps), want)
}

// TestSignalToOneRank: without wdlrun as the launcher, a signal to any rank makes all ranks
// write a checkpoint and end with the same exit code. The code is not 0, because 0 means that
// the training is finished.
func TestSignalToOneRank(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	for _, x := range []struct {
		name   string
		sig    syscall.Signal
		victim int
	}{{"SIGTERM to rank 0", syscall.SIGTERM, 0}, {"SIGTERM to rank 1", syscall.SIGTERM, 1}, {"SIGINT to rank 1", syscall.SIGINT, 1}} {
		t.Run(x.name, func(t *testing.T) {
			dir := t.TempDir()
			hosts := [2]host{{ip: "127.0.0.1"}, {ip: "127.0.0.1"}}
			cmds := onHosts(t, dir, hosts[:], 1, true, "-set", "train.epochs=1000", "-set", "model.hidden=[32]")
			waitRun(t, dir)
			kill(t, cmds[x.victim].Process.Pid, x.sig)
			for r, cmd := range cmds {
				o := end(t, cmd)
				if o.code != 143 {
					t.Errorf("rank %d: exit code %d, want 143\n%s%s", r, o.code, o.stdout, o.stderr)
				}
				if r != 0 {
					continue
				}
				if got := parseTrained(t, o); !got.Stopped || got.Steps == 0 {
					t.Errorf("result %+v", got)
				}
			}
			if found, _ := filepath.Glob(filepath.Join(dir, "runs", "2*", "checkpoints", "step-*")); len(found) == 0 {
				t.Error("no checkpoint")
			}
		})
	}
}

// TestIgnoredSignalsStayIgnored: a program started by nohup ignores SIGHUP. Neither the launcher
// nor a rank ends after SIGHUP then.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := command(t, dir, append([]string{"-np", "2", "train", "--json"}, short...)...)
	cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	fatal.If(t, cmd.Start())
	pids := waitRanks(t, cmd.Process.Pid, 2)
	kill(t, cmd.Process.Pid, syscall.SIGHUP)
	for _, pid := range pids {
		kill(t, pid, syscall.SIGHUP)
	}
	if o := end(t, cmd); o.code != 0 {
		t.Fatalf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}

// TestTheFirstSignalEndsABlockedStart: a blocked read of a file cannot be interrupted, so the
// process exits at the first signal.
func TestTheFirstSignalEndsABlockedStart(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "hosts")
	fatal.If(t, syscall.Mkfifo(pipe, 0o600))
	cmd := command(t, dir, "-hostfile", pipe, "train")
	var said bytes.Buffer
	cmd.Stderr = &said
	fatal.If(t, cmd.Start())
	write, err := os.OpenFile(pipe, os.O_WRONLY, 0) // blocks until the command has opened the other end
	fatal.If(t, err)
	defer write.Close()
	kill(t, cmd.Process.Pid, syscall.SIGTERM)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 143 || !strings.Contains(said.String(), "does not return") {
		t.Fatalf("exit code %d\n%s", code, said.String())
	}
}

// TestAStoppedCoordinator: without wdlrun as the launcher, rank 0 runs the coordinator. If its
// process is stopped, the other ranks end and report the reason.
func TestAStoppedCoordinator(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	hosts := [2]host{{ip: "127.0.0.2"}, {ip: "127.0.0.1"}}
	cmds := onHosts(t, dir, hosts[:], 1, true, "-set", "train.epochs=1000", "-set", "model.hidden=[32]")
	waitRun(t, dir)
	kill(t, cmds[0].Process.Pid, syscall.SIGSTOP)
	begin := time.Now()
	o := end(t, cmds[1])
	if o.code != 1 || !strings.Contains(o.stderr, "rank 0, which hosts the coordinator, has been silent for ") {
		t.Errorf("exit code %d\n%s", o.code, o.stderr)
	}
	t.Logf("the job ended after %.1f s", time.Since(begin).Seconds())
	kill(t, cmds[0].Process.Pid, syscall.SIGKILL)
	end(t, cmds[0])
}

// TestInterruptedWithoutRanks: a command without ranks also ends with the exit code of the
// signal. It leaves no unfinished file.
func TestInterruptedWithoutRanks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, x := range []struct {
		sig  syscall.Signal
		code int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}} {
		cmd := command(t, dir, "gen", "-rows", "1000000000", "-out", "clicks.tsv")
		var said bytes.Buffer
		cmd.Stderr = &said
		fatal.If(t, cmd.Start())
		eventually(t, "a file that grows", func() bool {
			found, _ := filepath.Glob(filepath.Join(dir, "*clicks.tsv*"))
			return len(found) > 0
		})
		kill(t, cmd.Process.Pid, x.sig)
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != x.code || !strings.Contains(said.String(), "interrupted by SIG") {
			t.Errorf("%v: exit code %d, want %d\n%s", x.sig, code, x.code, said.String())
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%v: unfinished files: %v", x.sig, left)
		}
	}
}

// TestCheckpointOrder: after SIGUSR1 to the launcher the job writes a checkpoint and continues.
func TestCheckpointOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := command(t, dir, "-np", "2", "train", "-set", "train.epochs=1000", "-set", "train.global_batch=32")
	fatal.If(t, cmd.Start())
	pids := waitRanks(t, cmd.Process.Pid, 2)
	waitRun(t, dir)
	kill(t, cmd.Process.Pid, syscall.SIGUSR1)
	waitCheckpoint(t, dir)
	if !alive(pids[0]) || !alive(pids[1]) {
		t.Error("a rank ended after SIGUSR1")
	}
	kill(t, cmd.Process.Pid, syscall.SIGTERM)
	if o := end(t, cmd); o.code != 143 {
		t.Errorf("exit code %d after SIGTERM\n%s", o.code, o.stderr)
	}
	gone(t, pids)
}

// waitRun waits for the first lines of metrics, which shows that the training has begun. It
// fails at once if a process ends earlier.
func waitRun(t testing.TB, dir string, cmds ...*exec.Cmd) {
	t.Helper()
	eventually(t, "the beginning of training", func() bool {
		for _, cmd := range cmds {
			if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid)); strings.Contains(string(b), ") Z ") {
				t.Fatal("a process ended before the training began")
			}
		}
		found, _ := filepath.Glob(filepath.Join(dir, "runs", "2*", "metrics.jsonl"))
		if len(found) == 0 {
			return false
		}
		info, err := os.Stat(found[0])
		return err == nil && info.Size() > 0
	})
}

// TestFullDisk limits the size of files, which has the effect of a full disk while a checkpoint
// is written. The training continues and reports the error.
func TestFullDisk(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	bin, err := wdlrun()
	fatal.If(t, err)
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", `ulimit -f 64; exec "$0" "$@"`, bin, "-np", "2", "train", "--json", "-set", "train.epochs=1")
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = new(bytes.Buffer), new(bytes.Buffer)
	fatal.If(t, cmd.Start())
	o := end(t, cmd)
	if o.code != 1 {
		t.Fatalf("exit code %d, want 1 because the model was not saved\n%s", o.code, o.stderr)
	}
	if r := parseTrained(t, o); r.Samples != 32561 || r.AUC < 0.9 {
		t.Errorf("trained %d samples to AUC %.4f", r.Samples, r.AUC)
	}
	if !strings.Contains(o.stderr, "failed, training continues") || !strings.Contains(o.stderr, ".wck") || !strings.Contains(o.stderr, "could not be saved") {
		t.Errorf("the error is not reported:\n%s", o.stderr)
	}
	if n := strings.Count(o.stderr, "failed, training continues"); n != 1 {
		t.Errorf("the failure of the only checkpoint is reported %d times, want once for both attempts:\n%s", n, o.stderr)
	}
	for line := range strings.Lines(o.stderr) {
		if strings.Count(line, ".wck") > 1 {
			t.Errorf("a line contains two paths: %s", line)
		}
	}
	folder := filepath.Join(dir, "runs", "2*", "checkpoints")
	left, _ := filepath.Glob(filepath.Join(folder, "*"))
	left = slices.DeleteFunc(left, func(path string) bool { return strings.HasPrefix(filepath.Base(path), ".turn-") }) // see design/0015
	inTurn, _ := filepath.Glob(filepath.Join(folder, ".turn-*", "*step-*"))
	if left = append(left, inTurn...); len(left) != 0 {
		t.Errorf("unfinished checkpoints: %v", left)
	}
}

// TestFullDiskAtTheEnd: if the last checkpoint fails, it is written again. If that fails too,
// the output advises to resume from an earlier checkpoint, if one exists, and lists only files
// that exist.
func TestFullDiskAtTheEnd(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	o := run(t, t.TempDir(), "-np", "2", "train", "-chaos", "diskfull@1@step128", "-json", "-set", "train.epochs=1", "-set", "model.hidden=[32]")
	if o.code != 0 || !strings.Contains(o.stderr, "checkpoint of step 128 failed") || !strings.Contains(o.stderr, "the checkpoint of step 128 could be written after all") ||
		!strings.Contains(o.stdout, "step-000000128") {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	o = run(t, dir, "-np", "1", "train", "-chaos", "diskfull@step128,diskfull@step128", "-set", "train.epochs=1", "-set", "train.checkpoint.every_steps=50", "-set", "model.hidden=[32]")
	if o.code != 1 || !strings.Contains(o.stderr, "step-000000100 is the last one: free some space and resume from it: ") || !strings.Contains(o.stderr, "/wdlrun -np 1 train -resume runs/") {
		t.Errorf("exit code %d\n%s", o.code, o.stderr)
	}
	if n := strings.Count(o.stderr, "checkpoint of step 128 failed"); n != 1 {
		t.Errorf("the failure is reported %d times, want once:\n%s", n, o.stderr)
	}
	if !strings.Contains(o.stdout, "  checkpoints/    up to step-000000100, to resume from\n") || !strings.Contains(o.stdout, "trace-*.json") {
		t.Error(o.stdout)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "runs", "2*"))
	if len(left) != 1 {
		t.Fatal(left)
	}
	if o = run(t, dir, "train", "-resume", left[0]); o.code != 0 {
		t.Errorf("exit code %d\n%s", o.code, o.stderr)
	}
}

// TestFullDiskOfATier: if rows do not fit on disk, the training ends and the error names the
// table and the file. With more space it resumes from the last checkpoint.
func TestFullDiskOfATier(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	bin, err := wdlrun()
	fatal.If(t, err)
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString("y,words\n")
	for range 3000 {
		fmt.Fprintf(&b, "%d,", rng.IntN(2))
		for range 8 {
			fmt.Fprintf(&b, "%d|", rng.Uint32N(1<<20))
		}
		b.WriteString("\n")
	}
	write(t, dir, "words.csv", b.String())
	write(t, dir, "c.yaml", `
data: {train: [words.csv], header: true}
label: {field: y}
features: [{field: words, encode: id, separator: "|"}]
tables: [{name: words, tier: {dir: ., memory: 1}}]
train: {checkpoint: {every_steps: 2}}
`)
	// The incremental checkpoints are smaller than 1 MiB. The file of a tier is larger.
	cmd := exec.Command("sh", "-c", `ulimit -f 2048; exec "$0" "$@"`, bin, "-np", "1", "train", "-config", "c.yaml")
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = new(bytes.Buffer), new(bytes.Buffer)
	fatal.If(t, cmd.Start())
	o := end(t, cmd)
	if o.code != 1 || !strings.Contains(o.stderr, `table "words": tier: `) || !strings.Contains(o.stderr, "file too large") || !strings.Contains(o.stderr, "train -resume") {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
	runs, err := filepath.Glob(filepath.Join(dir, "runs", "2*"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("%v, %v", runs, err)
	}
	if r := train(t, dir, 1, "-resume", runs[0]); r.Samples != 3000 {
		t.Errorf("%d samples after resuming", r.Samples)
	}
}

// TestDamagedCheckpoint: a checkpoint with a flipped byte is rejected, and the error names its
// place. The previous checkpoint is used.
func TestDamagedCheckpoint(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	whole := train(t, dir, 2, few(t)...)
	last := filepath.Join(dir, whole.RunDir, "checkpoints", fmt.Sprintf("step-%09d", whole.Steps))
	files, _ := filepath.Glob(filepath.Join(last, "*.wck"))
	b, err := os.ReadFile(files[1])
	fatal.If(t, err)
	b[len(b)/2] ^= 1
	fatal.If(t, os.WriteFile(files[1], b, 0o644))
	o := run(t, dir, "-np", "2", "train", "--json", "-resume", whole.RunDir)
	if o.code != 0 || !strings.Contains(o.stderr, "checkpoint rejected") || !strings.Contains(o.stderr, filepath.Base(files[1])) {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
	if r := parseTrained(t, o); r.AUC != whole.AUC {
		t.Errorf("AUC %v after the fallback, %v before", r.AUC, whole.AUC)
	}
	for _, f := range files { // all checkpoints are now damaged
		os.Truncate(f, 100)
	}
	found, _ := filepath.Glob(filepath.Join(dir, whole.RunDir, "checkpoints", "*", "*.wck"))
	for _, f := range found {
		os.Truncate(f, 100)
	}
	if o := run(t, dir, "-np", "2", "train", "-resume", whole.RunDir); o.code == 0 || !strings.Contains(o.stderr, ".wck") {
		t.Errorf("all checkpoints are truncated: exit code %d:\n%s", o.code, o.stderr)
	}
}

// TestNextOfAnotherLauncher: ranks started by mpirun, srun or a similar launcher print the
// command that resumes the training once. Rank 0 stores the verdict.
func TestNextOfAnotherLauncher(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	fatal.If(t, os.Chmod(dir, 0o700))
	var cmds []*exec.Cmd
	for r := range 3 {
		cmd := command(t, dir, "train", "-chaos", "kill:2@step60", "-set", "train.checkpoint.every_steps=20")
		cmd.Env = append(os.Environ(), fmt.Sprint("WDLRUN_RANK=", r), "WDLRUN_SIZE=3", fmt.Sprint("WDLRUN_LOCAL_RANK=", r), "WDLRUN_LOCAL_SIZE=3", "WDLRUN_JOB=next", "WDLRUN_RENDEZVOUS="+dir)
		fatal.If(t, cmd.Start())
		cmds = append(cmds, cmd)
	}
	var said string
	for _, cmd := range cmds {
		said += end(t, cmd).stderr
	}
	const next, none = "wdlrun: to resume from the last checkpoint: … ", "wdlrun: there is no checkpoint yet in runs/" // the second on a slow disk
	if strings.Count(said, next)+strings.Count(said, none) != 1 || !strings.Contains(said, "rank 2 (") {
		t.Errorf("want %q once in\n%s", next, said)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "runs", "2*", "failure-*", "verdict.txt"))
	if err != nil || len(kept) != 1 {
		t.Errorf("the verdict file: %q, %v", kept, err)
	}
	cmd := command(t, dir, "train", "-set", "train.epochs=1")
	cmd.Env = append(os.Environ(), "WDLRUN_RANK=0", "WDLRUN_SIZE=1", "WDLRUN_LOCAL_RANK=0", "WDLRUN_LOCAL_SIZE=1", "WDLRUN_JOB=one", "WDLRUN_RENDEZVOUS="+dir)
	fatal.If(t, cmd.Start())
	if o := end(t, cmd); o.code != 0 || !strings.Contains(o.stdout, "\nnext           … ") {
		t.Errorf("exit code %d, no … in\n%s%s", o.code, o.stdout, o.stderr)
	}
}
