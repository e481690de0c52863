package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/wdlrun/wdlrun/internal/hosts"
	"github.com/wdlrun/wdlrun/internal/hosts/agent"
	"github.com/wdlrun/wdlrun/internal/machine/cgroup"
)

const (
	// programTime is the maximum pause in receiving a program.
	programTime = 30 * time.Second

	// endTime is the time limit for the other agent to end a host process whose launcher is
	// gone.
	endTime = 9 * time.Second

	// maxJobs is the maximum number of host processes.
	maxJobs = 64
)

// answer answers a stream of another agent.
func (m *Mesh) answer(s network.Stream) {
	var r agent.Request
	s.SetReadDeadline(time.Now().Add(askTime))
	if err := hosts.ReadJSON(s, &r, agent.MaxMessage); err != nil {
		s.Reset()
		return
	}
	s.SetReadDeadline(time.Time{})
	var a agent.Answer
	switch r.What {
	case agent.Start:
		m.start(s, r, s.Conn().RemotePeer())
		s.Close()
		return
	case agent.Status:
		m.addPeers(r.Peers)
		m.hearOwn(s.Conn().RemotePeer(), r.Twins)
		a = agent.Answer{What: agent.Done, Twins: m.twinsOf(s.Conn().RemotePeer()), Machines: []agent.Machine{m.self()}, Peers: m.peers()}
	default:
		a = agent.Fail("its agent (wdlrun %s) does not know the request %.40q: start the same wdlrun there", m.cfg.Version, r.What)
	}
	s.SetWriteDeadline(time.Now().Add(askTime))
	hosts.WriteJSON(s, a, agent.MaxMessage)
	s.Close()
}

// answerLauncher answers a program of this machine.
func (m *Mesh) answerLauncher(conn *net.UnixConn) {
	defer conn.Close()
	var r agent.Request
	conn.SetReadDeadline(time.Now().Add(askTime))
	if err := hosts.ReadJSON(conn, &r, agent.MaxMessage); err != nil {
		return
	}
	conn.SetReadDeadline(time.Time{})
	switch r.What {
	case agent.List:
		hosts.WriteJSON(conn, agent.Answer{What: agent.Done, Machines: m.list()}, agent.MaxMessage)
	case agent.Start:
		m.pass(conn, r)
	default:
		hosts.WriteJSON(conn, agent.Fail("the agent of this machine (wdlrun %s) does not know the request %.40q: start the same wdlrun", m.cfg.Version, r.What), agent.MaxMessage)
	}
}

// self describes this machine.
func (m *Mesh) self() agent.Machine {
	m.mu.Lock()
	jobs := len(m.jobs)
	m.mu.Unlock()
	free := cgroup.Read().Available
	if free == 1<<63-1 { // unknown
		free = 0
	}
	return agent.Machine{ID: m.id.String(), Host: m.host, Cores: runtime.NumCPU(), Free: free, Version: m.cfg.Version, OS: runtime.GOOS, CPU: runtime.GOARCH, Jobs: jobs}
}

// list describes this machine and those on the roster.
func (m *Mesh) list() []agent.Machine {
	roster := m.gate.current()
	own := m.self()
	own.Here, own.Name = true, m.ownName()
	all := make([]agent.Machine, len(roster), len(roster)+1)
	var asked sync.WaitGroup
	for i, e := range roster {
		asked.Go(func() {
			if e.ID == m.id {
				return
			}
			x := agent.Machine{}
			if twins := m.twinsOf(e.ID); twins != "" {
				x.Fault = twins
			} else if !m.connected(e.ID) {
				x.Fault, x.Host = m.fault(e.ID)
			} else if a, err := m.exchange(context.Background(), e.ID); err != nil {
				x.Fault = err.Error()
			} else {
				x = a
			}
			x.ID, x.Name, x.Here = e.ID.String(), e.Name, false // by the roster
			if x.Name == "" {
				x.Name = x.Host
			}
			all[i] = x
		})
	}
	asked.Wait()
	all = slices.DeleteFunc(all, func(x agent.Machine) bool { return x.ID == "" })
	return append([]agent.Machine{own}, all...)
}

// fault returns why a machine is not connected, and its last known host.
func (m *Mesh) fault(id peer.ID) (fault, host string) {
	m.book.with(id, func(k *known) { fault, host = k.fault, k.host })
	return cmp.Or(fault, "no attempt has succeeded yet"+startThere), host
}

// ownName returns the name of this machine: its name on the roster, otherwise the host's name.
func (m *Mesh) ownName() string {
	if name := m.gate.current().NameOf(m.id); name != "" {
		return name
	}
	return m.host
}

// resolve returns the machine of a name or a peer ID. A machine without a name on the
// roster has the name of its host.
func (m *Mesh) resolve(word string) (peer.ID, error) {
	roster := m.gate.current()
	if e, ok := roster.Find(word); ok {
		return e.ID, nil
	}
	if word == m.id.String() {
		return m.id, nil
	}
	var found []string
	var id peer.ID
	if word == m.ownName() {
		found, id = append(found, m.id.String()), m.id
	}
	for _, e := range roster {
		host := ""
		m.book.with(e.ID, func(k *known) { host = k.host })
		if e.Name == "" && e.ID != m.id && host == word {
			found, id = append(found, e.ID.String()), e.ID
		}
	}
	switch len(found) {
	case 0:
		return "", errors.New("no machine of this name is on the roster; try: wdlrun agent list")
	case 1:
		return id, nil
	}
	return "", fmt.Errorf("several machines have this name; give them other ones, such as: wdlrun agent allow %s -name %s-1", found[0], word)
}

// pass forwards the start of a host process to the agent of its machine.
func (m *Mesh) pass(conn *net.UnixConn, r agent.Request) {
	fail := func(err error) { hosts.WriteJSON(conn, agent.Fail("%s", err), agent.MaxMessage) }
	id, err := m.resolve(r.To)
	switch {
	case err != nil:
		fail(err)
		return
	case m.twinsOf(id) != "":
		fail(errors.New(m.twinsOf(id)))
		return
	case id == m.id:
		m.start(conn, r, m.id)
		return
	case !m.connected(id):
		fault, _ := m.fault(id)
		fail(fmt.Errorf("its agent is not connected: %s", fault))
		return
	}
	ctx, cancel := context.WithTimeout(network.WithNoDial(context.Background(), "connected"), askTime)
	defer cancel()
	s, err := m.swarm.NewStream(ctx, id)
	if err == nil {
		err = hosts.WriteJSON(s, r, agent.MaxMessage)
	}
	if err != nil {
		fail(m.unanswered(err))
		return
	}
	go func() {
		io.Copy(s, conn)
		s.CloseWrite()
		time.AfterFunc(endTime, func() { s.Reset() })
	}()
	n, err := io.Copy(conn, s)
	if n == 0 {
		fail(m.unanswered(cmp.Or(err, io.EOF)))
	}
	if err != nil {
		s.Reset() // launcher or agent is gone
		return
	}
	s.Close()
}

// start starts a host process for the launcher at the other end of s, and carries its
// streams until it ends.
func (m *Mesh) start(s hosts.Stream, r agent.Request, from peer.ID) {
	fail := func(err error) {
		s.SetWriteDeadline(time.Now().Add(askTime))
		hosts.WriteJSON(s, agent.Fail("%s", err), agent.MaxMessage)
	}
	if twins := m.twinsOf(from); twins != "" {
		fail(fmt.Errorf("%s asks for a job: %s", m.nameOf(from), twins))
		return
	}
	path, err := m.program(s, r)
	if err != nil {
		fail(err)
		return
	}
	cmd := exec.Command(path, m.cfg.Command...)
	cmd.Args[0], cmd.Dir = "wdlrun", m.cfg.Home
	err = hosts.Carry(s, cmd, m.run(from), func() error {
		return hosts.WriteJSON(s, agent.Answer{What: agent.Run, OS: runtime.GOOS, CPU: runtime.GOARCH}, agent.MaxMessage)
	})
	m.forget(cmd)
	if err != nil {
		fail(explain(err))
	}
}

// program returns the path of the program to run. If it is missing it is received.
func (m *Mesh) program(s hosts.Stream, r agent.Request) (string, error) {
	if r.Ship == hosts.Never {
		return os.Executable()
	}
	path, err := hosts.OwnBinary(m.cfg.Home, r.Hash)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil && r.Ship != hosts.Always {
		return path, nil
	}
	need := agent.Answer{What: agent.Need, OS: runtime.GOOS, CPU: runtime.GOARCH}
	if err := hosts.WriteJSON(s, need, agent.MaxMessage); err != nil {
		return "", err
	}
	in := patientReader{s}
	var size agent.Size
	if err := hosts.ReadJSON(in, &size, agent.MaxMessage); err != nil {
		return "", err
	}
	if size.Bytes < 1 || size.Bytes > agent.MaxProgram {
		return "", fmt.Errorf("a program of %d bytes, at most %d are allowed", size.Bytes, agent.MaxProgram)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", explain(err)
	}
	packed := io.LimitReader(in, size.Bytes)
	if err := hosts.Unpack(packed, path, r.Hash); err != nil {
		return "", explain(err)
	}
	_, err = io.Copy(io.Discard, packed) // the next byte is for the host process
	return path, errors.Join(err, s.SetReadDeadline(time.Time{}))
}

// patientReader reads from a stream that must not pause for longer than programTime.
type patientReader struct{ s hosts.Stream }

func (p patientReader) Read(b []byte) (int, error) {
	p.s.SetReadDeadline(time.Now().Add(programTime))
	return p.s.Read(b)
}

// explain adds advice to an error of a file.
func explain(err error) error {
	const install = "or install the same wdlrun there and give -ship never"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("its disk is full: %w; make room in ~/.cache/wdlrun there, %s", err, install)
	case errors.Is(err, syscall.EROFS), errors.Is(err, os.ErrPermission):
		return fmt.Errorf("wdlrun cannot be stored or executed there: %w; make ~/.cache/wdlrun/bin writable, on a file system without noexec, %s", err, install)
	}
	return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "agent: "))
}

// run returns a function that starts a host process and counts it.
func (m *Mesh) run(from peer.ID) hosts.Run {
	return func(cmd *exec.Cmd) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case m.stop:
			return errors.New("its agent is ending")
		case len(m.jobs) == maxJobs:
			return fmt.Errorf("its agent runs %d jobs already; wait for one of them to end", maxJobs)
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		m.jobs[cmd] = from
		m.cfg.Log("%s starts a host process, pid %d", m.nameOf(from), cmd.Process.Pid)
		return nil
	}
}

// forget removes a host process from the count.
func (m *Mesh) forget(cmd *exec.Cmd) {
	m.mu.Lock()
	from, ran := m.jobs[cmd]
	delete(m.jobs, cmd)
	last := ran && len(m.jobs) == 0
	if last && m.stop {
		close(m.idle)
	}
	m.mu.Unlock()
	if ran {
		m.cfg.Log("the host process of %s has ended, pid %d: %v", m.nameOf(from), cmd.Process.Pid, cmd.ProcessState)
	}
	if last {
		debug.FreeOSMemory() // an idle agent runs for weeks
	}
}
