package launcher

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Guard is the main function of the guard process. It reads lines from r, its standard
// input: "+PGID" or "-PGID" for a process group that starts or ends, and "=NAME=VALUE"
// for a variable in the environment of the job's processes. When r ends, because the
// launcher has ended in any way, Guard kills the remaining groups. On systems where it
// can read environments, it also kills processes whose environment has the variable,
// because the launcher may have died between starting a process and reporting its
// group. On Linux it also kills the descendants of a host process, which have a limit that
// is derived from the variable. Guard ignores the signals that end the launcher.
func Guard(r io.Reader) {
	outlive()
	groups, mark := map[int]bool{}, ""
	for lines := bufio.NewScanner(r); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "=") {
			mark = line[1:]
		}
		if len(line) < 2 {
			continue
		}
		pgid, err := strconv.Atoi(line[1:])
		if err != nil || pgid < 2 { // kill gives 0 and 1 other meanings
			continue
		}
		switch line[0] {
		case '+':
			groups[pgid] = true
		case '-':
			delete(groups, pgid)
		}
	}
	for pgid := range groups {
		killGroup(pgid)
	}
	if strings.Contains(mark, "=") {
		killMarked(mark)
	}
}

// guard is the launcher's end of the guard process. A nil guard does nothing. A guard
// process that ends while the job runs is replaced.
type guard struct {
	command []string
	mark    string
	warn    func(line string)
	over    chan struct{} // closed by close
	done    chan struct{} // closed when the last process has ended

	mu     sync.Mutex
	cmd    *exec.Cmd
	pipe   io.WriteCloser
	groups map[int]bool
}

// maxGuards bounds the guard processes that a job starts one after the other.
const maxGuards = 8

// startGuard starts the guard process with the given command, or none if it is empty. The
// guard is outside the launcher's process group and survives signals to that group. Every
// process of the job has mark, NAME=VALUE, in its environment.
func startGuard(command []string, mark string, warn func(line string)) (*guard, error) {
	if len(command) == 0 {
		return nil, nil
	}
	g := &guard{command: command, mark: mark, warn: warn, over: make(chan struct{}), done: make(chan struct{}), groups: map[int]bool{}}
	if err := g.start(); err != nil {
		return nil, err
	}
	go g.keep()
	return g, nil
}

// start starts a guard process and sends it the current groups.
func (g *guard) start() error {
	cmd := exec.Command(g.command[0], g.command[1:]...)
	cmd.Env = []string{} // if this launcher is a rank of another job, that job's guard must not kill this guard
	ownGroup(cmd)
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("launcher: guard: %w", explain(err))
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("launcher: guard: %w", explain(err))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cmd, g.pipe = cmd, pipe
	fmt.Fprintf(pipe, "=%s\n", g.mark)
	for pgid := range g.groups {
		fmt.Fprintf(pipe, "+%d\n", pgid)
	}
	select {
	case <-g.over: // close did not know this process
		fmt.Fprintln(pipe, "=")
		pipe.Close()
	default:
	}
	return nil
}

// keep replaces a guard process that ends before close. Until then, the ranks of a killed
// launcher are ended only by other means.
func (g *guard) keep() {
	defer close(g.done)
	for n := 1; ; n++ {
		g.cmd.Wait()
		select {
		case <-g.over:
			return
		default:
		}
		if n == maxGuards {
			g.warn(fmt.Sprintf("the guard process has ended %d times and is not started again: ranks may stay behind if this launcher is killed", n))
			return
		}
		if err := g.start(); err != nil {
			g.warn(fmt.Sprintf("the guard process has ended (%v) and cannot be started again: %v: ranks may stay behind if this launcher is killed", g.cmd.ProcessState, err))
			return
		}
		g.warn(fmt.Sprintf("the guard process had ended (somebody killed it?) and was started again, pid %d", g.cmd.Process.Pid))
	}
}

func (g *guard) watch(pgid int)  { g.send('+', pgid) }
func (g *guard) forget(pgid int) { g.send('-', pgid) }

// send writes a line to the guard. It ignores errors: a lost guard does not fail the job.
func (g *guard) send(sign byte, pgid int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if sign == '+' {
		g.groups[pgid] = true
	} else {
		delete(g.groups, pgid)
	}
	fmt.Fprintf(g.pipe, "%c%d\n", sign, pgid)
}

// close ends the guard without killing anything. The job has ended normally, and processes
// that it left outside its groups were left intentionally.
func (g *guard) close() {
	if g == nil {
		return
	}
	close(g.over)
	g.mu.Lock()
	fmt.Fprintln(g.pipe, "=")
	g.pipe.Close()
	process := g.cmd.Process
	g.mu.Unlock()
	late := time.AfterFunc(reapTime, func() { process.Kill() })
	defer late.Stop()
	<-g.done
}

// explain adds advice to an error of starting a program.
func explain(err error) error {
	switch {
	case errors.Is(err, exec.ErrDot):
		return fmt.Errorf("%w; write ./ before a program of this directory", err)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; give the path of a program, or a name found in PATH", err)
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%w; give the path of the program in it", err)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w; it is not a program for this machine, or a script without a #! line", err)
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%w; a rule of the container or of a security module forbids it", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; make it executable (chmod +x), or copy it to a file system that is not mounted noexec", err)
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("%w; raise the limit of open files (ulimit -n)", err)
	case errors.Is(err, syscall.EAGAIN):
		return fmt.Errorf("%w; raise the limit of processes (ulimit -u), or start fewer ranks", err)
	case errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("%w; start fewer ranks, or on more hosts", err)
	}
	return err
}
