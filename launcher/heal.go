package launcher

import (
	"fmt"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/internal/control/restart"
	"github.com/wdlrun/wdlrun/rank"
)

// heal decides, after a verdict, whether the surviving ranks continue from memory. If so, it
// kills the process of the failed rank and returns the pause before the next generation.
func (r *run) heal(v *rank.Verdict) (pause time.Duration, ok bool) {
	if r.of == nil || !r.job.Heals || r.job.Restarts == 0 || r.ending {
		return 0, false
	}
	if r.of.forgotten = r.forgotten(v); r.of.forgotten != "" {
		return 0, false
	}
	r.of.judge(r.outcome(), true)
	next := r.of.judged
	if next.Plan != restart.Rejoin {
		return 0, false // either all ranks are started again, or none
	}
	r.of.judged = nil
	if !r.relay.isFormed() { // its new ranks have no state in memory, so they are started again
		r.lost = slices.Clone(r.fresh)
	}
	if v.Kind != rank.Blamed && v.Kind != rank.Cut {
		r.lost = append(r.lost, v.Rank)
	} else {
		next.Text = fmt.Sprintf("a link was lost but no process: all ranks join again in %v", next.After.Round(time.Millisecond))
	}
	r.killed = time.Now().Add(next.After)
	for _, lost := range r.lost {
		r.crew.signal(killSign, lost)
	}
	r.crew.signal(wakeSign, everyone) // a stopped rank would be missing in the next generation
	pause = next.After - r.awaitStacks(v, next.After)
	if r.job.Again != nil {
		r.job.Command = r.job.Again(Failure{r.outcome(), r.job.Generation, *next, lineWriter{r.console}})
	}
	return pause, true
}

// stacksTime bounds the wait for the stacks of the surviving ranks.
const stacksTime = 150 * time.Millisecond

// awaitStacks waits, as a part of the pause, until all surviving ranks have reported their
// stacks, and returns how long that took.
func (r *run) awaitStacks(v *rank.Verdict, pause time.Duration) time.Duration {
	begin := time.Now()
	silent := func(p Placed) bool {
		_, ended := r.exits[p.Rank]
		return !ended && v.Survived(p.Rank) && !r.relay.hasStacks(p.Rank)
	}
	for time.Since(begin) < min(pause, stacksTime) {
		if !slices.ContainsFunc(r.job.Plan.Ranks, silent) {
			break
		}
		time.Sleep(regroupPause)
	}
	return time.Since(begin)
}

// forgotten returns the reason why the surviving ranks cannot continue from memory, or "".
// A group that did not form prevents it only if it is the first.
func (r *run) forgotten(v *rank.Verdict) string {
	formed := r.relay.isFormed()
	left := 0
	for _, p := range r.job.Plan.Ranks {
		if e, ended := r.exits[p.Rank]; ended && e.status() == 0 {
			return fmt.Sprintf("rank %d has done its work and holds nothing any more", p.Rank)
		} else if !ended && v.Survived(p.Rank) && (formed || !slices.Contains(r.fresh, p.Rank)) {
			left++
		}
	}
	switch {
	case v.Together != "":
		return fmt.Sprintf("host %s is gone", v.Host)
	case !formed && r.heals == 0:
		return "nothing was in memory yet"
	case v.Kind == rank.Failed:
		return "the other ranks cannot continue from memory after an error of the program"
	case v.Kind == rank.Absent:
		return "not all have met again"
	case left == 0:
		return "no rank is left that holds anything in memory"
	}
	return ""
}

// regroupPause is the interval of checks for the end of killed processes and for stacks.
const regroupPause = 5 * time.Millisecond

// regroup starts the next generation: a coordinator at the same address, which the surviving
// ranks join by themselves, and new processes for the lost ranks. While a killed process has
// not ended, it returns a channel that signals the next attempt.
func (r *run) regroup() (later <-chan time.Time, err error) {
	for _, lost := range r.lost {
		if _, ended := r.exits[lost]; !ended {
			if time.Since(r.killed) > reapTime {
				return nil, fmt.Errorf("launcher: heal: rank %d did not end although killed: stuck in the kernel, on a file system that does not answer?", lost)
			}
			return time.After(regroupPause), nil
		}
	}
	r.lost, r.fresh = nil, nil
	r.server.Close()
	r.job.Generation++
	r.of.job.Generation = r.job.Generation
	r.heals++
	r.judged = false
	r.relay.reset()
	if r.server, err = r.serve(); err != nil {
		return nil, fmt.Errorf("launcher: heal: %w", err)
	}
	for _, p := range r.job.Plan.Ranks {
		if _, ended := r.exits[p.Rank]; !ended {
			r.server.Started(p.Rank, r.hostOf(p), r.pids[p.Rank])
			continue
		}
		delete(r.exits, p.Rank)
		r.fresh = append(r.fresh, p.Rank)
		if err := r.startRank(p); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
