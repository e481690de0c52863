package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/internal/hosts"
	"github.com/wdlrun/wdlrun/internal/hosts/agent"
	"github.com/wdlrun/wdlrun/internal/machine/usersock"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/launcher"
	"github.com/wdlrun/wdlrun/rank"
)

// hostsProgram is the command hosts and those below it.
type hostsProgram struct{ *program }

func hostsCommand(p *program) *cli.Command {
	h := hostsProgram{p}
	subs := []*cli.Command{
		{
			Name: "add", Usage: "add hosts to a running training", UsageText: "wdlrun hosts add [flags] RUN HOST[:RANKS]…",
			Description: `Adds RANKS ranks on HOST. The default is 1 for a host that is new to the job; for a host of the
job, RANKS is required. wdlrun first logs in to the host. If that fails, the training continues
undisturbed.

Examples:
   wdlrun hosts add runs/20261121-101500 c:8 d:8
   wdlrun hosts add runs/20261121-101500 localhost:2`,
			Flags: []cli.Flag{jsonFlag()}, Action: h.change,
		},
		{
			Name: "drop", Usage: "remove hosts from a running training", UsageText: "wdlrun hosts drop [flags] RUN HOST[:RANKS]…",
			Description: `Removes RANKS ranks from HOST, by default all. At least one rank must remain.

Examples:
   wdlrun hosts drop runs/20261121-101500 b
   wdlrun hosts drop runs/20261121-101500 localhost:1`,
			Flags: []cli.Flag{jsonFlag()}, Action: h.change,
		},
	}
	return &cli.Command{
		Name: "hosts", Usage: "add hosts to a running training, or remove them", UsageText: "wdlrun hosts add|drop [flags] RUN HOST[:RANKS]…",
		Description: `RUN is the run directory of a training that wdlrun has started on this machine, as your
user. The ranks write a checkpoint at the end of their step and end, and the training
continues from it on the new set of hosts. The command ends when a step is complete there. If
the training cannot continue there, it returns to its previous hosts. Such a change does not
count towards -restarts.

Examples:
   wdlrun hosts add runs/20261121-101500 c:8
   wdlrun hosts drop runs/20261121-101500 b`,
		Subcommands: subs,
		Action: func(c *cli.Context) error {
			return errors.New("hosts: give add or drop, a run directory and hosts; see: wdlrun hosts --help")
		},
	}
}

// hostsRequest is a change of hosts on its way to the launcher.
type hostsRequest struct {
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

// change sends a change to the launcher of a run, and prints the answer.
func (p hostsProgram) change(c *cli.Context) error {
	what := "hosts " + c.Command.Name
	if c.NArg() < 2 {
		return fmt.Errorf("%s: give a run directory and hosts, such as: wdlrun %s RUN c:8", what, what)
	}
	dir, r := runAt(c.Args().First(), runsFolder), hostsRequest{What: c.Command.Name, Hosts: c.Args().Tail()}
	run, err := runs.Read(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	folder, _ := agent.Folder(p.getenv)
	conn, err := usersock.Dial(folder, steeringSocket(dir))
	switch {
	case errors.Is(err, usersock.ErrOtherUser):
		return fmt.Errorf("%s: %s: %w", what, dir, err)
	case err != nil && run.State == runs.Running:
		return fmt.Errorf("%s: no launcher on this machine serves %s: give this command on the machine where wdlrun was started, as the same user; mpirun, srun, torchrun and Kubernetes do not change a running job", what, dir)
	case err != nil:
		return fmt.Errorf("%s: %s has ended (%s); to continue it on other hosts: wdlrun -H HOSTS train -resume %s", what, dir, run.State, quotedPath(dir))
	}
	defer conn.Close()
	defer context.AfterFunc(c.Context, func() { conn.Close() })()
	a, err := askHosts(conn, r)
	switch {
	case c.Context.Err() != nil:
		return errors.New(what + ": interrupted; the launcher carries the change out")
	case err != nil:
		return fmt.Errorf("%s: the launcher has ended: %w", what, err)
	case a.Error != "":
		return fmt.Errorf("%s: %s", what, a.Error)
	case asJSON(c):
		return p.printJSON(a)
	}
	_, err = fmt.Fprintf(p.stdout, "the training continues with %s on %s\n", plural.Of(a.Size, "rank"), a.Hosts)
	return err
}

// askHosts sends a request and waits for the answer.
func askHosts(conn net.Conn, r hostsRequest) (a hostsAnswer, err error) {
	conn.SetWriteDeadline(time.Now().Add(hostsTime))
	if err := hosts.WriteJSON(conn, r, maxHostsMessage); err != nil {
		return a, err
	}
	err = hosts.ReadJSON(conn, &a, maxHostsMessage)
	return a, err
}

// steeringSocket is the name of the socket at which the launcher of a run directory takes changes.
func steeringSocket(dir string) string {
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
	changes chan launcher.Change
	ended   context.Context // done when the job is
	end     context.CancelFunc

	mu     sync.Mutex
	ln     *net.UnixListener
	tried  bool
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
	if r != 0 || status.RunDir == "" || s.tried {
		return
	}
	s.tried = true
	ln, err := usersock.Listen(s.folder, steeringSocket(status.RunDir))
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
func (*steering) Report(int, string, []byte) {}

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
	var r hostsRequest
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
func (s *steering) change(r hostsRequest) (a hostsAnswer) {
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
	s.tried = true
	if s.ln != nil {
		s.ln.Close()
	}
	s.mu.Unlock()
	s.serves.Wait()
}
