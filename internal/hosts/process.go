package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wdlrun/wdlrun/internal/text/cut"
)

// Process is a started host process, or the login that starts one. Its Read and Write are the
// stream.
type Process struct {
	host   string
	pid    int // on this machine; 0: it runs on another one
	in     io.WriteCloser
	out    io.Reader
	pipe   io.Closer // below out
	stderr *tail
	kill   func()
	how    func() string // returns how it ended; called after the end
	known  func() string // returns the known cause of that, or ""; may be nil
	ended  chan struct{}
	once   sync.Once

	answered bool // Read has returned bytes
}

// login is a Process of this machine.
type login struct {
	*Process
	cmd    *exec.Cmd
	stdin  *os.File // write end of its standard input
	stdout *os.File // read end of its standard output
}

// start starts cmd with pipes.
func start(cmd *exec.Cmd, host string, run Run, stderr io.Writer) (*login, error) {
	output := &tail{to: stderr, host: host}
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	out, stdout, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, err
	}
	defer stdout.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, output
	cmd.WaitDelay = time.Second // its child processes may hold its standard error
	if err := run(cmd); err != nil {
		in.Close()
		out.Close()
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p := &Process{host: host, pid: cmd.Process.Pid, in: in, out: out, pipe: out, stderr: output, kill: func() { cmd.Process.Kill() }, ended: make(chan struct{})}
	p.how = func() string { return ending(filepath.Base(cmd.Args[0]), cmd.ProcessState) }
	go func() {
		defer close(p.ended)
		cmd.Wait()
		in.Close() // another process may still hold the streams
		out.SetReadDeadline(time.Now().Add(closeTime / 4))
	}()
	return &login{p, cmd, in, out}, nil
}

// ending describes how a process ended.
func ending(name string, state *os.ProcessState) string {
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return fmt.Sprintf("%s was killed by signal %d", name, int(w.Signal()))
	}
	return fmt.Sprintf("%s ended with exit code %d", name, state.ExitCode())
}

// Read reads what the host process sends. Its first bytes show that the shell has executed it.
// Only then are lines of its standard error passed on: before, they may be the shell's and
// explain the end (Why).
func (p *Process) Read(b []byte) (int, error) {
	n, err := p.out.Read(b)
	if n > 0 && !p.answered {
		p.answered = true
		p.stderr.pass()
	}
	return n, err
}

func (p *Process) Write(b []byte) (int, error) { return p.in.Write(b) }

// Pid returns the process id on this machine, or 0 for a process of another machine.
func (p *Process) Pid() int { return p.pid }

// Kill ends the process. For a process of another machine it ends the stream, and the process
// then ends there.
func (p *Process) Kill() { p.kill() }

// Await waits for the end of the process, but no longer than the given time.
func (p *Process) Await(most time.Duration) {
	select {
	case <-p.ended:
	case <-time.After(most):
	}
}

// closeTime bounds the time until a process ends after its streams have ended.
const closeTime = time.Second

// Close ends the stream, and the process if it does not end by itself.
func (p *Process) Close() error {
	p.once.Do(func() {
		p.in.Close()
		select {
		case <-p.ended:
		case <-time.After(closeTime):
			p.kill()
			<-p.ended
		}
		p.pipe.Close()
	})
	return nil
}

// Why returns how the process ended and its last output, for an error. It waits a short time
// for the end.
func (p *Process) Why() string {
	select {
	case <-p.ended:
	case <-time.After(closeTime):
		return ""
	}
	if p.known != nil {
		if cause := p.known(); cause != "" {
			return cause
		}
	}
	how := p.how()
	if printed := p.stderr.last(); printed != "" {
		how += ": " + printed
	}
	return how
}

// code returns the exit code of a process that has ended, or −1 if it has none.
func (l *login) code() int {
	select {
	case <-l.ended:
		return l.cmd.ProcessState.ExitCode()
	case <-time.After(closeTime):
		return -1
	}
}

// maxSaid bounds the bytes kept of the standard error of a process.
const maxSaid = 16 << 10

// tail keeps the end of the output of a process. Once open, it passes lines on.
type tail struct {
	to   io.Writer
	host string

	mu   sync.Mutex
	kept []byte
	part []byte
	open bool
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - maxSaid; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	if !t.open || t.to == nil {
		return len(b), nil
	}
	t.part = append(t.part, b...)
	for {
		end := bytes.IndexByte(t.part, '\n')
		if end < 0 && len(t.part) < maxSaid {
			return len(b), nil
		}
		if end < 0 {
			end = len(t.part) - 1
		}
		if line := bytes.TrimRight(t.part[:end+1], "\r\n"); len(line) > 0 {
			fmt.Fprintf(t.to, "wdlrun: host %s: %s\n", t.host, line)
		}
		t.part = append(t.part[:0], t.part[end+1:]...)
	}
}

// pass makes tail pass on later lines.
func (t *tail) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = true
}

// text returns the bytes kept.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}

// last returns the last line that is not empty.
func (t *tail) last() string {
	line := ""
	for l := range strings.Lines(t.text()) {
		if l = strings.TrimSpace(l); l != "" {
			line = l
		}
	}
	return cut.To(300, line)
}

// errSilent is the error of a start without an answer.
var errSilent = errors.New("no answer")

// Run starts a command that ends when the launcher ends, for any reason.
type Run func(*exec.Cmd) error
