package member

import (
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/tcp"
	"github.com/wdlrun/wdlrun/rank"
)

// still is how long a channel begins no call before heartbeats report its last calls.
const still = time.Second

// traffic collects the part of heartbeats about links to other hosts and about calls. Only
// the goroutine of the heartbeats uses it.
type traffic struct {
	comm     *collective.Comm
	links    *tcp.Transport // nil: only shared memory is used
	channels []standstill

	mu   sync.Mutex
	more []func(now time.Time, limit int) []rank.Call
}

// standstill is the last call begun on a channel.
type standstill struct {
	last     collective.Tag
	since    time.Time
	reported bool
}

func newTraffic(c *collective.Comm, links collective.Transport) *traffic {
	_, _, channels := links.World()
	t := &traffic{comm: c, channels: make([]standstill, channels)}
	t.links, _ = links.(*tcp.Transport)
	return t
}

func (t *traffic) report(begun bool) (all rank.Traffic) {
	now := time.Now()
	all.Calls = t.calls(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.more {
		all.Calls = append(all.Calls, f(now, rank.MaxCalls-len(all.Calls))...)
	}
	if t.links == nil {
		return all
	}
	for _, x := range t.links.Stalled() {
		all.Waits = append(all.Waits, rank.Wait(x))
	}
	if begun {
		for _, x := range t.links.Begun() {
			all.Begun = append(all.Begun, rank.Begun(x))
		}
	}
	return all
}

// calls returns the last calls of the channels that have stalled.
func (t *traffic) calls(now time.Time) (all []rank.Call) {
	for i := range t.channels {
		made, ok := t.comm.Made(i)
		var last collective.Tag
		for _, m := range made {
			if m.Last {
				last = m.Tag
			}
		}
		s := &t.channels[i]
		switch {
		case !ok, last != s.last:
			*s = standstill{last: last, since: now}
		case len(made) == 0, s.reported, now.Sub(s.since) < still:
		case len(all)+len(made) <= rank.MaxCalls:
			s.reported = true
			for _, m := range made {
				all = append(all, asCall(m))
			}
		}
	}
	return all
}

// asCall converts a asCall to the form that the coordinator compares.
func asCall(m collective.Made) rank.Call {
	return rank.Call{Channel: int(m.Tag.Channel), Part: m.Tag.Group, Seq: m.Tag.Seq, Hash: m.Hash(), Name: m.Tag.Describe(), Last: m.Last}
}

// watch adds the calls of f to each report.
func (t *traffic) watch(f func(now time.Time, limit int) []rank.Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.more = append(t.more, f)
}
