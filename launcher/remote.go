package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/internal/hosts"
	"github.com/wdlrun/wdlrun/internal/hosts/agent"
	"github.com/wdlrun/wdlrun/rank"
)

// passed are the prefixes of variables that hosts get without -x.
var passed = []string{"WDLRUN_", "NCCL_", "GOMEMLIMIT=", "GOMAXPROCS="}

// newRemote prepares the hosts of a job. Call connect before start, and close at the end.
func newRemote(job Job, c *console, g *guard, front string) *remote {
	a := &remote{forker: newForker(), key: rank.NewKey(), job: job, console: c, guard: g, front: front,
		exits: make(chan exit, len(job.Plan.Ranks)), of: map[string]*remoteHost{}}
	for _, p := range job.Plan.Ranks {
		h := a.of[p.Host]
		if h == nil {
			h = &remoteHost{name: p.Host, live: map[int]*remoteRank{}, waiting: map[int]bool{}, answers: make(chan hosts.Message, 1), sends: make(chan hosts.Message, 1024)}
			a.of[p.Host], a.hosts = h, append(a.hosts, h)
		}
		h.ranks = append(h.ranks, p.Rank)
		h.waiting[p.Rank] = true
	}
	return a
}

// startGuarded starts a login, or the host process of this machine. The guard kills it if the
// launcher is killed.
func (a *remote) startGuarded(cmd *exec.Cmd) error {
	if err := a.run(cmd, nil); err != nil {
		return explain(err)
	}
	a.guard.watch(cmd.Process.Pid)
	return nil
}

// starter starts host processes on other machines without an agent, nil if there are none.
func (a *remote) starter(ship hosts.Ship, image *hosts.Image, stderr io.Writer) (hosts.Starter, error) {
	r := a.job.Remote
	if !slices.ContainsFunc(a.hosts, func(h *remoteHost) bool {
		return !strings.HasPrefix(h.name, agent.Prefix) && !(Host{Name: h.name}).Local()
	}) {
		return nil, nil
	}
	if r.Slurm {
		return hosts.NewSrun(ship, image, r.Self, a.startGuarded, stderr)
	}
	return hosts.NewSSH(cmp.Or(r.SSH, "ssh"), ship, image, r.Self, a.startGuarded, stderr)
}

// hostError reports why a host cannot be used.
type hostError struct {
	host string
	error
}

func (e *hostError) Error() string { return fmt.Sprintf("host %s: %v", e.host, e.error) }

func (e *hostError) Unwrap() error { return e.error }

// foldFaults joins the errors of all hosts into one.
func foldFaults(all []*remoteHost, faults []error) error {
	var first error
	var others []string
	for i, err := range faults {
		switch {
		case err == nil:
		case first == nil:
			first = err
		default:
			others = append(others, all[i].name)
		}
	}
	const most = 16
	switch n := len(others); {
	case n == 0:
		return first
	case n > most:
		return fmt.Errorf("%w (and %d other hosts failed too: %s …)", first, n, strings.Join(others[:most], ", "))
	}
	return fmt.Errorf("%w (and other hosts failed too: %s)", first, strings.Join(others, ", "))
}

// ownImage is a path that reads this program as it runs, also when a newer one has taken
// its place.
func ownImage(self string) string {
	if _, err := os.Stat("/proc/self/exe"); err == nil {
		return "/proc/self/exe"
	}
	return self
}

// readyTime bounds how long a host process may take to answer, without the time in which
// the program is sent.
const readyTime = 20 * time.Second

// connect starts the host process and has it prepare the job.
func (h *remoteHost) connect(ctx context.Context, from hosts.Starter, m hosts.Message, program func() (*hosts.Image, error)) (err error) {
	if h.process, err = from.Start(ctx, h.name); err != nil {
		return err
	}
	if h.link, err = hosts.Call(h.process); err != nil {
		if why := h.process.Why(); why != "" { // it ended before it could be called
			err = errors.New(why)
		}
		return err
	}
	late := time.AfterFunc(readyTime, func() { h.process.Kill() })
	defer late.Stop()
	stop := context.AfterFunc(ctx, func() { h.process.Kill() })
	defer stop()
	if err := h.link.Send(m); err != nil {
		return h.gone()
	}
	for {
		answer, err := h.link.Receive()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return h.gone()
		}
		switch answer.What {
		case hosts.Want:
			late.Stop()
			if err := h.sendProgram(program); err != nil {
				return err
			}
			late.Reset(readyTime)
		case hosts.Ready:
			h.ready = answer
			return nil
		default:
			return &startError{errors.New(answer.Text), answer.Code}
		}
	}
}

func (e *startError) Unwrap() error { return e.error }

// sendProgram sends the user's program.
func (h *remoteHost) sendProgram(program func() (*hosts.Image, error)) error {
	image, err := program()
	if err != nil {
		return err
	}
	packed, err := image.Packed()
	if err != nil {
		return err
	}
	stream, err := h.link.Open(hosts.Header{What: hosts.Binary})
	if err != nil {
		return h.gone()
	}
	defer stream.Close()
	stream.Write(packed) // the host reports an error
	return nil
}

// gone returns why the host process is gone.
func (h *remoteHost) gone() error {
	if h.link.Silent() {
		return errors.New("it has not answered for 4 s: it is down, stopped or cut off")
	}
	if why := h.process.Why(); why != "" {
		return errors.New(why)
	}
	return errors.New("its host process has closed the connection")
}

// start is part of crew.
func (a *remote) start(o order) (pid int, err error) {
	h := a.of[o.placed.Host]
	w := o.world
	w.Coordinator, w.Host, w.IP = h.ready.Addr, h.name, h.ip
	e := &remoteRank{out: o.out}
	e.open.Add(len(e.out))
	h.mu.Lock()
	delete(h.waiting, w.Rank)
	if h.lost != nil {
		a.exits <- exit{rank: w.Rank, code: 1, why: h.gone().Error(), lost: h.lost}
		h.mu.Unlock()
		return 0, nil
	}
	h.live[w.Rank] = e
	h.mu.Unlock()
	h.sends <- hosts.Message{What: hosts.Start, Rank: w.Rank, Command: o.command[1:], Env: w.Env(), Input: o.input != nil}
	late := time.NewTimer(readyTime)
	defer late.Stop()
	fault := func(code int, text string) error {
		return &startError{fmt.Errorf("launcher: start: rank %d: %w", w.Rank, &hostError{h.name, errors.New(text)}), code}
	}
	select {
	case m := <-h.answers:
		if m.What != hosts.Started {
			h.mu.Lock()
			delete(h.live, w.Rank)
			h.mu.Unlock()
			return 0, fault(m.Code, m.Text)
		}
		pid = m.Pid
	case <-h.link.Gone(): // receive reports the loss
		return 0, nil
	case <-late.C:
		return 0, fault(1, "no answer to the start order")
	}
	if o.input != nil {
		stream, err := h.link.Open(hosts.Header{What: hosts.Input, Rank: w.Rank})
		if err != nil {
			return pid, nil
		}
		o.input.copyTo(stream)
	}
	return pid, nil
}

// signal is part of crew.
func (a *remote) signal(what sign, rank int) {
	for _, h := range a.hosts {
		if h.link == nil || rank != everyone && !slices.Contains(h.ranks, rank) {
			continue
		}
		select {
		case h.sends <- hosts.Message{What: hosts.Signal, Sign: string(what), Rank: rank}:
		default: // the queue is full, so the host does not read and will be lost
		}
	}
}

// ended is part of crew.
func (a *remote) ended() <-chan exit { return a.exits }

// send sends the queued messages until the host is gone.
func (h *remoteHost) send() {
	for {
		select {
		case m := <-h.sends:
			h.link.Send(m)
		case <-h.link.Gone():
			return
		}
	}
}

// receive reads the messages of a host until it is gone, and then reports the loss.
func (a *remote) receive(h *remoteHost) {
	go func() {
		<-h.link.Gone()
		h.process.Kill() // a host that is silent has not closed the stream
	}()
	for {
		m, err := h.link.Receive()
		if err != nil {
			break
		}
		switch m.What {
		case hosts.Started, hosts.Failed:
			select {
			case h.answers <- m:
			default: // no start waits for it
			}
		case hosts.Exit:
			go a.end(h, exit{rank: m.Rank, code: m.Code, signal: m.Signal, why: m.Text})
		case hosts.Leaving:
			a.left(h.ranks[0])
		}
	}
	<-h.link.Gone()
	h.mu.Lock()
	leaving := h.leaving
	h.mu.Unlock()
	if leaving {
		return
	}
	why := h.gone().Error()
	h.process.Kill()
	h.mu.Lock()
	ended := slices.Sorted(maps.Keys(h.live))
	clear(h.live)
	// Ranks that wait for their start are lost too. Their start reports it.
	h.lost = &loss{h.name, slices.Sorted(maps.Keys(h.waiting))}
	h.lost.ranks = append(h.lost.ranks, ended...)
	slices.Sort(h.lost.ranks)
	h.mu.Unlock()
	for _, r := range ended {
		a.exits <- exit{rank: r, code: 1, why: why, lost: h.lost}
	}
}

// end reports the end of a process, after its output if that arrives within readTime.
func (a *remote) end(h *remoteHost, e exit) {
	h.mu.Lock()
	x := h.live[e.rank]
	h.mu.Unlock()
	if x == nil {
		return
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		x.open.Wait()
	}()
	select {
	case <-read:
	case <-time.After(readTime):
	}
	h.mu.Lock()
	_, there := h.live[e.rank]
	delete(h.live, e.rank)
	h.mu.Unlock()
	if there {
		a.exits <- e
	}
}

// accept takes the streams that a host opens.
func (a *remote) accept(h *remoteHost) {
	for {
		head, stream, err := h.link.Accept()
		if err != nil {
			return
		}
		switch head.What {
		case hosts.Coordinator:
			go a.dialCoordinator(stream)
		case hosts.Output:
			h.mu.Lock()
			x := h.live[head.Rank]
			h.mu.Unlock()
			if x == nil || head.FD < 1 || head.FD > len(x.out) {
				stream.Close()
				continue
			}
			go func() {
				defer x.open.Done()
				io.Copy(x.out[head.FD-1], stream)
				x.out[head.FD-1].flush()
				stream.Close()
			}()
		default:
			stream.Close()
		}
	}
}

// dialCoordinator connects a rank with the coordinator.
func (a *remote) dialCoordinator(stream net.Conn) {
	conn, err := net.Dial("tcp", a.front)
	if err != nil {
		stream.Close()
		return
	}
	join(stream, conn)
}

// close is part of crew.
func (a *remote) close() {
	var all sync.WaitGroup
	for _, h := range a.hosts {
		all.Go(func() { a.endHost(h) })
	}
	all.Wait()
	close(a.forks)
}

// endHost ends a host process.
func (a *remote) endHost(h *remoteHost) {
	if h.process == nil {
		return
	}
	h.mu.Lock()
	h.leaving = true
	idle := len(h.live) == 0
	h.mu.Unlock()
	if h.link != nil {
		if idle {
			h.link.Send(hosts.Message{What: hosts.Quit})
			h.process.Await(reapTime + time.Second)
		}
		h.link.Close()
	}
	h.process.Close()
	a.guard.forget(h.process.Pid())
}
