//go:build linux

package launcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/internal/hosts"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/rank"
)

// text is a buffer that several goroutines write to and wait for.
type text struct {
	mu   sync.Mutex
	b    bytes.Buffer
	news chan struct{}
}

func newText() *text { return &text{news: make(chan struct{}, 1)} }

func (w *text) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.news <- struct{}{}:
	default:
	}
	return w.b.Write(p)
}

func (w *text) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// find waits for n matches of the pattern and returns the first group of each.
func (w *text) find(t *testing.T, pattern string, n int) (found []string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	var m [][]string
	w.until(t, fmt.Sprintf("%d of %s", n, pattern), func(s string) bool {
		m = re.FindAllStringSubmatch(s, -1)
		return len(m) >= n
	})
	for _, g := range m {
		found = append(found, g[len(g)-1])
	}
	return found
}

// until waits until the output satisfies a condition.
func (w *text) until(t *testing.T, what string, is func(s string) bool) {
	t.Helper()
	late := time.After(patient.Longest)
	for !is(w.String()) {
		select {
		case <-w.news:
		case <-late:
			t.Fatalf("timed out waiting for %s in:\n%s", what, w)
		}
	}
}

func (w *text) pids(t *testing.T, pattern string, n int) (pids []int) {
	t.Helper()
	for _, s := range w.find(t, pattern, n) {
		pid, err := strconv.Atoi(s)
		fatal.If(t, err)
		pids = append(pids, pid)
	}
	return pids
}

// begin runs a job on another goroutine.
func begin(t *testing.T, ctx context.Context, job Job) (out *text, end func() Outcome) {
	t.Helper()
	out = newText()
	job.Stdout, job.Guard = out, self("guard")
	if job.Stderr == nil {
		job.Stderr = out
	}
	ended := make(chan Outcome, 1)
	go func() {
		o, err := Run(ctx, job)
		if err != nil {
			t.Error(err)
		}
		ended <- o
	}()
	return out, func() Outcome {
		t.Helper()
		select {
		case o := <-ended:
			return o
		case <-time.After(patient.Longest):
			t.Fatalf("the job did not end:\n%s", out)
		}
		return Outcome{}
	}
}

// TestJob: a job of three ranks ends with exit code 0 and the result of rank 0.
func TestJob(t *testing.T) {
	out, end := begin(t, t.Context(), Job{Plan: local(t, 3), Command: self("rank", "work"), Quiet: true, Name: "j"})
	o := end()
	if o.Code != 0 || o.Verdict != nil || string(o.Result) != `{"rank":0}` || o.Elapsed <= 0 {
		t.Errorf("%+v", o)
	}
	for r := range 3 {
		if want := fmt.Sprintf("[%d] rank %d pid ", r, r); !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
}

// heard is the host of a job. It waits for a status with a message.
type heard struct {
	from  int
	first chan struct{}
	once  sync.Once
}

func (h *heard) Formed([]rank.Member)       {}
func (h *heard) Report(int, string, []byte) {}
func (h *heard) Ended(*rank.Verdict)        {}
func (h *heard) Status(r int, s rank.Status) {
	if r == h.from && s.Phase != "" {
		h.once.Do(func() { close(h.first) })
	}
}

// TestKilledRank: the verdict on a killed rank names its signal and its last status.
func TestKilledRank(t *testing.T) {
	host := &heard{from: 1, first: make(chan struct{})}
	out, end := begin(t, t.Context(), Job{Plan: local(t, 3), Command: self("rank", "wait"), Quiet: true, Host: host, Timeout: 2 * patient.Longest}) // the verdict must not depend on this timeout
	pids := out.pids(t, `rank \d pid (\d+)\n`, 3)
	victim := out.pids(t, `rank 1 pid (\d+)\n`, 1)[0]
	<-host.first
	syscall.Kill(victim, syscall.SIGKILL)
	o := end()
	here, _ := os.Hostname()
	want := fmt.Sprintf("rank 1 (host %s, pid %d) was killed by signal 9 (SIGKILL), last seen in phase exchange, step 12, input adult.data offset 34", here, victim)
	if o.Code != 137 || o.Verdict == nil || o.Verdict.String() != want {
		t.Errorf("code %d\n%v\nwant %s", o.Code, o.Verdict, want)
	}
	awaitGone(t, pids)
}

// TestFailedRank: the verdict on a rank that reports an error contains the error.
func TestFailedRank(t *testing.T) {
	_, end := begin(t, t.Context(), Job{Plan: local(t, 2), Command: self("rank", "fail"), Quiet: true})
	o := end()
	if o.Code != 5 || o.Verdict == nil || !strings.HasSuffix(o.Verdict.String(), " failed in phase exchange, step 12, input adult.data offset 34: data: row 7: no number") {
		t.Errorf("%+v %v", o, o.Verdict)
	}
}

// TestLeavingRank: exit code 0 is a failure of a rank that has joined and not finished.
func TestLeavingRank(t *testing.T) {
	_, end := begin(t, t.Context(), Job{Plan: local(t, 2), Command: self("rank", "leave"), Quiet: true})
	o := end()
	if o.Code != 1 || o.Verdict == nil || o.Verdict.Kind != rank.Lost || o.Verdict.Rank != 1 || !strings.Contains(o.Verdict.String(), "its process ended with code 0 before its work was done") {
		t.Errorf("%+v %v", o, o.Verdict)
	}
}

// TestStoppedRank: the verdict on a stopped rank reports that it is silent.
func TestStoppedRank(t *testing.T) {
	patient.Try(t, time.Second, func(timeout time.Duration) error {
		out, end := begin(t, t.Context(), Job{Plan: local(t, 2), Command: self("rank", "wait"), Quiet: true, Timeout: timeout})
		out.until(t, "both ranks", func(s string) bool { return strings.Count(s, "\n") >= 2 })
		if strings.Count(out.String(), " pid ") < 2 { // a busy machine did not start two processes in that time
			return fmt.Errorf("%+v", end())
		}
		pids := out.pids(t, `rank \d pid (\d+)\n`, 2)
		victim := out.pids(t, `rank 1 pid (\d+)\n`, 1)[0]
		syscall.Kill(victim, syscall.SIGSTOP)
		o := end()
		awaitGone(t, pids)
		if o.Code == 0 || o.Verdict == nil || o.Verdict.Kind != rank.Silent || o.Verdict.Rank != 1 || o.Verdict.Pid != victim {
			return fmt.Errorf("%+v %v", o, o.Verdict)
		}
		return nil
	})
}

// TestJudgedAtOnce: the verdict is reported once, while the ranks that it does not name are
// still running.
func TestJudgedAtOnce(t *testing.T) {
	var reported []string
	running := make(chan []int, 1)
	out, end := begin(t, t.Context(), Job{Plan: local(t, 3), Command: self("rank", "wait"), Quiet: true, Grace: patient.Longest,
		Judged: func(v *rank.Verdict, w io.Writer) {
			reported = append(reported, v.String())
			fmt.Fprintln(w, v)
			for _, pid := range <-running {
				if pid != v.Pid && gone(pid) {
					t.Errorf("process %d had ended before the verdict was reported", pid)
				}
			}
			close(running)
		}})
	pids := out.pids(t, `rank \d pid (\d+)\n`, 3)
	for _, pid := range pids {
		syscall.Kill(pid, syscall.SIGSTOP) // the ranks receive the verdict when they are resumed
	}
	running <- pids
	syscall.Kill(pids[1], syscall.SIGKILL)
	o := end()
	if len(reported) != 1 || o.Verdict == nil || reported[0] != o.Verdict.String() || strings.Count(out.String(), reported[0]+"\n") != 1 {
		t.Errorf("reports %q; %v\n%s", reported, o.Verdict, out)
	}
}

// meeting is a crew of two hosts, each of which waits until the other one starts a rank.
type meeting struct {
	crew
	hosts   chan string
	refuses int // the rank that this host refuses to start
}

func (m *meeting) start(o order) (pid int, err error) {
	if o.placed.Rank == m.refuses {
		return 0, errors.New("refused")
	}
	if o.placed.LocalRank > 0 {
		return 1000 + o.placed.Rank, nil
	}
	select {
	case m.hosts <- o.placed.Host:
	case <-m.hosts:
	case <-time.After(patient.Longest):
		return 0, errors.New("the other host starts nothing meanwhile")
	}
	return 1000 + o.placed.Rank, nil
}

// TestHostsStartConcurrently: the hosts start their ranks concurrently, and the first failure is
// the error.
func TestHostsStartConcurrently(t *testing.T) {
	for refuses, want := range map[int]string{-1: "<nil>", 3: "refused"} {
		least, most := 4, 4
		if refuses >= 0 {
			least, most = 2, 3 // host b may fail before host a starts its second rank
		}
		r, err := newRun(Job{Plan: local(t, 4), Command: []string{"none"}, front: mustListen(t)})
		fatal.If(t, err)
		own := r.crew
		r.crew, r.job.Plan = &meeting{hosts: make(chan string), refuses: refuses}, number([]Host{{Name: "a"}, {Name: "b"}}, []int{2, 2})
		if err := r.start(t.Context()); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
		if r.left < least || r.left > most || len(r.pids) != r.left {
			t.Errorf("%d ranks have started, %d process ids, want %d to %d", r.left, len(r.pids), least, most)
		}
		r.crew, r.left = own, 0
		r.close()
	}
}

func mustListen(t *testing.T) *net.TCPListener {
	t.Helper()
	front, err := listen("")
	fatal.If(t, err)
	t.Cleanup(func() { front.Close() })
	return front
}

// TestSeats: each rank of a fleet has its own CPUs and keeps them when it is restarted.
func TestSeats(t *testing.T) {
	f := &fleet{shares: [][]int{{0}, {1, 2}}, shareOf: map[int]int{}}
	for _, x := range []struct {
		rank int
		want string
	}{{4, "[0]"}, {5, "[1 2]"}, {5, "[1 2]"}, {4, "[0]"}} {
		if got := fmt.Sprint(f.cpusOf(x.rank)); got != x.want {
			t.Errorf("rank %d: CPUs %s, want %s", x.rank, got, x.want)
		}
	}
	if on := (&fleet{}).cpusOf(0); on != nil {
		t.Errorf("a rank that is not bound has CPUs %v", on)
	}
}

// TestEndIsReportedBeforeItsOutput: the end of a process is reported at once, even if another
// process holds its output open. The output is read until no process holds it open.
func TestEndIsReportedBeforeItsOutput(t *testing.T) {
	out, dir := newText(), t.TempDir()
	c := &console{stderr: out}
	f, err := newFleet(1, hosts.Each{}, nil)
	fatal.If(t, err)
	cmd := exec.Command("sh", "-c", `setsid sh -c 'echo $$ >new; mv new pid; exec sleep 1000' & while ! [ -e pid ]; do sleep .01; done; printf tail; exit 3`)
	cmd.Dir = dir
	if _, err := f.launch(0, cmd, [2]sink{newLines(c, out, 0, true), newLines(c, out, 0, true)}); err != nil {
		t.Fatal(err)
	}
	e := <-f.exits
	early := out.String()
	b, err := os.ReadFile(filepath.Join(dir, "pid"))
	holder, err2 := strconv.Atoi(strings.TrimSpace(string(b)))
	fatal.If(t, errors.Join(err, err2))
	syscall.Kill(holder, syscall.SIGKILL)
	f.close()
	if e != (exit{rank: 0, code: 3}) || early != "" || out.String() != "[0] tail\n" {
		t.Errorf("%+v when %q had been read, and then %q", e, early, out)
	}
}

// TestDeafRanks: ranks that ignore the verdict and SIGTERM are killed.
func TestDeafRanks(t *testing.T) {
	t.Parallel()
	out, end := begin(t, t.Context(), Job{Plan: local(t, 2), Command: self("rank", "deaf"), Quiet: true, Grace: 200 * time.Millisecond})
	pids := out.pids(t, `rank \d pid (\d+)\n`, 2)
	syscall.Kill(pids[0], syscall.SIGSEGV) // Go's runtime exits at this signal
	o := end()
	if o.Code == 0 || o.Verdict == nil || o.Verdict.Pid != pids[0] {
		t.Errorf("%+v %v", o, o.Verdict)
	}
	awaitGone(t, pids)
}

// TestAnyProgram: programs that do not use the coordinator can be ranks.
func TestAnyProgram(t *testing.T) {
	for _, c := range []struct {
		script  string
		code    int
		verdict string
		out     string
	}{
		{"exit 0", 0, "", ""},
		{"echo $WDLRUN_RANK/$WDLRUN_SIZE; cat", 0, "", "[1] 1/2\n"}, // the standard input of rank 1 is empty
		{"printf 'no end'", 0, "", "[0] no end\n"},
		{"[ $WDLRUN_RANK = 0 ] && exit 0; exit 3", 3, "rank 1 .* ended with exit code 3$", ""},
		{"[ $WDLRUN_RANK = 0 ] && exit 4; sleep 1000", 4, "rank 0 .* ended with exit code 4$", ""},
		{"[ $WDLRUN_RANK = 0 ] && kill -TERM $$; sleep 1000", 143, `rank 0 .* was killed by signal 15 \(SIGTERM\)`, ""},
		{"sleep 1000 & exit 0", 0, "", ""}, // the sleep ends with its rank
	} {
		out, end := begin(t, t.Context(), Job{Plan: local(t, 2), Command: []string{"sh", "-c", c.script}, Quiet: true})
		o := end()
		verdict := ""
		if o.Verdict != nil {
			verdict = o.Verdict.String()
		}
		if o.Code != c.code || (verdict == "") != (c.verdict == "") || !regexp.MustCompile(c.verdict).MatchString(verdict) {
			t.Errorf("%s: code %d, verdict %q", c.script, o.Code, verdict)
		}
		if !strings.Contains(out.String(), c.out) {
			t.Errorf("%s: wrote %q", c.script, out)
		}
	}
}

// TestErrorsBeforeTheStart: invalid jobs are rejected with the cause and the exit code.
func TestErrorsBeforeTheStart(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	fatal.If(t, os.WriteFile(plain, []byte("no program"), 0o600))
	script := filepath.Join(dir, "script")
	fatal.If(t, os.WriteFile(script, []byte("no program"), 0o700))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer taken.Close()
	far, err := Place(3, []Host{{Name: "localhost", Slots: 2}, {Name: "far.example", Slots: 2}}, false, BySlot)
	fatal.If(t, err)
	two := local(t, 2)
	crlf := filepath.Join(dir, "crlf.sh")
	fatal.If(t, os.WriteFile(crlf, []byte("#!/bin/sh\r\n"), 0o700))
	for _, c := range []struct {
		job  Job
		code int
		want string
	}{
		{Job{Plan: two}, 1, "no program is given"},
		{Job{Command: self("rank", "work")}, 1, "the plan has no ranks"},
		{Job{Plan: two, Command: []string{"./missing"}}, 127, "./missing"},
		{Job{Plan: two, Command: []string{"no-such-program-anywhere"}}, 127, "found in PATH"},
		{Job{Plan: two, Command: []string{plain}}, 126, "chmod +x"},
		{Job{Plan: two, Command: []string{script}}, 126, "#! line"},
		{Job{Plan: two, Command: []string{crlf}}, 127, crlf + " needs the interpreter in its first line: stat /bin/sh\r: no such file"},
		{Job{Plan: two, Command: []string{dir}}, 126, "path of the program in it"},
		{Job{Plan: two, Command: []string{plain + "/program"}}, 126, "not a directory"},
		{Job{Plan: two, Command: []string{dir}, Dir: dir}, 126, dir},
		{Job{Plan: two, Command: self("rank", "work"), Timeout: -time.Second}, 1, "timeout -1s: must be positive"},
		{Job{Plan: two, Command: self("rank", "work"), Grace: -1}, 1, "grace -1ns: must not be negative"},
		{Job{Plan: two, Command: self("rank", "work"), Dir: filepath.Join(dir, "none")}, 127, "none"},
		{Job{Plan: two, Command: self("rank", "work"), Listen: taken.Addr().String()}, 1, "address already in use"},
		{Job{Plan: two, Command: self("rank", "work"), Guard: []string{"./missing"}}, 1, "launcher: guard:"},
		{Job{Plan: far, Command: self("rank", "work")}, 1, "host far.example: the job does not say how ranks are started on other hosts"},
	} {
		c.job.Quiet = true
		o, err := Run(t.Context(), c.job)
		if err == nil || !strings.Contains(err.Error(), c.want) || o.Code != c.code {
			t.Errorf("code %d, error %v\nwant %d, %s", o.Code, err, c.code, c.want)
		}
	}
}

// TestLimitsOfTheSystem: an error that prevents the start of a process is reported with advice.
func TestLimitsOfTheSystem(t *testing.T) {
	for limit, want := range map[syscall.Errno]string{syscall.EMFILE: "ulimit -n", syscall.EAGAIN: "ulimit -u", syscall.ENOMEM: "fewer ranks"} {
		err := explain(&os.PathError{Op: "fork/exec", Path: "/bin/true", Err: limit})
		if !errors.Is(err, limit) || !strings.Contains(err.Error(), want) || startCode(err) != 1 {
			t.Errorf("%v: code %d", err, startCode(err))
		}
	}
	if err := explain(&os.PathError{Op: "fork/exec", Path: "/bin/true", Err: syscall.EPERM}); strings.Contains(err.Error(), "chmod") || !strings.Contains(err.Error(), "forbids it") {
		t.Error(err)
	}
}

// TestInterrupt: a job that is interrupted ends all its processes and has the exit code of the
// signal.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	out, end := begin(t, ctx, Job{Plan: local(t, 2), Command: []string{"sh", "-c", "echo pid $$; sleep 1000 & echo pid $!; wait"}, Quiet: true})
	pids := out.pids(t, `pid (\d+)\n`, 4)
	cancel(Interrupted{syscall.SIGINT})
	if o := end(); o.Code != 130 || o.Verdict != nil {
		t.Errorf("%+v %v", o, o.Verdict)
	}
	awaitGone(t, pids)
	// With a context that has ended, no process remains.
	if o, err := Run(ctx, Job{Plan: local(t, 2), Command: []string{"sleep", "1000"}, Quiet: true}); o.Code != 130 || err != nil {
		t.Errorf("%+v %v", o, err)
	}
	// An end other than by a signal has exit code 1.
	ctx, cancel = context.WithCancelCause(t.Context())
	out, end = begin(t, ctx, Job{Plan: local(t, 1), Command: []string{"sh", "-c", "echo pid $$; sleep 1000"}, Quiet: true})
	out.pids(t, `pid (\d+)\n`, 1)
	cancel(errors.New("enough"))
	if o := end(); o.Code != 1 {
		t.Errorf("%+v", o)
	}
}

// TestOrdersReachRanks: orders are passed to the ranks.
func TestOrdersReachRanks(t *testing.T) {
	orders := make(chan control.Order)
	out, end := begin(t, t.Context(), Job{Plan: local(t, 2), Command: self("rank", "orders"), Quiet: true, Orders: orders})
	out.pids(t, `rank \d pid (\d+)\n`, 2)
	orders <- control.Stop
	close(orders)
	if o := end(); o.Code != 0 {
		t.Errorf("%+v %v", o, o.Verdict)
	}
}

// launch starts a launcher process whose ranks are shells with child processes. It returns their
// process ids.
func launch(t *testing.T) (cmd *exec.Cmd, ended chan error, pids []int) {
	t.Helper()
	out := newText()
	cmd = exec.Command(os.Args[0], "launch", "2", "sh", "-c", "echo pid $$; (sleep 1000 & echo pid $!; wait) & wait")
	cmd.Stdout, cmd.Stderr = out, out
	ownGroup(cmd) // as a shell does
	cmd.WaitDelay = patient.Longest
	fatal.If(t, cmd.Start())
	ended = make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return cmd, ended, out.pids(t, `pid (\d+)\n`, 4)
}

// TestKilledLauncher: no process remains, including the child processes of ranks.
func TestKilledLauncher(t *testing.T) {
	cmd, ended, pids := launch(t)
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
	if err == nil {
		for word := range strings.FieldsSeq(string(children)) {
			pid, _ := strconv.Atoi(word)
			pids = append(pids, pid) // including the guard
		}
	}
	cmd.Process.Kill()
	<-ended
	awaitGone(t, pids)
}

// TestGuardKillsWhatIsMarked: the guard kills a process whose group the launcher had no time to
// register, and no other process.
func TestGuardKillsWhatIsMarked(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("this system does not show the environment of processes:", err)
	}
	mark := "WDLRUN_KEY=" + rank.NewKey().Hex()
	for _, orderly := range []bool{false, true} {
		g, err := startGuard(self("guard"), mark, func(line string) { t.Error(line) })
		fatal.If(t, err)
		var procs [3]*exec.Cmd
		for i, env := range []string{mark, mark + "0", "X" + mark} {
			procs[i] = exec.Command("sleep", "1000")
			procs[i].Env = []string{"A=b", env}
			ownGroup(procs[i])
			fatal.If(t, procs[i].Start())
			defer procs[i].Process.Kill()
		}
		if orderly {
			g.close()
		} else {
			close(g.over)  // the launcher does nothing after this
			g.pipe.Close() // as the system does when the launcher is killed
			<-g.done
		}
		for i, p := range procs {
			p.Process.Signal(syscall.SIGTERM)
			p.Wait()
			want := syscall.SIGTERM
			if i == 0 && !orderly {
				want = syscall.SIGKILL
			}
			if got := p.ProcessState.Sys().(syscall.WaitStatus).Signal(); got != want {
				t.Errorf("orderly %v: process %d ended by %v, want %v", orderly, i, got, want)
			}
		}
	}
}

// TestSignalledLauncher: a signal to the launcher ends the job with the exit code of the signal.
func TestSignalledLauncher(t *testing.T) {
	for _, c := range []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}} {
		cmd, ended, pids := launch(t)
		cmd.Process.Signal(c.signal)
		<-ended
		if code := cmd.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%v: exit code %d, want %d", c.signal, code, c.code)
		}
		awaitGone(t, pids)
	}
}

// TestAGuardThatEndsIsReplaced: if the guard ends, a new one starts and knows all groups.
func TestAGuardThatEndsIsReplaced(t *testing.T) {
	warned := make(chan string, 2)
	g, err := startGuard(self("guard"), "", func(line string) { warned <- line })
	fatal.If(t, err)
	left := exec.Command("sleep", "1000")
	ownGroup(left)
	fatal.If(t, left.Start())
	defer left.Process.Kill()
	g.watch(left.Process.Pid)
	g.mu.Lock()
	first := g.cmd.Process
	g.mu.Unlock()
	first.Kill()
	if line := <-warned; !strings.Contains(line, "was started again") {
		t.Fatal(line)
	}
	close(g.over)
	g.mu.Lock()
	g.pipe.Close() // as the system does when the launcher is killed
	g.mu.Unlock()
	<-g.done
	awaitGone(t, []int{left.Process.Pid})
}

// TestGuardKillsWhatIsLeft: the guard kills the groups that were registered and not removed.
func TestGuardKillsWhatIsLeft(t *testing.T) {
	g, err := startGuard(self("guard"), "", func(line string) { t.Error(line) })
	fatal.If(t, err)
	var groups [2]*exec.Cmd
	for i := range groups {
		groups[i] = exec.Command("sleep", "1000")
		ownGroup(groups[i])
		fatal.If(t, groups[i].Start())
		g.watch(groups[i].Process.Pid)
	}
	fmt.Fprint(g.pipe, "nonsense\n+0\n+1\n+-1\n+\n\n") // invalid lines, which must be ignored
	g.forget(groups[1].Process.Pid)
	g.close()
	awaitGone(t, []int{groups[0].Process.Pid})
	if gone(groups[1].Process.Pid) {
		t.Error("the group that was removed was killed too")
	}
	groups[1].Process.Kill()
	for _, c := range groups {
		c.Wait()
	}
}

// TestEnvironment: a rank gets the environment of the job, with the variables of package rank
// replaced.
func TestEnvironment(t *testing.T) {
	_, end := begin(t, t.Context(), Job{Plan: local(t, 1), Quiet: true, Generation: 3, Name: "mine",
		Env:     []string{"PATH=" + os.Getenv("PATH"), "OTHER=kept", "WDLRUN_RANK=7", "WDLRUN_IP=10.0.0.1", "WDLRUN_MORE=kept"},
		Command: []string{"sh", "-c", `[ "$OTHER$WDLRUN_MORE" = keptkept ] && [ -z "$WDLRUN_IP" ] && [ $WDLRUN_RANK$WDLRUN_SIZE$WDLRUN_LOCAL_RANK$WDLRUN_LOCAL_SIZE$WDLRUN_GENERATION = 01013 ] && [ $WDLRUN_JOB = mine ] && [ ${#WDLRUN_KEY} = 64 ] && [ $WDLRUN_LAUNCHER = ` + fmt.Sprint(os.Getpid()) + ` ]`}})
	if o := end(); o.Code != 0 {
		t.Errorf("%+v %v", o, o.Verdict)
	}
}

// TestNobodyReadsTheVerdict: ranks end even if the verdict is not read, including a rank that
// ignores it.
func TestNobodyReadsTheVerdict(t *testing.T) {
	t.Parallel()
	read := make(chan struct{})
	out, end := begin(t, t.Context(), Job{Plan: local(t, 2), Command: self("rank", "deaf"), Quiet: true, Grace: time.Millisecond,
		Judged: func(*rank.Verdict, io.Writer) { <-read }})
	pids := out.pids(t, `rank \d pid (\d+)\n`, 2)
	syscall.Kill(pids[0], syscall.SIGKILL)
	awaitGone(t, pids)
	close(read)
	if o := end(); o.Verdict == nil || o.Verdict.Pid != pids[0] {
		t.Errorf("%v", o.Verdict)
	}
}
