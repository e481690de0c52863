package jobs

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// seeds is the number of trainings that TestSeededFaults starts.
var seeds = flag.Uint64("seeds", 0, "TestSeededFaults: trainings with a fault; 500 take half an hour; 0 runs one, 20 with -whole")

// everydaySeed selects a cut link between hosts, without a launcher. The first 20 seeds select
// every starter and every fault.
const everydaySeed = 5

// seeded is a short training with one fault. All its properties are drawn from a seed.
type seeded struct {
	np      int
	starter string
	fault   string
	at      moment // the victim is the first of the two ranks of a broken link
	peer    int
	rename  bool // the newest checkpoint is renamed before the training resumes
}

// Starters of ranks.
const (
	launcher  = "launcher"
	mpirun    = "mpirun"
	remotely  = "launcher, a host per rank"
	otherwise = "no launcher, a host per rank"
)

// Faults of a rank.
const (
	killed   = "killed"
	stopped  = "stopped"
	cutLink  = "link cut"
	halfOpen = "half-open links" // the host is cut off before the rank is killed, so its connections are not closed
	diskFull = "disk full"
)

func drawSeeded(seed uint64, lines int64) (s seeded) {
	rng := rand.New(rand.NewPCG(seed, 16))
	faults := []string{killed, killed, killed, stopped, diskFull, cutLink, halfOpen}
	switch rng.IntN(5) {
	case 0:
		s.starter, s.np, faults = launcher, 2+rng.IntN(2), faults[:6]
	case 1:
		s.starter, s.np, faults = mpirun, 2+rng.IntN(2), faults[:5]
	case 2:
		s.starter, s.np, faults = remotely, 2+rng.IntN(2), faults[:6]
	default:
		s.starter, s.np = otherwise, 3
	}
	s.fault, s.rename = faults[rng.IntN(len(faults))], rng.IntN(2) == 0
	s.at = moment{lines: 1 + rng.IntN(int(lines)-1), pause: time.Duration(rng.IntN(30)) * time.Millisecond, victim: rng.IntN(s.np)}
	if s.fault != killed {
		s.at.lines = 1 + s.at.lines/3 // breaking links takes time
	}
	if s.starter == otherwise && s.fault == cutLink {
		s.at.victim = 1 + rng.IntN(2) // both ranks reach rank 0, which hosts the coordinator
		s.peer = 3 - s.at.victim
	} else {
		s.peer = (s.at.victim + 1) % s.np
	}
	return s
}

func (s seeded) String() string {
	return fmt.Sprintf("%s: %d ranks, rank %d %s after %d lines, renamed: %t", s.starter, s.np, s.at.victim, s.fault, s.at.lines, s.rename)
}

// TestSeededFaults starts trainings with one fault each. Each training ends by itself, names the
// fault and no other rank, and leaves no process. The resumed training has the bits of a
// training without a fault.
func TestSeededFaults(t *testing.T) {
	t.Parallel()
	all := []uint64{everydaySeed}
	if n := max(*seeds, uint64(patient.Size(0, 20))); n > 0 {
		all = nil
		for seed := range n {
			all = append(all, seed)
		}
	}
	var missed atomic.Int64
	t.Cleanup(func() {
		if m := int(missed.Load()); m > len(all)/4 {
			t.Errorf("%d of %d trainings ended before their fault", m, len(all))
		}
	})
	for _, seed := range all {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := drawSeeded(seed, 12)
			t.Log(s)
			if s.test(t) {
				missed.Add(1)
			}
		})
	}
}

// test reports whether the training ended before the fault.
func (s seeded) test(t *testing.T) (missed bool) {
	whole, want := undisturbed(t, s.np, few(t))
	var hosts []host
	if s.starter == remotely || s.starter == otherwise {
		hosts = mesh(t, s.np)
	}
	dir := t.TempDir()
	mark := filepath.Dir(dir) + "/"
	args := append([]string{"train", "--json"}, few(t)...)
	switch s.fault {
	case diskFull:
		args = append(args, "-chaos", fmt.Sprintf("diskfull@%d@step%d", s.at.victim, 20*s.at.lines))
	case cutLink:
		if s.starter == launcher {
			args = append(args, "-chaos", fmt.Sprintf("cut:%d-%d@step%d", s.at.victim, s.peer, 20*s.at.lines+int(s.at.pause/time.Millisecond)%20))
		}
	}
	cmds := s.start(t, dir, mark, hosts, args...)
	ended := make([]chan struct{}, len(cmds))
	for i, cmd := range cmds {
		ended[i] = make(chan struct{})
		go func() { cmd.Wait(); close(ended[i]) }()
	}
	if s.fault != diskFull && (s.fault != cutLink || s.starter != launcher) {
		s.at.wait(dir, ended[0])
		s.inject(t, mark, hosts)
	}
	began := time.Now()
	o := s.finish(t, mark, cmds, ended)
	t.Logf("the job ended %.1f s after the fault with exit code %d", time.Since(began).Seconds(), o.code)
	eventually(t, "the end of all processes", func() bool { return len(below(mark)) == 0 })
	if (s.fault == diskFull) != strings.Contains(o.stderr, "failed, training continues") {
		t.Errorf("the disk is full: %t, but the output does not match\n%s", s.fault == diskFull, o.stderr)
	}
	if missed = o.code == 0 && s.fault != diskFull; o.code != 0 {
		s.checkVerdicts(t, o)
		o = s.resume(t, dir, mark)
	}
	if o.code != 0 {
		t.Fatalf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if o.stdout == "" {
		return missed // there was nothing to resume
	}
	r := parseTrained(t, o)
	if r.AUC != whole.AUC || r.TrainLogLoss != whole.TrainLogLoss || r.Samples != whole.Samples {
		t.Errorf("%+v, undisturbed %+v", r, whole)
	}
	samePart(t, s.String(), parts(t, dir, r.RunDir, r.Steps), want)
	return missed
}

// start starts the ranks. Their environment contains mark.
func (s seeded) start(t *testing.T, dir, mark string, hosts []host, args ...string) (cmds []*exec.Cmd) {
	t.Helper()
	env := append(os.Environ(), "WDLRUN_TESTS_MARK="+mark)
	switch s.starter {
	case otherwise:
		for r, h := range hosts {
			cmd := command(t, dir, args...)
			cmd.Env = append(slices.Clip(env), fmt.Sprintf("WDLRUN_RANK=%d", r), fmt.Sprintf("WDLRUN_SIZE=%d", s.np), "WDLRUN_LOCAL_RANK=0", "WDLRUN_LOCAL_SIZE=1",
				"WDLRUN_JOB=seeded", "WDLRUN_RENDEZVOUS="+mark, "WDLRUN_IP="+h.ip)
			cmd.Args, cmd.Path = append(slices.Clip(h.enter), cmd.Args...), h.enter[0]
			cmds = append(cmds, cmd)
		}
	case remotely:
		cmds = append(cmds, overHosts(t, dir, hosts, args...))
		cmds[0].Env = env
	case mpirun:
		path, err := exec.LookPath("mpirun.openmpi")
		if err != nil {
			t.Skipf("%v: install openmpi-bin", err)
		}
		cmd := command(t, dir, args...)
		cmd.Args = append([]string{path, "--allow-run-as-root", "--oversubscribe", "-np", fmt.Sprint(s.np)}, cmd.Args...)
		cmd.Path, cmd.Env = path, env
		cmds = append(cmds, cmd)
	default:
		cmds = append(cmds, command(t, dir, append([]string{"-np", fmt.Sprint(s.np), "-oversubscribe"}, args...)...))
		cmds[0].Env = env
	}
	for _, cmd := range cmds {
		fatal.If(t, cmd.Start())
	}
	return cmds
}

var rankVariable = regexp.MustCompile(`(?:^|\x00)(?:WDLRUN|OMPI_COMM_WORLD)_RANK=(\d+)\x00`)

// pid returns the process id of a rank, or 0 if the rank has ended.
func (s seeded) pid(mark string, rank int) int {
	for _, pid := range below(mark) {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if m := rankVariable.FindSubmatch(env); m != nil && string(m[1]) == strconv.Itoa(rank) {
			return pid
		}
	}
	return 0
}

// inject causes the fault.
func (s seeded) inject(t *testing.T, mark string, hosts []host) {
	switch pid := s.pid(mark, s.at.victim); s.fault {
	case killed:
		kill(t, pid, syscall.SIGKILL)
	case stopped:
		kill(t, pid, syscall.SIGSTOP)
	case cutLink:
		hosts[s.at.victim].run(t, "ip", "link", "set", device(s.peer), "down")
	case halfOpen:
		for peer := range hosts {
			if peer != s.at.victim {
				hosts[s.at.victim].run(t, "ip", "link", "set", device(peer), "down")
			}
		}
		kill(t, pid, syscall.SIGKILL)
	}
}

// finish waits for the end of all processes. A stopped rank without a launcher is resumed after
// the others have ended.
func (s seeded) finish(t *testing.T, mark string, cmds []*exec.Cmd, ended []chan struct{}) (all outcome) {
	wake := -1
	if s.starter == otherwise && s.fault == stopped {
		wake = s.at.victim
	}
	for i := range cmds {
		if i != wake {
			<-ended[i]
		}
	}
	if wake >= 0 {
		kill(t, s.pid(mark, wake), syscall.SIGCONT)
		<-ended[wake]
	}
	for _, cmd := range cmds {
		all.stdout += cmd.Stdout.(*bytes.Buffer).String()
		all.stderr += cmd.Stderr.(*bytes.Buffer).String()
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			all.code = code
		}
	}
	return all
}

// verdict returns a pattern for the start of every line that names ranks after the fault.
func (s seeded) verdict() string {
	hosted, names := s.starter == launcher || s.starter == remotely, fmt.Sprintf(`rank %d \(.*`, s.at.victim)
	if !hosted && s.at.victim == 0 {
		names = "rank 0(,| \\().*"
	}
	switch {
	case s.fault == cutLink && s.starter == launcher:
		return fmt.Sprintf(`rank (%d|%d) .* was reported lost.* rank (%[1]d|%[2]d) reports: the link is cut`, s.at.victim, s.peer)
	case s.fault == cutLink:
		return fmt.Sprintf(`ranks %d and %d no longer reach each other`, min(s.at.victim, s.peer), max(s.at.victim, s.peer))
	case s.fault == killed && hosted:
		return names + "was killed by signal 9"
	case s.fault == killed:
		return names + "(was lost|is gone)"
	case s.fault == stopped:
		return names + "has been silent for"
	}
	return names + "(was lost|is gone|has been silent for)"
}

var namesRanks = regexp.MustCompile(`(?m)^(?:\[\d+\] )?wdlrun: (ranks? \d.*)$`)

// checkVerdicts checks that the verdicts name the fault and its ranks, and no other rank.
func (s seeded) checkVerdicts(t *testing.T, o outcome) {
	t.Helper()
	want, found := regexp.MustCompile("^"+s.verdict()), 0
	for _, m := range namesRanks.FindAllStringSubmatch(o.stderr, -1) {
		if strings.Contains(m[1], "given no sign of life") || strings.Contains(m[1], " is there again after ") {
			continue
		}
		found++
		if !want.MatchString(m[1]) {
			t.Errorf("verdict %q, want one that begins with %q", m[1], want)
		}
	}
	if code := o.code == 137; found == 0 || code != (s.fault == killed) && s.starter != otherwise && s.starter != mpirun {
		t.Errorf("exit code %d, %d verdicts", o.code, found)
	}
	if t.Failed() {
		t.Log(o.stderr)
	}
}

// resume resumes the training, if it has written a checkpoint.
func (s seeded) resume(t *testing.T, dir, mark string) (o outcome) {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(dir, "runs", "2*", "checkpoints", "step-*"))
	if len(found) == 0 {
		return o
	}
	last := found[len(found)-1]
	renamed := s.rename && len(found) > 1
	if renamed {
		fatal.If(t, os.Rename(last, last[:len(last)-1]+"7"))
	}
	again := s
	if s.starter != mpirun {
		again.starter = launcher
	}
	run, _ := filepath.Rel(dir, filepath.Dir(filepath.Dir(last)))
	o = end(t, again.start(t, dir, mark, nil, "train", "--json", "-resume", run)[0])
	if renamed != strings.Contains(o.stderr, "its manifest has step ") {
		t.Errorf("the newest checkpoint was renamed: %t, but the output does not match\n%s", renamed, o.stderr)
	}
	return o
}
