// Package hosts starts the host process of wdlrun on other machines and carries the
// messages between both. Package launcher decides which messages are sent.
//
// # Start
//
// A Starter starts the host process and returns its stream:
//
//	Local           on this machine
//	SSH             on another machine, through the system's ssh client, or through srun
//	                within an allocation of Slurm
//	package agent   through the agent of another machine, whose stream has frames (attach.go)
//
// SSH runs one line of shell there (script.go). The line prints a mark first, because a shell
// may print before it. If ~/.cache/wdlrun/bin does not have the binary under its SHA-256, the
// script requests it and receives it compressed (image.go). No secret is on a command line.
//
// # Messages
//
// A Link divides the stream by yamux. The first stream carries messages in both directions
// (wire.go). A message is a JSON object after its length:
//
//	launcher                     host process
//	job          ──►                            environment, directory, program
//	             ◄──             want           the program is missing
//	             ◄──             ready          or failed
//	reach        ──►                            connect to the other hosts
//	             ◄──             reached
//	start        ──►                            a rank
//	             ◄──             started        or failed
//	             ◄──             exit           the rank's process has ended
//	signal       ──►                            to one rank or to all
//	quit         ──►                            end
//
// Every other stream begins with a Header. It carries an output of a rank, the input of a
// rank, a program, or a connection of a rank to the job's coordinator, which the host process
// forwards. Hosts therefore need no route to the launcher.
//
// When the stream ends or the other side is silent, the launcher counts the host as lost
// (4 s), and the host process kills the ranks (8 s).
//
// # Limits
//
// A message has at most 4 MiB, a header 4 KiB, output before the mark 1 MiB, a program
// 1 GiB, a frame of an agent 64 KiB. At most 64 logins are in progress at once.
//
// Failures of hosts, programs and connections are errors. Nothing panics. A Link may be used
// by several goroutines, but Receive only by one.
package hosts

import (
	"context"
	"io"
	"os/exec"
	"time"
)

const (
	// pingEvery is the time between two pings.
	pingEvery = 500 * time.Millisecond

	// silentTime is the time after which a host that answers no ping counts as lost. A busy
	// host delays answers. A lost host must be reported within 5 s.
	silentTime = 4 * time.Second

	// orphanTime is the same for a launcher, as seen by a host process. It is longer, because
	// a host process that gives up ends the job: on a busy machine the launcher decides first.
	// The processes of a host that is cut off must end within 10 s.
	orphanTime = 8 * time.Second
)

// Starter starts the host process on a host.
type Starter interface {
	Start(ctx context.Context, host string) (*Process, error)
}

// Local starts the host process on this machine.
type Local struct {
	Command []string // the host process
	Run     Run
	Stderr  io.Writer // for whole lines
}

// Start implements Starter.
func (l Local) Start(_ context.Context, host string) (*Process, error) {
	p, err := start(exec.Command(l.Command[0], l.Command[1:]...), host, l.Run, l.Stderr)
	if err != nil {
		return nil, err
	}
	return p.Process, nil
}
