package jobs

import (
	"bytes"
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

// ranksOn returns the processes of ranks on a host.
func (c *cluster) ranksOn(host int) (pids []int) {
	for _, pid := range c.processes(host) {
		if env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); bytes.Contains(env, []byte("\x00WDLRUN_RANK=")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// steps reports whether the training in a folder has done a step.
func steps(dir, out string) bool {
	found, _ := filepath.Glob(filepath.Join(dir, out, "2*", "metrics.jsonl"))
	return len(found) > 0
}

// TestAHostLeaves sends SIGTERM to the processes of one of two hosts, as a cluster does that drains
// a machine. The ranks write a checkpoint. With -min-np or -replicas the training continues on the
// other host, otherwise on both. It repeats no step, and the model has the bits of an undisturbed
// training.
func TestAHostLeaves(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	c := newCluster(t, 2)
	slots := append(few(t), "-set", "train.slots=4", "-set", "train.epochs=6")
	calm := train(t, c.folder, 1, append(slots, "-out", "calm")...)
	hostProcess := func(host int) []int {
		return c.processes(host)[:1] // the oldest process
	}
	for _, x := range []struct {
		name  string
		who   func(host int) []int
		host  int
		flags []string
		job   []string
		size  int
		says  string
	}{
		{"ranks", c.ranksOn, 1, []string{"-restarts", "3", "-min-np", "2"}, slots, 2, "wdlrun: host b leaves: 2 ranks continue without it, from the checkpoint of step "},
		{"host of rank 0", c.ranksOn, 0, []string{"-restarts", "3", "-min-np", "2"}, slots, 2, "wdlrun: host a leaves: 2 ranks continue without it, from the checkpoint of step "},
		{"all ranks needed", hostProcess, 1, []string{"-restarts", "3"}, slots, 4, "wdlrun: host b leaves: the job starts again when it answers, from the checkpoint of step "},
		{"replicas", c.ranksOn, 1, nil, append(few(t), "-set", "train.epochs=6", "-replicas", "2"), 2, "wdlrun: host b leaves: 2 ranks continue without it, from the checkpoint of step "},
		{"no restarts", c.ranksOn, 1, nil, slots, 4, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			out := strings.ReplaceAll(x.name, " ", "-")
			args := append(append([]string{"-H", "a:2,b:2"}, x.flags...), "train", "--json", "-out", out)
			cmd := c.launch(t, append(args, x.job...)...)
			fatal.If(t, cmd.Start())
			eventually(t, "steps", func() bool { return steps(c.folder, out) })
			for _, pid := range x.who(x.host) {
				kill(t, pid, syscall.SIGTERM)
			}
			o := end(t, cmd)
			if x.says == "" {
				if o.code != 143 || strings.Contains(o.stderr, "leaves") {
					t.Errorf("exit code %d\n%s", o.code, o.stderr)
				}
				return
			}
			if o.code != 0 || strings.Count(o.stderr, x.says) != 1 || strings.Contains(o.stderr, " was lost") {
				t.Fatalf("exit code %d, want %q once in\n%s", o.code, x.says, o.stderr)
			}
			r := parseTrained(t, o)
			if r.WorldSize != x.size || r.Samples != calm.Samples {
				t.Errorf("%+v, undisturbed %+v", r, calm)
			}
			if x.name != "replicas" && (r.AUC != calm.AUC || r.LogLoss != calm.LogLoss) {
				t.Errorf("%+v, undisturbed %+v", r, calm)
			}
			c.empty(t)
		})
	}
}

// TestAnAgentStops ends the agent of one of two machines during a training, and starts it again. The
// training continues with a checkpoint as soon as the agent answers. Attempts do not count as restarts.
func TestAnAgentStops(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	a := newAgents(t)
	flags := append(few(t), "-set", "train.slots=2", "-set", "train.epochs=6")
	calm := train(t, a.home(0), 1, append(flags, "-out", "calm")...)
	cmd := a.command(t, 0, append([]string{"-H", "@a:1,@b:1", "-restarts", "1", "train", "--json"}, flags...)...)
	fatal.If(t, cmd.Start())
	eventually(t, "steps", func() bool { return steps(a.home(0), "runs") })
	kill(t, a.run[1].Process.Pid, syscall.SIGTERM)
	a.run[1].Wait()
	time.Sleep(3 * time.Second) // attempts fail
	a.start(t, 1, a.run[1].Args[len(a.run[1].Args)-4:]...)
	o := end(t, cmd)
	const left, waits = "wdlrun: host @b leaves: the job starts again when it answers, from the checkpoint of step ", "wdlrun: host @b does not answer ("
	if r := parseTrained(t, o); o.code != 0 || r.AUC != calm.AUC || r.WorldSize != 2 || strings.Count(o.stderr, left) != 1 || strings.Count(o.stderr, waits) != 1 {
		t.Errorf("exit code %d, %+v, undisturbed %+v\n%s", o.code, r, calm, o.stderr)
	}
}
