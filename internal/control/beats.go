package control

import (
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/internal/control/controlpb"
	"github.com/wdlrun/wdlrun/rank"
)

// beats is what the heartbeats of a rank report. Its methods may be called from any goroutine.
type beats struct {
	watch   atomic.Pointer[func() rank.Status]
	links   atomic.Pointer[func(begun bool) rank.Traffic]
	asked   atomic.Int64                     // time of the last request for the calls that have begun, ns since origin
	last    atomic.Pointer[controlpb.Status] // status returned last; not modified any more
	watched chan struct{}                    // a heartbeat is due now
}

// Watch sets a function that returns the rank's status; it is called at each heartbeat. f
// runs in another goroutine and must not block: otherwise the rank becomes silent.
func (b *beats) Watch(f func() rank.Status) {
	b.watch.Store(&f)
	b.Beat()
}

// WatchLinks sets a function that returns the messages of this rank without progress and, if
// no call has begun for a while, its last calls. If begun is set, it also returns the
// messages that have begun. f is called at each heartbeat and must not block.
func (b *beats) WatchLinks(f func(begun bool) rank.Traffic) { b.links.Store(&f) }

// Beat sends a heartbeat now, for a status that must not be lost with this process.
func (b *beats) Beat() {
	select {
	case b.watched <- struct{}{}:
	default: // one is about to be sent
	}
}

// status returns the status of the rank.
func (b *beats) status() *controlpb.Status {
	if f := b.watch.Load(); f != nil {
		now := statusToWire((*f)())
		b.last.Store(now)
		return now
	}
	return &controlpb.Status{}
}

// traffic returns the report about links at a time since the origin; nil if there is nothing to
// report.
func (b *beats) traffic(now time.Duration) *controlpb.FromRank {
	f := b.links.Load()
	if f == nil {
		return nil
	}
	at := b.asked.Load()
	asked := at != 0 && now-time.Duration(at) < beganFor
	t := (*f)(asked)
	if len(t.Waits) == 0 && len(t.Calls) == 0 && !asked {
		return nil
	}
	return &controlpb.FromRank{What: &controlpb.FromRank_Traffic{Traffic: trafficToWire(t)}}
}
