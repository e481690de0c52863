package jobs

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// hostStorms is the number of trainings that TestHostStorm starts. docs/running.md has the results of 200.
var hostStorms = flag.Uint64("hosts", 0, "TestHostStorm: trainings that lose a host; 40 take ten minutes; 0 runs 8")

// Faults of a host. The first 8 seeds select each of them with and without -min-np.
const (
	frozen    = "freezes" // its processes stop for some seconds
	unreached = "cut off" // no packet reaches it for some seconds
	rebooted  = "reboots" // its processes are killed, and logins fail for some seconds
	drained   = "drained" // its ranks get SIGTERM
)

// hostStorm is a training on two hosts, one of which is lost for some time.
type hostStorm struct {
	fault string
	host  int
	small bool // -min-np 2: the training continues on the other host
	lines int  // of metrics before the fault; 0: the ranks have started
	pause time.Duration
	away  time.Duration
}

func drawHostStorm(seed uint64) hostStorm {
	rng := rand.New(rand.NewPCG(seed, 41))
	return hostStorm{
		fault: []string{frozen, unreached, rebooted, drained}[seed/2%4], small: seed%2 == 1, host: rng.IntN(2), lines: rng.IntN(12),
		pause: time.Duration(rng.IntN(300)) * time.Millisecond, away: time.Duration(3+rng.IntN(6)) * time.Second,
	}
}

// TestHostStorm loses one of two hosts at a random moment of a training with -restarts 3, with and without
// -min-np. Each training that can continue does, and has the bits of an undisturbed one.
func TestHostStorm(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	c := newCluster(t, 2)
	flags := append(few(t), "-set", "train.slots=4", "-set", "train.epochs=4")
	calm := train(t, c.folder, 1, append(flags, "-out", "calm")...)
	n, missed := max(*hostStorms, 8), uint64(0)
	for seed := range n {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := drawHostStorm(seed)
			out := fmt.Sprintf("storm-%d", seed)
			args := []string{"-H", "a:2,b:2", "-restarts", "3"}
			if s.small {
				args = append(args, "-min-np", "2")
			}
			cmd := c.launch(t, append(append(args, "train", "--json", "-out", out), flags...)...)
			fatal.If(t, cmd.Start())
			ended := make(chan struct{})
			go func() { cmd.Wait(); close(ended) }()
			hit := s.strike(t, c, out, ended)
			<-ended
			o := outcome{fmt.Sprint(cmd.Stdout), fmt.Sprint(cmd.Stderr), cmd.ProcessState.ExitCode()}
			if !hit {
				missed++
			}
			t.Logf("%+v: struck %t", s, hit)
			if o.code != 0 {
				t.Fatalf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
			}
			if r := parseTrained(t, o); r.AUC != calm.AUC || r.LogLoss != calm.LogLoss || r.Samples != calm.Samples {
				t.Errorf("%+v, undisturbed %+v\n%s", r, calm, o.stderr)
			}
			c.empty(t)
		})
	}
	if missed > n/4 {
		t.Errorf("%d of %d trainings ended before their host was lost", missed, n)
	}
}

// strike loses the host and brings it back. It returns false if the training ends before.
func (s hostStorm) strike(t *testing.T, c *cluster, out string, ended <-chan struct{}) (hit bool) {
	t.Helper()
	is := func(ready func() bool) bool {
		for !ready() {
			select {
			case <-ended:
				return false
			case <-time.After(5 * time.Millisecond):
			}
		}
		return true
	}
	begun := func() bool {
		if s.lines == 0 {
			return len(c.ranksOn(s.host)) == 2
		}
		found, _ := filepath.Glob(filepath.Join(c.folder, out, "2*", "metrics.jsonl"))
		if len(found) == 0 {
			return false
		}
		b, _ := os.ReadFile(found[0])
		return bytes.Count(b, []byte("\n")) >= s.lines
	}
	if !is(begun) {
		return false
	}
	time.Sleep(s.pause)
	select {
	case <-ended:
		return false
	default:
	}
	link := fmt.Sprintf("ip link set v%d ", s.host)
	victims := c.processes(s.host)
	signal := func(sig syscall.Signal, pids []int) {
		for _, pid := range pids {
			kill(t, pid, sig)
		}
	}
	switch s.fault {
	case drained:
		signal(syscall.SIGTERM, c.ranksOn(s.host))
		return true
	case frozen:
		signal(syscall.SIGSTOP, victims)
	case rebooted:
		c.do(t, c.hub, link+"down")
		signal(syscall.SIGKILL, victims)
	case unreached:
		c.do(t, c.hub, link+"down")
	}
	time.Sleep(s.away)
	if s.fault == frozen {
		signal(syscall.SIGCONT, victims)
	} else {
		c.do(t, c.hub, link+"up")
	}
	return true
}
