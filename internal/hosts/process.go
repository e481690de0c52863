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
)

// Process is a started host process, or the login that leads to one. It is the stream.
type Process struct {
	host   string
	pid    int // on this machine, 0 if it runs on another one
	in     io.WriteCloser
	out    io.Reader
	pipe   io.Closer // below out
	stderr *tail
	kill   func()
	how    func() string // how it ended, once it has
	ended  chan struct{}
	once   sync.Once
}

// login is a Process of this machine.
type login struct {
	*Process
	cmd    *exec.Cmd
	stdin  *os.File // its standard input, to write to
	stdout *os.File // its standard output, to read from
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
		in.Close() // another process that holds the streams is not the host process
		out.SetReadDeadline(time.Now().Add(closeTime / 4))
	}()
	return &login{p, cmd, in, out}, nil
}

// ending is how a process of a name ended.
func ending(name string, state *os.ProcessState) string {
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return fmt.Sprintf("%s was killed by signal %d", name, int(w.Signal()))
	}
	return fmt.Sprintf("%s ended with exit code %d", name, state.ExitCode())
}

func (p *Process) Read(b []byte) (int, error)  { return p.out.Read(b) }
func (p *Process) Write(b []byte) (int, error) { return p.in.Write(b) }

// Pid is the process id on this machine, 0 for a process of another one.
func (p *Process) Pid() int { return p.pid }

// Kill ends the process, or the stream to that of another machine, which ends there then.
func (p *Process) Kill() { p.kill() }

// Await waits for the end of the process, at most for the given time.
func (p *Process) Await(most time.Duration) {
	select {
	case <-p.ended:
	case <-time.After(most):
	}
}

// closeTime is how long a process may take to end after its streams have ended.
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

// Why returns how the process ended and what it printed last, for an error. It waits
// for its end shortly.
func (p *Process) Why() string {
	select {
	case <-p.ended:
	case <-time.After(closeTime):
		return ""
	}
	how := p.how()
	if printed := p.stderr.last(); printed != "" {
		how += ": " + printed
	}
	return how
}

// code is the exit code of a process that has ended, −1 for none.
func (l *login) code() int {
	select {
	case <-l.ended:
		return l.cmd.ProcessState.ExitCode()
	case <-time.After(closeTime):
		return -1
	}
}

// maxSaid bounds what is kept of the standard error of a process.
const maxSaid = 16 << 10

// tail keeps the end of what a process writes, and passes lines on once it is open.
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

// pass has later lines passed on.
func (t *tail) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = true
}

// text is what is kept.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}

// last is the last line that is not empty.
func (t *tail) last() string {
	line := ""
	for l := range strings.Lines(t.text()) {
		if l = strings.TrimSpace(l); l != "" {
			line = l
		}
	}
	const most = 300
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + "…"
	}
	return line
}

// errSilent is why a start ended that had no answer.
var errSilent = errors.New("no answer")
