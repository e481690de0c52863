package launcher

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// exit is how the process of a rank ended.
type exit struct {
	rank, code, signal int
}

// status is the exit as a shell tells it.
func (e exit) status() int {
	if e.signal != 0 {
		return 128 + e.signal
	}
	return e.code
}

// process is the running process of a rank.
type process struct {
	rank int
	cmd  *exec.Cmd
	out  [2]output // what it writes to standard output and error
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// fleet is the processes of a job.
type fleet struct {
	guard *guard
	exits chan exit // one for each process, buffered for all

	forks   chan func()
	mu      sync.Mutex
	live    map[int]*process // by rank
	waiters sync.WaitGroup
}

// newFleet returns a fleet for at most size processes. Its close must be called.
func newFleet(size int, g *guard) *fleet {
	f := &fleet{guard: g, exits: make(chan exit, size), forks: make(chan func()), live: map[int]*process{}}
	go f.fork()
	return f
}

// fork runs on one thread for the life of the fleet, since the parent death
// signal comes when the thread that started a process ends, and Go may end any
// thread that no goroutine holds.
func (f *fleet) fork() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for start := range f.forks {
		start()
	}
}

// start starts the process of a rank in a group of its own.
func (f *fleet) start(rank int, cmd *exec.Cmd, out [2]*lines) (pid int, err error) {
	p := &process{rank: rank, cmd: cmd}
	if p.out, err = outputs(cmd, out); err == nil {
		ownGroup(cmd)
		dieWithLauncher(cmd)
		started := make(chan error)
		f.forks <- func() { started <- cmd.Start() }
		err = <-started
	}
	for _, out := range p.out {
		out.into.Close() // the process has its own
		if err != nil {
			out.from.Close()
		}
	}
	if err != nil {
		return 0, fmt.Errorf("launcher: start: rank %d: %w", rank, explain(err))
	}
	f.guard.watch(p.pid())
	f.mu.Lock()
	f.live[rank] = p
	f.mu.Unlock()
	f.waiters.Go(func() { f.await(p) })
	return p.pid(), nil
}

// await waits for the end of a process, ends what it left in its group, and
// reports. What the process wrote is shown before that, unless somebody else holds
// its pipes: then it is read beside what happens next, until close.
func (f *fleet) await(p *process) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		var both sync.WaitGroup
		for _, out := range p.out {
			both.Go(out.read)
		}
		both.Wait()
	}()
	if awaitEnd(p.pid()) {
		f.bury(p) // before the number is free for others
		p.cmd.Wait()
	} else {
		p.cmd.Wait()
		f.bury(p)
	}
	late := time.AfterFunc(reapTime, func() {
		for _, out := range p.out {
			out.from.SetReadDeadline(time.Unix(1, 0))
		}
	})
	defer late.Stop()
	select {
	case <-read:
	case <-time.After(readTime):
	}
	code, signal := ending(p.cmd.ProcessState)
	f.exits <- exit{p.rank, code, signal}
	<-read
}

// output is one output of a process: a pipe, and where its lines go.
type output struct {
	from, into *os.File
	to         *lines
}

// outputs gives a command pipes to write to. They are ours and not the command's, so
// that the end of the process can be awaited without theirs.
func outputs(cmd *exec.Cmd, to [2]*lines) (out [2]output, err error) {
	for i := range out {
		out[i].to = to[i]
		if out[i].from, out[i].into, err = os.Pipe(); err != nil {
			return out, err
		}
	}
	cmd.Stdout, cmd.Stderr = out[0].into, out[1].into
	return out, nil
}

// read passes on what is written, until all who hold the pipe have closed it.
func (o output) read() {
	io.Copy(o.to, o.from)
	o.to.flush()
	o.from.Close()
}

// bury ends what is left of a process's group and forgets it.
func (f *fleet) bury(p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	killGroup(p.pid())
	delete(f.live, p.rank)
	f.guard.forget(p.pid())
}

// tell asks all that live to end.
func (f *fleet) tell() { f.each(tellGroup) }

// pause stops all that live, and wake lets them go on.
func (f *fleet) pause() { f.each(pauseGroup) }
func (f *fleet) wake()  { f.each(wakeGroup) }

// kill ends all that live.
func (f *fleet) kill() { f.each(killGroup) }

// killRank ends the process of a rank, if it lives.
func (f *fleet) killRank(rank int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.live[rank]; p != nil {
		killGroup(p.pid())
	}
}

// pids are the processes that live, by rank.
func (f *fleet) pids() map[int]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[int]int{}
	for rank, p := range f.live {
		all[rank] = p.pid()
	}
	return all
}

func (f *fleet) each(act func(pgid int)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.live {
		act(p.pid())
	}
}

// close ends the forking thread. All processes must have ended.
func (f *fleet) close() {
	f.waiters.Wait()
	close(f.forks)
}

// explain makes the errors of starting a program say what to do.
func explain(err error) error {
	switch {
	case errors.Is(err, exec.ErrDot):
		return fmt.Errorf("%w; write ./ before a program of this directory", err)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; give the path of a program, or a name found in PATH", err)
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%w; give the path of the program in it", err)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w; it is no program for this machine, or a script without a #! line", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; make it executable (chmod +x)", err)
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("%w; raise the limit of open files (ulimit -n)", err)
	case errors.Is(err, syscall.EAGAIN):
		return fmt.Errorf("%w; raise the limit of processes (ulimit -u), or start fewer ranks", err)
	case errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("%w; start fewer ranks, or on more hosts", err)
	}
	return err
}
