//go:build linux

package launcher

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestStdin: rank 0 has the input of the job, and the input of the others is empty.
func TestStdin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in")
	long := strings.Repeat("0123456789\n", 20000) // more than fits in a pipe
	fatal.If(t, os.WriteFile(path, []byte(long), 0o600))
	file, err := os.Open(path)
	fatal.If(t, err)
	defer file.Close()
	for name, in := range map[string]io.Reader{"reader": strings.NewReader(long), "file": file} {
		out, end := begin(t, t.Context(), Job{Plan: local(t, 2), Stdin: in, Command: []string{"sh", "-c", "echo $(wc -c)"}, Quiet: true})
		if o := end(); o.Code != 0 {
			t.Errorf("%s: %+v %v", name, o, o.Verdict)
		}
		if !strings.Contains(out.String(), fmt.Sprintf("[0] %d\n", len(long))) || !strings.Contains(out.String(), "[1] 0\n") {
			t.Errorf("%s: wrote %q", name, out)
		}
	}
}

// endless is an input without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestStdinThatNobodyReads: an input that no rank reads, or that is empty, does not block the
// job.
func TestStdinThatNobodyReads(t *testing.T) {
	silent, writer := io.Pipe()
	defer writer.Close() // ends its goroutine
	quiet, pipe, err := os.Pipe()
	fatal.If(t, err)
	defer quiet.Close()
	defer pipe.Close()
	for name, in := range map[string]io.Reader{"endless": endless{}, "silent": silent, "pipe": quiet, "no file": (*os.File)(nil)} {
		_, end := begin(t, t.Context(), Job{Plan: local(t, 2), Stdin: in, Command: []string{"true"}, Quiet: true})
		if o := end(); o.Code != 0 {
			t.Errorf("%s: %+v %v", name, o, o.Verdict)
		}
	}
	// The same if rank 0 cannot be started.
	script := filepath.Join(t.TempDir(), "script")
	fatal.If(t, os.WriteFile(script, []byte("no program"), 0o700))
	if o, err := Run(t.Context(), Job{Plan: local(t, 1), Stdin: endless{}, Command: []string{script}, Quiet: true}); err == nil || o.Code != 126 {
		t.Errorf("%+v %v", o, err)
	}
}

// terminal returns both ends of a new terminal.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("cannot create a terminal:", err)
	}
	t.Cleanup(func() { person.Close() })
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skip("cannot create a terminal:", err)
	}
	t.Cleanup(func() { program.Close() })
	return person, program
}

// TestStdinOfTerminal: the launcher reads the terminal for rank 0 until Ctrl-D or the end of the
// job.
func TestStdinOfTerminal(t *testing.T) {
	for _, c := range []struct{ script, typed, want string }{
		{"cat", "hello\n\x04", "[0] hello\n"},
		{"read a; echo got $a", "one\n", "[0] got one\n"},
		{"true", "", ""},
	} {
		person, program := terminal(t)
		out := newText()
		cmd := exec.Command(os.Args[0], "launch", "2", "sh", "-c", c.script)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = program, out, out
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
		cmd.WaitDelay = patient.Longest
		fatal.If(t, cmd.Start())
		late := time.AfterFunc(patient.Longest, func() { cmd.Process.Kill() })
		person.WriteString(c.typed)
		if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %v, wrote %q", c.script, err, out)
		}
		late.Stop()
	}
}

// awaitState waits until all processes are in one of the states or, with a leading "!", in none
// of them.
func awaitState(t *testing.T, pids []int, states string) {
	t.Helper()
	states, not := strings.CutPrefix(states, "!")
	late := time.Now().Add(patient.Longest)
	for _, pid := range pids {
		for {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			fatal.If(t, err)
			_, rest, _ := strings.Cut(string(b), ") ")
			if strings.Contains(states, rest[:1]) != not {
				break
			}
			if time.Now().After(late) {
				t.Fatalf("process %d is in state %s, want %s", pid, rest[:1], states)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// TestSuspendedLauncher: Ctrl-Z stops the ranks and the launcher, and fg resumes all of them.
// This works twice.
func TestSuspendedLauncher(t *testing.T) {
	cmd, ended, pids := launch(t)
	all := append([]int{cmd.Process.Pid}, pids...)
	for range 2 {
		cmd.Process.Signal(syscall.SIGTSTP)
		awaitState(t, all, "T")
		cmd.Process.Signal(syscall.SIGCONT)
		awaitState(t, all, "!T")
	}
	cmd.Process.Signal(syscall.SIGTSTP)
	awaitState(t, all, "T")
	cmd.Process.Signal(syscall.SIGCONT)
	cmd.Process.Signal(syscall.SIGTERM)
	<-ended
	if code := cmd.ProcessState.ExitCode(); code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
	awaitGone(t, pids)
}
