package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/rank"
)

// The test binary also contains the programs that the tests start. Its first argument selects
// one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "guard":
			Guard(os.Stdin)
			os.Exit(0)
		case "launch":
			os.Exit(launchProgram(os.Args[2:]))
		case "rank":
			os.Exit(rankProgram(os.Args[2]))
		}
	}
	// Under the race detector every process sleeps a second at its end by default.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	if signal.Ignored(os.Interrupt) { // as for a background job of a shell; the launchers would inherit it
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	goleak.VerifyTestMain(patient.Settled(m))
}

// self returns the command line of one of the test binary's programs.
func self(words ...string) []string { return append([]string{os.Args[0]}, words...) }

// launchProgram is a launcher with arguments such as "2 prog arg…".
func launchProgram(args []string) int {
	ctx, stop := WithSignals(context.Background())
	defer stop()
	var np int
	fmt.Sscan(args[0], &np)
	plan, err := Place(np, nil, false, BySlot)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	out, err := Run(ctx, Job{Plan: plan, Command: args[1:], Suspends: true, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Guard: self("guard")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if out.Verdict != nil {
		fmt.Fprintln(os.Stderr, out.Verdict)
	}
	return out.Code
}

// rankProgram joins the job and runs the program of mode.
func rankProgram(mode string) int {
	w, _, err := rank.FromEnv(os.Getenv)
	if err != nil {
		fmt.Println(err)
		return 9
	}
	s, err := control.Enter(context.Background(), w, "", control.Options{})
	if err != nil {
		fmt.Println(err)
		return 8
	}
	defer s.Close()
	begun, asked := time.Now(), make(chan os.Signal, 1)
	if mode == "save" {
		signal.Notify(asked, syscall.SIGTERM)
	}
	s.Watch(func() rank.Status {
		if mode == "save" { // steps are done, the first ones before the first status
			return rank.Status{Phase: "compute", Step: 12 + int64(time.Since(begun)/time.Millisecond), Progress: time.Now().UnixNano()}
		}
		if mode == "grow" {
			return rank.Status{Step: 12, Samples: int64(3 - w.Size), Progress: time.Now().UnixNano(), RunDir: "runs/1"}
		}
		return rank.Status{Phase: "exchange", Waits: true, Step: 12, Steps: 20, Position: "adult.data offset 34", Progress: time.Now().UnixNano()}
	})
	fmt.Printf("rank %d pid %d\n", w.Rank, os.Getpid())
	switch {
	case mode == "work":
		if err := s.Done([]byte(`{"rank":` + fmt.Sprint(w.Rank) + "}")); err != nil {
			fmt.Println(err)
			return 7
		}
		return 0
	case mode == "leave" && w.Rank == 1:
		os.Exit(0) // without leaving the coordinator first
	case mode == "fail" && w.Rank == 1:
		s.Fail(errors.New("data: row 7: no number"), -1)
		return 5
	case mode == "orders":
		if o := <-s.Orders(); o != control.Stop {
			return 6
		}
		s.Done(nil)
		return 0
	case mode == "grow":
		return grow(s, w)
	case mode == "save":
		<-asked
		for end := time.Now().Add(patient.Longest); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if _, err := os.Stat(os.Getenv("SAVED")); err == nil {
				fmt.Printf("rank %d has saved\n", w.Rank)
				s.Done(nil)
				return 0
			}
		}
		return 3
	case mode == "deaf":
		signal.Ignore(syscall.SIGTERM)
		<-s.Aborted()
		select {} // the verdict and SIGTERM are ignored
	}
	<-s.Aborted()
	return 4
}

// grow is a rank that ends on request. Its result is its generation or GROW. One of three ranks
// fails before the first step.
func grow(s *control.Session, w rank.World) int {
	if w.Size == 3 && w.Rank == 1 {
		s.Fail(errors.New("no place for three"), -1)
		return 5
	}
	select {
	case <-s.Orders():
	case <-s.Aborted():
		return 4
	}
	result := os.Getenv("GROW")
	switch result {
	case "":
		result = fmt.Sprint(w.Generation)
	case "fail":
		s.Fail(errors.New("told to"), -1)
		return 5
	}
	s.Done([]byte(result))
	return 0
}

// local returns a plan of np ranks on this host.
func local(t *testing.T, np int) Plan {
	t.Helper()
	p, err := Place(np, nil, false, BySlot)
	fatal.If(t, err)
	return p
}

// gone reports whether a process has ended. A zombie counts as ended.
func gone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}

// awaitGone waits until all processes have ended.
func awaitGone(t *testing.T, pids []int) {
	t.Helper()
	late := time.Now().Add(patient.Longest)
	for _, pid := range pids {
		for !gone(pid) {
			if time.Now().After(late) {
				out, _ := exec.Command("ps", "-o", "pid,ppid,pgid,stat,args", "-p", fmt.Sprint(pid)).Output()
				if p, err := os.FindProcess(pid); err == nil {
					p.Kill()
				}
				t.Fatalf("process %d is still running:\n%s", pid, out)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}
