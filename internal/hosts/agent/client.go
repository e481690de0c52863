package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/hosts"
	"github.com/wdlrun/wdlrun/internal/machine/usersock"
)

// Prefix is the prefix of the names of hosts with an agent.
const Prefix = "@"

const (
	// answerTime is the time limit of an answer of the local agent, and of a pause in
	// receiving the program.
	answerTime = 30 * time.Second

	// maxStarts is the maximum number of concurrent starts.
	maxStarts = 32
)

// Listen returns the socket on which the agent of a folder serves programs of its user.
func Listen(folder string) (*net.UnixListener, error) {
	name, err := socket(folder)
	if err != nil {
		return nil, err
	}
	ln, err := usersock.Listen(folder, name)
	if errors.Is(err, usersock.ErrInUse) {
		return nil, fmt.Errorf("agent: an agent with the key of %s is running on this machine; try: wdlrun agent list", folder)
	}
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	return ln, nil
}

// socket returns the name of the socket of the agent of a folder.
func socket(folder string) (string, error) {
	id, err := ID(folder)
	return "agent-" + id.String(), err
}

// ErrNotRunning is returned if the agent of a folder does not run.
var ErrNotRunning = errors.New("no agent is running on this machine")

// dial connects to the agent of a folder.
func dial(folder string) (*net.UnixConn, error) {
	name, err := socket(folder)
	if err != nil {
		return nil, err
	}
	conn, err := usersock.Dial(folder, name)
	if errors.Is(err, usersock.ErrOtherUser) {
		return nil, fmt.Errorf("agent: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("agent: %w for the key in %s; try: wdlrun agent", ErrNotRunning, folder)
	}
	return conn, nil
}

// request sends a request and returns the answer. Failed becomes an error.
func request(conn net.Conn, r Request) (a Answer, err error) {
	conn.SetDeadline(time.Now().Add(answerTime))
	defer conn.SetDeadline(time.Time{})
	if err := hosts.WriteJSON(conn, r, MaxMessage); err != nil {
		return a, fmt.Errorf("agent: the agent of this machine has ended: %w; try: wdlrun agent", err)
	}
	return answer(conn)
}

// answer reads an answer.
func answer(conn net.Conn) (a Answer, err error) {
	switch err := hosts.ReadJSON(conn, &a, MaxMessage); {
	case errors.Is(err, io.EOF):
		return a, errors.New("the connection to its agent was lost; try: wdlrun agent list")
	case err != nil:
		return a, fmt.Errorf("its agent did not answer: %w; try: wdlrun agent list", err)
	case a.What == Failed:
		return a, errors.New(a.Text)
	}
	return a, nil
}

// Machines asks the agent of a folder for all machines on its roster.
func Machines(folder string) ([]Machine, error) {
	conn, err := dial(folder)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	a, err := request(conn, Request{What: List})
	return a.Machines, err
}

// Starter starts host processes through the agent of this machine.
type Starter struct {
	folder string
	ship   hosts.Ship
	image  *hosts.Image // of this program
	stderr io.Writer    // for whole lines
	starts chan struct{}
}

// NewStarter returns a hosts.Starter for hosts whose names begin with Prefix.
func NewStarter(folder string, ship hosts.Ship, image *hosts.Image, stderr io.Writer) *Starter {
	return &Starter{folder, ship, image, stderr, make(chan struct{}, maxStarts)}
}

// Start implements hosts.Starter.
func (s *Starter) Start(ctx context.Context, host string) (*hosts.Process, error) {
	select {
	case s.starts <- struct{}{}:
		defer func() { <-s.starts }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	conn, err := dial(s.folder)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := s.boot(conn, strings.TrimPrefix(host, Prefix)); err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return hosts.Attach(host, conn, s.stderr), nil
}

// boot waits until the host process runs, and sends the program if it is requested.
func (s *Starter) boot(conn *net.UnixConn, machine string) error {
	a, err := request(conn, Request{What: Start, To: machine, Hash: s.image.Hash, Ship: s.ship})
	if err != nil {
		return err
	}
	if s.ship != hosts.Never {
		if err := hosts.SamePlatform(a.OS, a.CPU); err != nil {
			return err
		}
	}
	if a.What != Need {
		return nil
	}
	packed, err := s.image.Packed()
	if err != nil {
		return err
	}
	if err := hosts.WriteJSON(conn, Size{int64(len(packed))}, MaxMessage); err != nil {
		return err
	}
	for len(packed) > 0 {
		n := min(len(packed), 64<<10)
		conn.SetDeadline(time.Now().Add(answerTime))
		if _, err := conn.Write(packed[:n]); err != nil {
			if _, why := answer(conn); why != nil { // it may contain the reason
				return why
			}
			return err
		}
		packed = packed[n:]
	}
	conn.SetDeadline(time.Now().Add(answerTime))
	defer conn.SetDeadline(time.Time{})
	_, err = answer(conn)
	return err
}
