package launcher

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/wdlrun/wdlrun/internal/hosts"
	"github.com/wdlrun/wdlrun/internal/machine/ports"
	"github.com/wdlrun/wdlrun/rank"
)

// HostWord is the argument with which the executable of a launcher must call RunHost.
const HostWord = hosts.Word

// RunHost is the main function of the host process, which starts, watches and ends the
// ranks of one host. The launcher starts it on each host of a job with ranks on several
// hosts and is at the other end of in and out. env is the environment of this process.
// When the launcher is gone, RunHost kills the ranks. It returns an error if the job
// could not run here, after sending it to the launcher.
func RunHost(in io.Reader, out io.WriteCloser, env []string) error {
	outliveSession()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	link, err := hosts.Answer(duplex{in, out})
	if err != nil {
		return err
	}
	m, err := link.Receive()
	if err != nil {
		return err
	}
	h := &hostProcess{link: link, job: m, self: self, mark: markName + "=" + rand.Text()}
	h.env = append(environment(append(slices.Clone(env), m.Env...)), h.mark)
	markProcess(h.mark)
	if err := h.prepare(); err != nil {
		link.Send(hosts.Message{What: hosts.Failed, Rank: everyone, Text: err.Error(), Code: startCode(err)})
		<-link.Gone() // closed when the launcher has read it
		return err
	}
	return h.serve() // the guard ends all remaining processes
}

// markName is the environment variable of a host process's mark. The job's key cannot be
// the mark: two hosts of a job may be one machine, and the key would mark the ranks of
// both.
const markName = "WDLRUN_MARK"

// duplex joins a reader and a writer.
type duplex struct {
	io.Reader
	io.WriteCloser
}

// hostProcess is the state of a host process after its first message.
type hostProcess struct {
	link *hosts.Link
	job  hosts.Message
	self string
	env  []string
	mark string // of all processes that it starts, and of no other; see markProcess

	program string // replaces the first word of the command; "": does not
	proxy   net.Listener
	guard   *guard
	fleet   *fleet
	live    sync.WaitGroup // connections being forwarded
	key     rank.Key       // key of the attempts to reach other hosts
	tries   *hosts.Listener
}

// prepare prepares the start of ranks and answers the launcher.
func (h *hostProcess) prepare() error {
	if h.job.What != hosts.Job || h.job.Protocol != hosts.Protocol {
		return fmt.Errorf("the launcher speaks version %d of the protocol, this wdlrun (%s) version %d: install the same wdlrun", h.job.Protocol, h.self, hosts.Protocol)
	}
	if err := h.checkSelf(); err != nil {
		return err
	}
	if info, err := os.Stat(h.job.Dir); err != nil || !info.IsDir() {
		return fmt.Errorf("there is no working directory %s; make it there, or name another one with -wdir", h.job.Dir)
	}
	if err := h.receiveProgram(); err != nil {
		return err
	}
	if err := hosts.CheckLoader(h.program); err != nil {
		return err
	}
	var err error
	if h.proxy, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	var command []string
	if len(h.job.Guard) > 0 {
		command = append([]string{h.self}, h.job.Guard...)
	}
	warn := func(line string) { fmt.Fprintln(os.Stderr, line) }
	if h.guard, err = startGuard(command, h.mark, warn); err != nil {
		h.proxy.Close()
		return err
	}
	if h.fleet, err = newFleet(h.job.Size, h.job.Each, h.guard); err != nil {
		h.proxy.Close()
		return err
	}
	go h.accept()
	ready := hosts.Message{What: hosts.Ready, Addr: h.proxy.Addr().String()}
	if err := h.listen(&ready); err != nil {
		return err
	}
	return h.link.Send(ready)
}

// listen accepts the attempts of other hosts to reach this one.
func (h *hostProcess) listen(ready *hosts.Message) (err error) {
	if h.job.Key == "" { // the job makes no attempts
		return nil
	}
	if h.key, err = rank.ParseKey(h.job.Key); err != nil {
		return err
	}
	if ready.Addresses, err = hosts.Addresses(); err != nil {
		return err
	}
	within, err := ports.Parse(h.getenv("WDLRUN_PORTS"))
	if err != nil {
		return err
	}
	if h.tries, err = hosts.Listen(h.job.Host, h.key, within); err == nil {
		ready.Port = h.tries.Port
	}
	return err
}

// reach tries to reach the other hosts.
func (h *hostProcess) reach(targets []hosts.Target) {
	trials, err := hosts.Try(context.Background(), targets, h.key)
	if err != nil {
		h.link.Send(hosts.Message{What: hosts.Failed, Rank: everyone, Text: err.Error(), Code: 1})
		return
	}
	h.link.Send(hosts.Message{What: hosts.Reached, Trials: trials})
}

// checkSelf compares this binary with the launcher's.
func (h *hostProcess) checkSelf() error {
	if h.job.Ship != string(hosts.Never) {
		hosts.Prune(filepath.Dir(h.self))
		return hosts.Verify(h.self)
	}
	hash, err := hosts.OwnHash(h.self)
	if err != nil {
		return err
	}
	if hash != h.job.Own {
		return fmt.Errorf("%s there is another build of wdlrun than the launcher: copy the launcher's there, or leave -ship never out", h.self)
	}
	return nil
}

// receiveProgram finds the user's program on this host, or requests it.
func (h *hostProcess) receiveProgram() error {
	name := h.job.Command[0]
	switch {
	case name == "":
		h.program = h.self
		return nil
	case !strings.ContainsRune(name, '/'):
		return h.lookPath(name)
	}
	at, found, err := hosts.Find(h.getenv("HOME"), h.job.Dir, name, h.job.Hash, hosts.Ship(h.job.Ship))
	if err != nil {
		return err
	}
	h.program = at
	if found {
		return nil
	}
	if err := h.link.Send(hosts.Message{What: hosts.Want}); err != nil {
		return err
	}
	head, stream, err := h.link.Accept()
	if err != nil {
		return err
	}
	defer stream.Close()
	if head.What != hosts.Binary {
		return fmt.Errorf("launcher: host: a stream of %q came for the program", head.What)
	}
	if err := hosts.Unpack(stream, at, h.job.Hash); err != nil {
		return fmt.Errorf("%w; make ~/.cache/wdlrun writable there, or copy the program to %s there and give -ship never", err, name)
	}
	return nil
}

// lookPath searches the PATH of the ranks for a program.
func (h *hostProcess) lookPath(name string) error {
	for _, dir := range filepath.SplitList(h.getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		at := filepath.Join(dir, name)
		if info, err := os.Stat(at); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			h.program = at
			return nil
		}
	}
	return &missing{fmt.Sprintf("there is no executable %q in its PATH; install it there, or give the path of a program, such as ./%s, to have it sent", name, name)}
}

// missing is the error for a program that was not found.
type missing struct{ text string }

func (m *missing) Error() string { return m.text }

func (m *missing) Is(err error) bool { return err == os.ErrNotExist }

// getenv returns a variable of the ranks' environment.
func (h *hostProcess) getenv(name string) string {
	for _, v := range slices.Backward(h.env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// serve executes the launcher's orders until quit or the end of the stream.
func (h *hostProcess) serve() error {
	orders := make(chan hosts.Message)
	go func() {
		defer close(orders)
		for {
			m, err := h.link.Receive()
			if err != nil {
				return
			}
			orders <- m
		}
	}()
	signals := make(chan os.Signal, 1)
	if ending := NotIgnored(endingSignals[:]...); len(ending) > 0 {
		signal.Notify(signals, ending...)
	}
	for {
		select {
		case <-signals: // sent by a cluster, perhaps repeatedly: the ranks save their work
			signal.Ignore(endingSignals[:]...)
			signals = nil
			h.link.Send(hosts.Message{What: hosts.Leaving})
			h.fleet.signal(termSign, everyone)
		case m, ok := <-orders:
			if !ok {
				return errors.New("launcher: host: the launcher is gone")
			}
			if m.What == hosts.Quit {
				h.close()
				return nil
			}
			h.execute(m)
		case <-h.link.Gone():
			return errors.New("launcher: host: the launcher is gone")
		case e := <-h.fleet.exits:
			h.link.Send(hosts.Message{What: hosts.Exit, Rank: e.rank, Code: e.code, Signal: e.signal, Text: e.why})
		}
	}
}

// execute executes one order.
func (h *hostProcess) execute(m hosts.Message) {
	switch m.What {
	case hosts.Reach:
		go h.reach(m.Targets)
	case hosts.Start:
		if h.tries != nil {
			h.tries.Close() // the network has been chosen
		}
		pid, err := h.start(m)
		if err != nil {
			h.link.Send(hosts.Message{What: hosts.Failed, Rank: m.Rank, Text: err.Error(), Code: startCode(err)})
			return
		}
		h.link.Send(hosts.Message{What: hosts.Started, Rank: m.Rank, Pid: pid})
	case hosts.Signal:
		if s := sign(m.Sign); s == pauseSign || s == wakeSign {
			h.link.Pause(s == pauseSign) // the launcher stops as well
		}
		h.fleet.signal(sign(m.Sign), m.Rank)
	}
}

// start starts a rank. Each of its outputs has its own stream.
func (h *hostProcess) start(m hosts.Message) (pid int, err error) {
	cmd := exec.Command(h.program, m.Command...)
	if name := h.job.Command[0]; name != "" {
		cmd.Args[0] = name
	}
	cmd.Dir = h.job.Dir
	cmd.Env = append(slices.Clone(h.env), m.Env...)
	var out [2]sink
	for i := range out {
		s, err := h.link.Open(hosts.Header{What: hosts.Output, Rank: m.Rank, FD: i + 1})
		if err != nil {
			return 0, err
		}
		out[i] = &remoteSink{s}
	}
	var in, from *os.File
	if m.Input {
		if in, from, err = os.Pipe(); err != nil {
			return 0, err
		}
		defer in.Close()
		cmd.Stdin = in
	}
	pid, err = h.fleet.launch(m.Rank, cmd, out)
	if from != nil && err != nil {
		from.Close()
	} else if from != nil {
		go h.feed(from)
	}
	return pid, err
}

// feed forwards the launcher's input to the one rank that reads it.
func (h *hostProcess) feed(to *os.File) {
	defer to.Close()
	head, s, err := h.link.Accept()
	if err != nil {
		return
	}
	defer s.Close()
	if head.What == hosts.Input {
		io.Copy(to, s)
	}
}

// remoteSink is an output that the launcher splits into lines.
type remoteSink struct{ net.Conn }

// Write never fails: if the launcher is gone, serve ends the host process.
func (s *remoteSink) Write(b []byte) (int, error) {
	s.Conn.Write(b)
	return len(b), nil
}

func (s *remoteSink) flush() { s.Conn.Close() }

// accept forwards connections of ranks to the coordinator.
func (h *hostProcess) accept() {
	for {
		conn, err := h.proxy.Accept()
		if err != nil {
			return
		}
		h.live.Go(func() {
			s, err := h.link.Open(hosts.Header{What: hosts.Coordinator})
			if err != nil {
				conn.Close()
				return
			}
			join(s, conn)
		})
	}
}

// join copies between two connections until both have ended.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		io.Copy(to, from)
		if c, ok := to.(interface{ CloseWrite() error }); ok {
			c.CloseWrite()
		} else {
			to.Close() // a stream closes only this direction
		}
	}
	both.Go(func() { pass(a, b) })
	both.Go(func() { pass(b, a) })
	both.Wait()
	a.Close()
	b.Close()
}

// close ends the host process normally. It reads outputs a little longer if other processes
// hold them. The guard then kills what the ranks have left, also outside their groups,
// because users would not find them on another host.
func (h *hostProcess) close() {
	h.proxy.Close()
	h.fleet.close()
}
