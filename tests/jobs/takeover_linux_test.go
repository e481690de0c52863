package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestLostHostOfRankZero: the host of rank 0 freezes, with the lock of the run directory on a shared
// disk. With -min-np the training continues without it. When the host continues during the rest of
// the training, its processes change nothing: the bits are those of an undisturbed training.
func TestLostHostOfRankZero(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	client, homes := fakeSSH(t, login)
	dir := t.TempDir()
	flags := append(few(t), "-set", "train.slots=4", "-set", "train.checkpoint.every_steps=5", "-set", "train.epochs=6")
	calm := train(t, dir, 1, append(flags, "-out", "calm")...)
	var out, lines bytes.Buffer
	cmd := command(t, dir, append([]string{"-H", "a:2,b:2", "-ssh", client, "-restarts", "3", "-min-np", "2", "train", "--json"}, flags...)...)
	cmd.Stdout, cmd.Stderr = &out, &lines
	fatal.If(t, cmd.Start())
	committed := func() string {
		found, _ := filepath.Glob(filepath.Join(dir, "runs/2*/checkpoints/step-*"))
		return strings.Join(found, " ")
	}
	eventually(t, "a checkpoint", func() bool { return committed() != "" })
	frozen := below(filepath.Join(homes, "a"))
	for _, pid := range frozen {
		syscall.Kill(pid, syscall.SIGSTOP)
	}
	time.Sleep(time.Second) // of a checkpoint that is under way, all other parts are written
	before := committed()
	eventually(t, "a checkpoint of the next generation", func() bool { return committed() != before })
	for _, pid := range frozen {
		syscall.Kill(pid, syscall.SIGCONT)
	}
	err := cmd.Wait()
	got := parseTrained(t, outcome{stdout: out.String(), stderr: lines.String()})
	if err != nil || got.AUC != calm.AUC || got.LogLoss != calm.LogLoss || strings.Contains(lines.String(), "is in use by") {
		t.Errorf("%v, %+v, undisturbed %+v\n%s", err, got, calm, lines.String())
	}
	if o := run(t, dir, "ckpt", "verify", filepath.Dir(filepath.Dir(strings.Fields(committed())[0]))); o.code != 0 {
		t.Errorf("the checkpoints are damaged: %s%s", o.stdout, o.stderr)
	}
}

// againTime bounds the time from the loss of a host to new steps on the others. Four seconds of it are
// the silence after which a host counts as lost. The rest is generous for a busy machine: BenchmarkHosts measures the time.
const againTime = 4 * time.Minute

// TestTrainsAgainWithoutAHost cuts one of four hosts off, also that of rank 0. With -min-np, the other hosts soon
// take new steps.
func TestTrainsAgainWithoutAHost(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	c := newCluster(t, 4)
	for _, host := range []int{0, 1} {
		if took := c.again(t, host); took > againTime {
			t.Errorf("host %d: new steps after %v, want at most %v", host, took, againTime)
		} else {
			t.Logf("host %d: new steps after %v", host, took)
		}
	}
}

// again cuts a host off during a training on four, and returns the time until the others have taken a step that no
// rank had taken before.
func (c *cluster) again(t testing.TB, host int) time.Duration {
	t.Helper()
	out, err := os.MkdirTemp(c.folder, "again-")
	fatal.If(t, err)
	cmd := c.launch(t, "-H", "a:2,b:2,c:2,d:2", "-restarts", "3", "-min-np", "6", "train", "-out", out, "-set", "train.epochs=100000", "-set", "train.checkpoint.every_steps=20")
	fatal.If(t, cmd.Start())
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	last := func() (step int64) {
		found, _ := filepath.Glob(filepath.Join(out, "2*", "metrics.jsonl"))
		b, _ := os.ReadFile(strings.Join(found, ""))
		for line := range bytes.Lines(b) {
			var x struct{ Step int64 }
			if json.Unmarshal(line, &x) == nil {
				step = x.Step
			}
		}
		return step
	}
	await := func(step int64) time.Duration {
		begin := time.Now()
		for last() <= step {
			select {
			case <-ended:
				t.Fatalf("host %d: the training ended\n%s", host, cmd.Stderr)
			case <-time.After(5 * time.Millisecond):
			}
			if time.Since(begin) > patience {
				kill(t, cmd.Process.Pid, syscall.SIGTERM)
				<-ended
				t.Fatalf("host %d: no step after %d within %v\n%s", host, step, patience, cmd.Stderr)
			}
		}
		return time.Since(begin)
	}
	await(60) // a checkpoint is there
	link := fmt.Sprintf("ip link set v%d ", host)
	c.do(t, c.hub, link+"down")
	took := await(last())
	kill(t, cmd.Process.Pid, syscall.SIGTERM)
	<-ended
	c.do(t, c.hub, link+"up")
	c.empty(t)
	return took
}
