// Package control is the control plane of a job: one coordinator, and a session of each rank
// that is connected to it over gRPC.
//
// # Who hosts the coordinator
//
// The launcher, for ranks that it started; otherwise rank 0, in its own process. Enter
// chooses. A program calls it once and works in the same way under `wdlrun`, mpirun, srun and
// torchrun, and as a single process.
//
//	w, _, err := rank.FromEnv(os.Getenv)
//	s, err := control.Enter(ctx, w, myBulkAddress, control.Options{})
//	…
//	defer s.Close()
//
// # What passes
//
// Each rank has one bidirectional stream, named Attend:
//
//	rank                         coordinator
//	Hello(member)        ──►                       within 10 s of the connection
//	                     ◄──     Welcome(timeout)  or a refusal
//	Status               ──►                       heartbeats
//	Traffic              ──►                       messages without progress, and calls that have begun
//	                     ◄──     Roster            when all ranks have joined
//	                     ◄──     Order             checkpoint, stop, stacks, begun, alive
//	Report               ──►                       stacks
//	Failure              ──►                       an error of the rank or of a link
//	Done(result)         ──►
//	                     ◄──     Noted             the rank may leave
//	                     ◄──     Verdict | Finished
//	Report               ──►                       stacks, traces
//
// A rank sends a heartbeat every tenth of the timeout and at least every second. Rank 0,
// whose heartbeats are displayed, and all ranks of jobs with up to 32 ranks send one every
// 200 ms. rank.Group interprets them. Before a verdict every rank is ordered to report its
// stacks. Reports are accepted until the rank leaves, at most 5 s after the end of the group.
// A rank whose stream breaks ends its work, since ranks cannot agree without a coordinator. A
// coordinator in rank 0 sends an order each second. A rank that has received nothing for 7 s,
// while it was running itself, ends its work too. (A launcher that is stopped stops its
// ranks.)
//
// # Trust and limits
//
// Every connection proves the job's key by mutual TLS 1.3 (rank.Key.TLS) before any byte of
// it is read as a message. Only the newest of the connections without this proof are
// kept. Messages are at most 8 MiB, results 4 MiB, stacks 512 KiB, causes 4 KiB, other strings
// 1 KiB. The sender and the receiver cut longer strings. Longer results are rejected.
//
// Costs: one or two goroutines per rank on either side; about 100 bytes per heartbeat. All
// methods may be called from any goroutine.
package control

import (
	"time"

	"github.com/wdlrun/wdlrun/rank"
)

// Order is a command of the coordinator to the ranks.
type Order string

// The orders.
const (
	Checkpoint Order = "checkpoint" // write a checkpoint at the next step boundary
	Timeline   Order = "timeline"   // write the timeline so far
	Stop       Order = "stop"       // write a checkpoint and end as if the work were done
	Stacks     Order = "stacks"     // report the stacks of all goroutines; handled by Session
	begunOrder Order = "begun"      // report which messages have begun, with the next heartbeats; handled by Session
	aliveOrder Order = "alive"      // no action; shows that a coordinator in rank 0 is alive
)

// Leaving is the subject of a rank's report that its host, not the launcher, has asked it to end.
const Leaving = "leaving"

// protocol is the version of the messages and their order. It must be the same on both sides.
const protocol = 2 // 1 had no notes

// Limits on what is read from the wire.
const (
	maxMessage = 8 << 20
	maxResult  = 4 << 20
	maxStacks  = 512 << 10
	maxCause   = 4 << 10
	maxText    = 1 << 10
	maxName    = 100 // bytes of the name of a collective call
)

// streamWindow is the number of bytes that may be in flight on a stream. A fixed window keeps
// gRPC from estimating one, for which it would send a ping with most heartbeats.
const streamWindow = 1 << 20

const (
	// handshakeTimeout bounds the time for a connection to prove the key and to send Hello.
	handshakeTimeout = 10 * time.Second

	// unprovenMax is the number of connections kept that have not proved the key, in addition
	// to the calls of ranks that will.
	unprovenMax = 64

	// settleTimeout bounds the wait for a verdict after a failure was reported: many times
	// Settle and Ends of rank.GroupConfig.
	settleTimeout = 10 * time.Second

	// farewell bounds the wait for peers to leave at the end.
	farewell = 2 * time.Second

	// lastWordsTime bounds how long reports of ranks are accepted after the end of the group. A
	// stopped rank is woken within this time so that it can end.
	lastWordsTime = 5 * time.Second

	// hostTimeout is how long the coordinator's host may leave heartbeats unacknowledged before
	// a rank considers it lost. By then a running coordinator would have declared the rank
	// lost and sent it this verdict.
	hostTimeout = rank.SilentAfter + 2*time.Second

	// aliveEvery is the interval at which a coordinator shows that it is alive.
	aliveEvery = time.Second

	// beganFor is how long a rank, when asked, reports which calls it has begun.
	beganFor = 2 * time.Second

	// keepaliveTime is the interval at which an idle connection between hosts is probed, so that
	// the loss of the coordinator's host is noticed.
	keepaliveTime = 20 * time.Second

	// defaultTimeout bounds how long the coordinator may be unreachable before the group has
	// formed.
	defaultTimeout = 60 * time.Second

	// quickInterval is the heartbeat interval of rank 0, whose status is displayed, and of all
	// ranks of a small world, so that a verdict contains a recent step.
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

// Host observes the group. Its methods are called one at a time, in order, and must not
// block: heartbeats wait for them.
type Host interface {
	Formed(members []rank.Member)
	Status(r int, s rank.Status)
	// Report delivers a report of a rank. about is "result" for the result given to
	// Session.Done, the name of an order for the answer to it, or the argument of
	// Session.Report. Only Report may be called after Ended.
	Report(r int, about string, body []byte)
	// Ended delivers the verdict, or nil when all work is done.
	Ended(v *rank.Verdict)
}

// noHost is the host of a server without one.
type noHost struct{}

func (noHost) Formed([]rank.Member)       {}
func (noHost) Status(int, rank.Status)    {}
func (noHost) Report(int, string, []byte) {}
func (noHost) Ended(*rank.Verdict)        {}
