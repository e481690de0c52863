// Package control is the control plane of a job: one coordinator and the
// sessions of the ranks that attend it over gRPC.
//
// # Who hosts the coordinator
//
// The launcher, for ranks that it started; otherwise rank 0, in its own process.
// Enter does what fits: a program calls it once and works the same under
// `wdlrun`, mpirun, srun and torchrun, and alone.
//
//	w, _, err := rank.FromEnv(os.Getenv)
//	s, err := control.Enter(ctx, w, myBulkAddress, control.Options{})
//	…
//	defer s.Close()
//
// # What passes
//
// One bidirectional stream a rank, named Attend:
//
//	rank                         coordinator
//	Hello(member)        ──►                       within 10 s of the connection
//	                     ◄──     Welcome(timeout)  or a refusal
//	Status               ──►                       heartbeats, from now on
//	Traffic              ──►                       messages that stand still, and what has begun
//	                     ◄──     Roster            when all ranks are here
//	                     ◄──     Order             checkpoint, stop, stacks, begun, alive
//	Report               ──►                       stacks
//	Failure              ──►                       an error, own or of a link
//	Done(result)         ──►
//	                     ◄──     Noted             the rank may go
//	                     ◄──     Verdict | Finished
//	Report               ──►                       last words: stacks, traces
//
// A heartbeat comes every tenth of the timeout and at least every second; rank
// 0's, which the display shows, and those of up to 32 ranks every 200 ms. What they mean is decided by rank.Group.
// Before a verdict every rank is ordered to report its stacks. Reports are heard
// until the rank leaves, at most 5 s after the group's end.
// A rank whose stream breaks ends its work: a group without coordinator could
// not agree on anything. A coordinator in rank 0 sends an order each second; a rank that
// has heard nothing for 7 s, in which it ran itself, ends its work too. (A launcher
// that is stopped stops its ranks.)
//
// # Trust and limits
//
// Every connection proves the job's key by mutual TLS 1.3 (rank.Key.TLS) before
// a byte of it is read as a message. Of connections that have not, only the newest
// are kept. Messages are at most 8 MiB, results 4 MiB,
// stacks 512 KiB, causes 4 KiB, other texts 1 KiB; longer texts are cut by the
// sender and again by the receiver, longer results are rejected.
//
// Costs: a goroutine or two a rank at either side; a heartbeat is about 100
// bytes. All methods may be called from any goroutine.
package control

import (
	"time"

	"github.com/wdlrun/wdlrun/rank"
)

// Order is what the coordinator may tell ranks to do.
type Order string

// The orders.
const (
	Checkpoint Order = "checkpoint" // write a checkpoint at the next step boundary
	Timeline   Order = "timeline"   // write the timeline so far
	Stop       Order = "stop"       // write one and end, as if the work were done
	Stacks     Order = "stacks"     // report the stacks of all goroutines; Session does it
	begunOrder Order = "begun"      // say which messages have begun, with the next heartbeats; Session does it
	aliveOrder Order = "alive"      // nothing; it shows a coordinator in rank 0 to be there
)

// protocol is the version of the messages and their order. Both sides must have
// the same.
const protocol = 1

// Limits on what is read from the wire.
const (
	maxMessage = 8 << 20
	maxResult  = 4 << 20
	maxStacks  = 512 << 10
	maxCause   = 4 << 10
	maxText    = 1 << 10
	maxName    = 100 // of a collective call
)

// streamWindow is how many bytes may be on their way on a stream. A fixed window keeps gRPC
// from estimating one, for which it would send a ping with most heartbeats.
const streamWindow = 1 << 20

const (
	// handshakeTimeout bounds how long a connection may take to prove the
	// key and to say Hello.
	handshakeTimeout = 10 * time.Second

	// strangersMax is how many connections that have not proved the key are kept
	// in addition to those of ranks that are about to.
	strangersMax = 64

	// settleTimeout bounds the wait for a verdict after a failure was
	// reported: many times rank.GroupConfig's Settle and Ends.
	settleTimeout = 10 * time.Second

	// farewell bounds the wait for peers to take leave at the end.
	farewell = 2 * time.Second

	// lastWordsTime bounds how long ranks are heard after the group's end: one
	// that was stopped is woken within this time, to be ended.
	lastWordsTime = 5 * time.Second

	// hostTimeout bounds how long the coordinator's host may leave heartbeats
	// unanswered before a rank takes it for gone: the coordinator, if it is there, has
	// by then taken the rank for lost and said so.
	hostTimeout = rank.SilentAfter + 2*time.Second

	// aliveEvery is how often a coordinator shows that it is there.
	aliveEvery = time.Second

	// beganFor is how long a rank that was asked says what it has begun.
	beganFor = 2 * time.Second

	// keepaliveTime is how often a connection between hosts is tried when
	// nothing passes, so that a coordinator's host that vanished is noticed.
	keepaliveTime = 20 * time.Second

	// defaultTimeout bounds how long the coordinator may be out of reach
	// before the group has formed.
	defaultTimeout = 60 * time.Second

	// quickInterval is the heartbeat of rank 0, which people watch, and of all
	// ranks of a small world, so that a verdict tells of a fresh step.
	quickInterval = 200 * time.Millisecond
	smallWorld    = 32
)

// interval is the time between heartbeats of a rank.
func interval(timeout time.Duration, w rank.World) time.Duration {
	d := min(timeout/10, time.Second)
	if w.Rank == 0 || w.Size <= smallWorld {
		d = min(d, quickInterval)
	}
	return max(d, 10*time.Millisecond)
}

// Host observes the group. Its methods are called one at a time,
// in order, and must not block: heartbeats wait for them.
type Host interface {
	Formed(members []rank.Member)
	Status(r int, s rank.Status)
	// Report is what a rank sent: the result given to Session.Done, with
	// about "result", the answer to an order, with the order's name, or what it
	// gave to Session.Report. Reports alone may come after Ended too.
	Report(r int, about string, body []byte)
	// Ended is the verdict, or nil when all work is done.
	Ended(v *rank.Verdict)
}

// noHost is the host of a server that was given none.
type noHost struct{}

func (noHost) Formed([]rank.Member)       {}
func (noHost) Status(int, rank.Status)    {}
func (noHost) Report(int, string, []byte) {}
func (noHost) Ended(*rank.Verdict)        {}
