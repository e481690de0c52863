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
	"github.com/wdlrun/wdlrun/rank"
)

// Remote says how ranks on other hosts are started. The zero value of everything but Self
// is the default.
type Remote struct {
	Self string   // the launcher's executable, whose main calls RunHost for HostWord
	SSH  string   // the ssh client and its flags, default "ssh"
	Ship string   // when executables are sent: auto, always or never
	Net  string   // the network between hosts: 10.0.0.0/8, eth1 or ^docker0, "" for the fastest that all reach
	Pass []string // variables that the ranks get in addition to those of their host, NAME=VALUE
}

// passed are the variables that hosts get without being asked.
var passed = []string{"WDLRUN_", "NCCL_", "GOMEMLIMIT=", "GOMAXPROCS="}

// remote is the crew of a job with ranks on several hosts: a host process on each.
type remote struct {
	forker
	job     Job
	console *console
	guard   *guard
	front   string // address of the coordinator
	exits   chan exit

	key rank.Key // of the attempts of hosts to reach each other

	stations []*station
	of       map[string]*station // by name of the host
}

// station is the launcher's side of one host.
type station struct {
	name    string
	ranks   []int
	process *hosts.Process
	link    *hosts.Link
	ready   hosts.Message
	ip      string             // at which its ranks listen
	answers chan hosts.Message // to a start order
	sends   chan hosts.Message

	mu      sync.Mutex
	live    map[int]*exported // ranks whose processes have not ended
	waiting map[int]bool      // ranks that were not started yet
	lost    *loss             // of the host; nil: it is there
	leaving bool
}

// exported is a rank on another host.
type exported struct {
	out  [2]*lines
	open sync.WaitGroup // outputs
}

// newRemote returns a crew for the hosts of a job. Its connect must be called before it
// starts ranks, and its close.
func newRemote(job Job, c *console, g *guard, front string) *remote {
	a := &remote{forker: newForker(), key: rank.NewKey(), job: job, console: c, guard: g, front: front,
		exits: make(chan exit, len(job.Plan.Ranks)), of: map[string]*station{}}
	for _, p := range job.Plan.Ranks {
		s := a.of[p.Host]
		if s == nil {
			s = &station{name: p.Host, live: map[int]*exported{}, waiting: map[int]bool{}, answers: make(chan hosts.Message, 1), sends: make(chan hosts.Message, 1024)}
			a.of[p.Host], a.stations = s, append(a.stations, s)
		}
		s.ranks = append(s.ranks, p.Rank)
		s.waiting[p.Rank] = true
	}
	return a
}

// bring starts a login, or the host process of this machine, so that it ends with the
// launcher.
func (a *remote) bring(cmd *exec.Cmd) error {
	if err := a.run(cmd); err != nil {
		return explain(err)
	}
	a.guard.watch(cmd.Process.Pid)
	return nil
}

// connect starts the host processes, all at once, and has them prepare the job.
func (a *remote) connect(ctx context.Context) error {
	image, err := hosts.NewImage(ownImage(a.job.Remote.Self))
	if err != nil {
		return fmt.Errorf("launcher: start: own executable: %w", err)
	}
	first, err := a.first(image)
	if err != nil {
		return err
	}
	beside := beside{a.console}
	away, err := hosts.NewSSH(cmp.Or(a.job.Remote.SSH, "ssh"), hosts.Ship(first.Ship), image, a.job.Remote.Self, a.bring, beside)
	if err != nil {
		return err
	}
	here := hosts.Local{Command: []string{a.job.Remote.Self, HostWord}, Run: a.bring, Stderr: beside}
	program := sync.OnceValues(func() (*hosts.Image, error) { return hosts.NewImage(a.job.Command[0]) })
	var all sync.WaitGroup
	faults := make([]error, len(a.stations))
	for i, s := range a.stations {
		all.Go(func() {
			m, from := first, hosts.Starter(away)
			if (Host{Name: s.name}).Local() {
				m.Ship, from = string(hosts.Auto), here
			}
			m.Host, m.Size = s.name, len(s.ranks)
			if err := s.connect(ctx, from, m, program); err != nil {
				faults[i] = &hostError{s.name, err}
			}
		})
	}
	all.Wait()
	if err := foldFaults(a.stations, faults); err != nil {
		return err
	}
	if err := a.choose(); err != nil {
		return err
	}
	for _, s := range a.stations {
		go s.send()
		go a.hear(s)
		go a.accept(s)
	}
	return nil
}

// hostError is why a host cannot be used.
type hostError struct {
	host string
	error
}

func (e *hostError) Error() string { return fmt.Sprintf("host %s: %v", e.host, e.error) }

func (e *hostError) Unwrap() error { return e.error }

// foldFaults is one error of those of all hosts.
func foldFaults(stations []*station, faults []error) error {
	var first error
	var others []string
	for i, err := range faults {
		switch {
		case err == nil:
		case first == nil:
			first = err
		default:
			others = append(others, stations[i].name)
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

// first is the first message to each host.
func (a *remote) first(own *hosts.Image) (m hosts.Message, err error) {
	m = hosts.Message{What: hosts.Job, Key: a.shared(), Protocol: hosts.Protocol, Own: own.Hash, Ship: cmp.Or(a.job.Remote.Ship, string(hosts.Auto)), Dir: a.job.Dir}
	if m.Dir == "" {
		if m.Dir, err = os.Getwd(); err != nil {
			return m, fmt.Errorf("launcher: start: working directory: %w; name one with -wdir", err)
		}
	}
	if len(a.job.Guard) > 1 {
		m.Guard = a.job.Guard[1:]
	}
	env := a.job.Env
	if env == nil {
		env = os.Environ()
	}
	for _, v := range environment(env) {
		if !strings.HasPrefix(v, markName+"=") && slices.ContainsFunc(passed, func(p string) bool { return strings.HasPrefix(v, p) }) {
			m.Env = append(m.Env, v)
		}
	}
	m.Env = append(m.Env, a.job.Remote.Pass...)
	name := a.job.Command[0]
	switch {
	case name == a.job.Remote.Self:
		name = ""
	case strings.ContainsRune(name, '/'):
		if m.Hash, err = hosts.Hash(name); err != nil {
			return m, fmt.Errorf("launcher: start: %w", err)
		}
	}
	m.Command = []string{name}
	return m, nil
}

// readyTime bounds how long a host process may take to answer, without the time in which
// the program is sent.
const readyTime = 20 * time.Second

// connect starts the host process and has it prepare the job.
func (s *station) connect(ctx context.Context, from hosts.Starter, m hosts.Message, program func() (*hosts.Image, error)) (err error) {
	if s.process, err = from.Start(ctx, s.name); err != nil {
		return err
	}
	if s.link, err = hosts.Call(s.process); err != nil {
		return err
	}
	late := time.AfterFunc(readyTime, func() { s.process.Kill() })
	defer late.Stop()
	stop := context.AfterFunc(ctx, func() { s.process.Kill() })
	defer stop()
	if err := s.link.Send(m); err != nil {
		return s.gone()
	}
	for {
		answer, err := s.link.Receive()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return s.gone()
		}
		switch answer.What {
		case hosts.Want:
			late.Stop()
			if err := s.sendProgram(program, m.Hash); err != nil {
				return err
			}
			late.Reset(readyTime)
		case hosts.Ready:
			s.ready = answer
			return nil
		default:
			return &startError{errors.New(answer.Text), answer.Code}
		}
	}
}

// startError is an error of starting a program, with the exit code for it.
type startError struct {
	error
	code int
}

func (e *startError) Unwrap() error { return e.error }

// sendProgram sends the user's program.
func (s *station) sendProgram(program func() (*hosts.Image, error), hash string) error {
	image, err := program()
	if err != nil {
		return err
	}
	packed, err := image.Packed()
	if err != nil {
		return err
	}
	stream, err := s.link.Open(hosts.Header{What: hosts.Binary})
	if err != nil {
		return s.gone()
	}
	defer stream.Close()
	stream.Write(packed) // what goes wrong the host says
	return nil
}

// gone is why the host process is gone.
func (s *station) gone() error {
	if s.link.Silent() {
		return errors.New("it has not answered for 7 s: it is down, stopped or cut off")
	}
	if why := s.process.Why(); why != "" {
		return errors.New(why)
	}
	return errors.New("its host process has closed the connection")
}

// start is part of crew.
func (a *remote) start(o order) (pid int, err error) {
	s := a.of[o.placed.Host]
	w := o.world
	w.Coordinator, w.Host, w.IP = s.ready.Addr, s.name, s.ip
	e := &exported{out: o.out}
	e.open.Add(len(e.out))
	s.mu.Lock()
	delete(s.waiting, w.Rank)
	if s.lost != nil {
		a.exits <- exit{rank: w.Rank, code: 1, why: s.gone().Error(), lost: s.lost}
		s.mu.Unlock()
		return 0, nil
	}
	s.live[w.Rank] = e
	s.mu.Unlock()
	s.sends <- hosts.Message{What: hosts.Start, Rank: w.Rank, Command: o.command[1:], Env: w.Env(), Input: o.input != nil}
	late := time.NewTimer(readyTime)
	defer late.Stop()
	fault := func(code int, text string) error {
		return &startError{fmt.Errorf("launcher: start: rank %d: host %s: %s", w.Rank, s.name, text), code}
	}
	select {
	case m := <-s.answers:
		if m.What != hosts.Started {
			s.mu.Lock()
			delete(s.live, w.Rank)
			s.mu.Unlock()
			return 0, fault(m.Code, m.Text)
		}
		pid = m.Pid
	case <-s.link.Gone(): // hear reports the loss
		return 0, nil
	case <-late.C:
		return 0, fault(1, "no answer to the start order")
	}
	if o.input != nil {
		stream, err := s.link.Open(hosts.Header{What: hosts.Input, Rank: w.Rank})
		if err != nil {
			return pid, nil
		}
		o.input.copyTo(stream)
	}
	return pid, nil
}

// signal is part of crew.
func (a *remote) signal(what sign, rank int) {
	for _, s := range a.stations {
		if s.link == nil || rank != everyone && !slices.Contains(s.ranks, rank) {
			continue
		}
		select {
		case s.sends <- hosts.Message{What: hosts.Signal, Sign: string(what), Rank: rank}:
		default: // the host takes nothing: it will be lost
		}
	}
}

// ended is part of crew.
func (a *remote) ended() <-chan exit { return a.exits }

// send sends what is to be sent, for the life of the station.
func (s *station) send() {
	for {
		select {
		case m := <-s.sends:
			s.link.Send(m)
		case <-s.link.Gone():
			return
		}
	}
}

// hear hears a host until it is gone.
func (a *remote) hear(s *station) {
	go func() {
		<-s.link.Gone()
		s.process.Kill() // a host that is silent has not closed the stream
	}()
	for {
		m, err := s.link.Receive()
		if err != nil {
			break
		}
		switch m.What {
		case hosts.Started, hosts.Failed:
			select {
			case s.answers <- m:
			default: // nobody has asked
			}
		case hosts.Exit:
			go a.end(s, exit{rank: m.Rank, code: m.Code, signal: m.Signal, why: m.Text})
		}
	}
	<-s.link.Gone()
	s.mu.Lock()
	leaving := s.leaving
	s.mu.Unlock()
	if leaving {
		return
	}
	why := s.gone().Error()
	s.process.Kill()
	s.mu.Lock()
	ended := slices.Sorted(maps.Keys(s.live))
	clear(s.live)
	// Ranks that wait for their start are lost too. Their start reports it.
	s.lost = &loss{s.name, slices.Sorted(maps.Keys(s.waiting))}
	s.lost.ranks = append(s.lost.ranks, ended...)
	slices.Sort(s.lost.ranks)
	s.mu.Unlock()
	for _, r := range ended {
		a.exits <- exit{rank: r, code: 1, why: why, lost: s.lost}
	}
}

// end reports the end of a process, after what it wrote if that is there soon.
func (a *remote) end(s *station, e exit) {
	s.mu.Lock()
	x := s.live[e.rank]
	s.mu.Unlock()
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
	s.mu.Lock()
	_, there := s.live[e.rank]
	delete(s.live, e.rank)
	s.mu.Unlock()
	if there {
		a.exits <- e
	}
}

// accept takes the streams that a host opens.
func (a *remote) accept(s *station) {
	for {
		h, stream, err := s.link.Accept()
		if err != nil {
			return
		}
		switch h.What {
		case hosts.Door:
			go a.enter(stream)
		case hosts.Output:
			s.mu.Lock()
			x := s.live[h.Rank]
			s.mu.Unlock()
			if x == nil || h.FD < 1 || h.FD > len(x.out) {
				stream.Close()
				continue
			}
			go func() {
				defer x.open.Done()
				io.Copy(x.out[h.FD-1], stream)
				x.out[h.FD-1].flush()
				stream.Close()
			}()
		default:
			stream.Close()
		}
	}
}

// enter connects a rank with the coordinator.
func (a *remote) enter(stream net.Conn) {
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
	for _, s := range a.stations {
		all.Go(func() { a.leave(s) })
	}
	all.Wait()
	close(a.forks)
}

// leave ends a host process.
func (a *remote) leave(s *station) {
	if s.process == nil {
		return
	}
	s.mu.Lock()
	s.leaving = true
	idle := len(s.live) == 0
	s.mu.Unlock()
	if s.link != nil {
		if idle {
			s.link.Send(hosts.Message{What: hosts.Quit})
			s.process.Await(reapTime + time.Second)
		}
		s.link.Close()
	}
	s.process.Close()
	a.guard.forget(s.process.Pid())
}
