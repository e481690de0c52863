package launcher

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/internal/hosts"
	"github.com/wdlrun/wdlrun/internal/machine/cpus"
	"github.com/wdlrun/wdlrun/rank"
)

// status returns the exit code in the convention of shells.
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
	out  [2]output // its standard output and error
}

func (p *process) pid() int { return p.cmd.Process.Pid }

const (
	termSign  sign = "tell"  // asks to end; the string is part of the protocol
	killSign  sign = "kill"  // ends at once
	pauseSign sign = "pause" // stops
	wakeSign  sign = "wake"  // continues

	everyone = -1 // in place of a rank
)

// act sends a sign to the processes of a group.
func (s sign) act(pgid int) {
	switch s {
	case termSign:
		termGroup(pgid)
	case killSign:
		killGroup(pgid)
	case pauseSign:
		pauseGroup(pgid)
	case wakeSign:
		wakeGroup(pgid)
	}
}

// fleet is the crew on this machine.
type fleet struct {
	forker
	guard  *guard
	memory memory
	exits  chan exit // one exit for each process, buffered for all
	shares [][]int   // CPUs of each rank, by order of first start; nil: not bound
	crowd  bool      // ranks outnumber the CPUs

	mu      sync.Mutex
	live    map[int]*process // by rank
	shareOf map[int]int      // by rank: its index in shares
	ending  bool             // a request to end was sent
	waiters sync.WaitGroup
}

// forker starts processes on one thread. The parent death signal comes when the thread that
// started a process ends, and Go may end any thread to which no goroutine is locked.
type forker struct{ forks chan func() }

func newForker() forker {
	f := forker{make(chan func())}
	go f.fork()
	return f
}

func (f forker) fork() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for start := range f.forks {
		start()
	}
}

// run starts a command as the leader of a process group that ends with this process. on are
// the CPUs to which it is bound, if any.
func (f forker) run(cmd *exec.Cmd, on []int) error {
	ownGroup(cmd)
	dieWithLauncher(cmd)
	started := make(chan error)
	f.forks <- func() { started <- cpus.On(on, cmd.Start) }
	return <-started
}

// newFleet returns a fleet for at most size processes, or an error if there is too little
// memory. The caller must call close.
func newFleet(size int, each hosts.Each, g *guard) (*fleet, error) {
	memory := newMemory()
	if err := memory.enough(size, each.Memory); err != nil {
		return nil, err
	}
	shares, err := shares(each.Bind, size)
	if err != nil {
		return nil, err
	}
	return &fleet{forker: newForker(), guard: g, memory: memory, exits: make(chan exit, size), shares: shares,
		crowd: size > runtime.GOMAXPROCS(0), live: map[int]*process{}, shareOf: map[int]int{}}, nil
}

// threads adds GOMAXPROCS=1 to the environment of a rank if ranks outnumber the CPUs, unless the
// user has set the variable. Threads of one rank would compete with the other ranks: they look for
// work, collect garbage while the program starts, and wake each other.
func (f *fleet) threads(env []string) []string {
	const name = "GOMAXPROCS="
	if !f.crowd || slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name) }) {
		return env
	}
	return append(env, name+"1")
}

// cpusOf returns the CPUs of a rank. They are the same after a restart.
func (f *fleet) cpusOf(rank int) []int {
	if len(f.shares) == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i, known := f.shareOf[rank]
	if !known {
		i = len(f.shareOf) % len(f.shares)
		f.shareOf[rank] = i
	}
	return f.shares[i]
}

// start implements crew.
func (f *fleet) start(o order) (pid int, err error) {
	cmd := exec.Command(o.command[0], o.command[1:]...)
	cmd.Dir = o.dir
	if o.base == nil {
		o.base = cmd.Environ()
	}
	cmd.Env = append(environment(o.base), o.world.Env()...)
	if o.input != nil {
		cmd.Stdin = o.input.child()
	}
	if pid, err = f.launch(o.placed.Rank, cmd, [2]sink{o.out[0], o.out[1]}); err == nil {
		o.input.run()
	}
	return pid, err
}

// launch starts the process of a rank in a new process group.
func (f *fleet) launch(rank int, cmd *exec.Cmd, out [2]sink) (pid int, err error) {
	cmd.Env = f.threads(cmd.Env)
	p := &process{rank: rank, cmd: cmd}
	if p.out, err = outputs(cmd, out); err == nil {
		err = f.run(cmd, f.cpusOf(rank))
	}
	for _, out := range p.out {
		out.into.Close() // the process has its own copy
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

// await waits for the end of a process, ends the rest of its group, and reports the exit.
// The output of the process is forwarded first. If another process holds its pipes, they
// are read concurrently until close.
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
		f.remove(p) // before the process number can be reused
		p.cmd.Wait()
	} else {
		p.cmd.Wait()
		f.remove(p)
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
	f.exits <- exit{rank: p.rank, code: code, signal: signal, why: f.whyKilled(signal)}
	<-read
}

// output is one output of a process: a pipe and the sink of its lines.
type output struct {
	from, into *os.File
	to         sink
}

// sink is the destination of an output.
type sink interface {
	io.Writer
	flush() // called at the end
}

// outputs gives a command pipes to write to. They do not belong to the command, so that
// Wait does not wait for their end.
func outputs(cmd *exec.Cmd, to [2]sink) (out [2]output, err error) {
	for i := range out {
		out[i].to = to[i]
		if out[i].from, out[i].into, err = os.Pipe(); err != nil {
			return out, err
		}
	}
	cmd.Stdout, cmd.Stderr = out[0].into, out[1].into
	return out, nil
}

// read forwards the output until all holders of the pipe have closed it.
func (o output) read() {
	io.Copy(o.to, o.from)
	o.to.flush()
	o.from.Close()
}

// remove ends the rest of a process's group and removes the process.
func (f *fleet) remove(p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	killGroup(p.pid())
	delete(f.live, p.rank)
	f.guard.forget(p.pid())
}

// signal implements crew.
func (f *fleet) signal(s sign, rank int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ending = f.ending || rank == everyone && (s == termSign || s == killSign)
	for r, p := range f.live {
		if rank == everyone || rank == r {
			s.act(p.pid())
		}
	}
}

// ended implements crew.
func (f *fleet) ended() <-chan exit { return f.exits }

// whyKilled explains the end of a process by a signal that this fleet did not send.
func (f *fleet) whyKilled(signal int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ending {
		return ""
	}
	return f.memory.why(signal)
}

// close ends the forking thread. All processes must have ended.
func (f *fleet) close() {
	f.waiters.Wait()
	close(f.forks)
}

// environment is base without the variables that make a rank see its job.
func environment(base []string) []string {
	own := rank.Variables()
	return slices.DeleteFunc(slices.Clone(base), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(own, name)
	})
}
