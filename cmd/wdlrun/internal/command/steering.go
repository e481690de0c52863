package command

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/internal/hosts"
	"github.com/wdlrun/wdlrun/internal/machine/usersock"
	"github.com/wdlrun/wdlrun/launcher"
	"github.com/wdlrun/wdlrun/rank"
)

// HostsRequest is a change of hosts on its way to the launcher.
type HostsRequest struct {
	What  string // add or drop
	Hosts []string
}

// hostsAnswer is the launcher's answer.
type hostsAnswer struct {
	Hosts string `json:"hosts,omitempty"` // of the ranks that continue, as in -H
	Size  int    `json:"world_size,omitempty"`
	Error string `json:"error,omitempty"`
}

const (
	// maxHostsMessage bounds a hostsRequest and a hostsAnswer.
	maxHostsMessage = 1 << 20

	// hostsTime is the time limit for a request or an answer on its way.
	hostsTime = 10 * time.Second
)

// SteeringSocket is the name of the socket at which the launcher of a run directory takes changes.
func SteeringSocket(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return fmt.Sprintf("job-%x", sha256.Sum256([]byte(dir)))[:20]
}

// steering takes changes of hosts for a running training. It implements control.Host, to
// learn the run directory.
type steering struct {
	folder  string // of sockets
	warn    func(string)
	part    func(body []byte) // called with each report AboutPart of rank 0; nil: none
	changes chan launcher.Change
	ended   context.Context // done when the job is
	end     context.CancelFunc

	mu     sync.Mutex
	ln     *net.UnixListener
	runDir string // of the socket
	closed bool
	serves sync.WaitGroup
}

func newSteering(folder string, warn func(string)) *steering {
	s := &steering{folder: folder, warn: warn, changes: make(chan launcher.Change)}
	s.ended, s.end = context.WithCancel(context.Background())
	return s
}

// Status implements control.Host.
func (s *steering) Status(r int, status rank.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r != 0 || status.RunDir == "" || status.RunDir == s.runDir || s.closed {
		return
	}
	if s.runDir = status.RunDir; s.ln != nil { // the ranks have begun the next partition of train -by
		s.ln.Close()
		s.ln = nil
	}
	ln, err := usersock.Listen(s.folder, SteeringSocket(status.RunDir))
	if err != nil {
		go s.warn(fmt.Sprintf("wdlrun hosts cannot reach this job: %v", err))
		return
	}
	s.ln = ln
	s.serves.Go(func() { s.accept(ln) })
}

// Formed implements control.Host.
func (*steering) Formed([]rank.Member) {}

// Report implements control.Host.
func (s *steering) Report(from int, about string, body []byte) {
	if from == 0 && about == AboutPart && s.part != nil {
		s.part(body)
	}
}

// Ended implements control.Host.
func (*steering) Ended(*rank.Verdict) {}

// maxChanges is the maximum number of connections that are served at once.
const maxChanges = 16

func (s *steering) accept(ln *net.UnixListener) {
	slots := make(chan struct{}, maxChanges)
	for {
		conn, err := usersock.Accept(ln)
		if err != nil {
			return
		}
		slots <- struct{}{}
		s.serves.Go(func() {
			defer func() { <-slots }()
			defer conn.Close()
			s.serve(conn)
		})
	}
}

// serve carries out the change of one connection.
func (s *steering) serve(conn net.Conn) {
	var r HostsRequest
	conn.SetReadDeadline(time.Now().Add(hostsTime))
	defer context.AfterFunc(s.ended, func() { conn.SetReadDeadline(time.Unix(1, 0)) })()
	if err := hosts.ReadJSON(conn, &r, maxHostsMessage); err != nil {
		return
	}
	a := s.change(r)
	conn.SetWriteDeadline(time.Now().Add(hostsTime))
	hosts.WriteJSON(conn, a, maxHostsMessage)
}

// change waits for its turn and for the result.
func (s *steering) change(r HostsRequest) (a hostsAnswer) {
	done := make(chan hostsAnswer, 1)
	x := launcher.Change{Done: func(p launcher.Plan, err error) {
		if err != nil {
			done <- hostsAnswer{Error: err.Error()}
			return
		}
		done <- hostsAnswer{Hosts: p.Hosts(), Size: len(p.Ranks)}
	}}
	switch r.What {
	case "add":
		x.Add = r.Hosts
	case "drop":
		x.Drop = r.Hosts
	default:
		return hostsAnswer{Error: fmt.Sprintf("this launcher does not know %q: use the wdlrun that has started the job", r.What)}
	}
	ended := hostsAnswer{Error: "the job has ended"}
	select {
	case s.changes <- x:
	case <-s.ended.Done():
		return ended
	}
	select {
	case a = <-done:
		return a
	case <-s.ended.Done():
		return ended
	}
}

// close answers all connections and ends the socket.
func (s *steering) close() {
	s.end()
	s.mu.Lock()
	s.closed = true
	if s.ln != nil {
		s.ln.Close()
	}
	s.mu.Unlock()
	s.serves.Wait()
}

// AskHosts sends a request and waits for the answer.
func AskHosts(conn net.Conn, r HostsRequest) (a hostsAnswer, err error) {
	conn.SetWriteDeadline(time.Now().Add(hostsTime))
	if err := hosts.WriteJSON(conn, r, maxHostsMessage); err != nil {
		return a, err
	}
	err = hosts.ReadJSON(conn, &a, maxHostsMessage)
	return a, err
}
