package rank

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// neverForms reports whether a rank has ended before it joined, so that the group cannot
// form.
func (g *Group) neverForms() bool {
	for i := range g.states {
		if s := &g.states[i]; s.exited && !s.joined {
			return true
		}
	}
	return false
}

func (g *Group) absent(now time.Duration) *Verdict {
	var missing, ended []int
	for i := range g.states {
		switch s := &g.states[i]; {
		case s.joined:
		case s.exited:
			ended = append(ended, i)
		default:
			missing = append(missing, i)
		}
	}
	v := &Verdict{Kind: Absent, Rank: -1, Quiet: now - g.lastJoin}
	if ended != nil {
		v.Cause = fmt.Sprintf("the group cannot form: %s ended with code 0 without joining it, while others wait", list(ended))
	} else {
		who, after := list(missing), "the last that did"
		if len(missing) == 1 {
			who = g.states[missing[0]].who()
		}
		if g.joined == 0 {
			after = "their start"
		}
		v.Cause = fmt.Sprintf("%d of %d ranks did not join within %s of %s: %s", len(missing), len(g.states), g.cfg.Timeout, after, who)
	}
	for _, r := range g.refusals {
		if s := g.state(r.rank); s == nil || !s.joined {
			v.Cause += "; refused: " + r.why.Error()
		}
	}
	return v
}

// deadlocked reports whether every working rank waits for another and none has moved for
// the timeout. A rank that finishes counts as a move.
func (g *Group) deadlocked(now time.Duration) bool {
	if g.states.anyDone() && now-g.doneSince <= g.cfg.Timeout {
		return false
	}
	for i := range g.states {
		s := &g.states[i]
		if s.active() && (!s.status.Waits || now-s.moved <= g.cfg.Timeout) {
			return false
		}
	}
	return g.states.active() > 1
}

func (g *Group) deadlock(now time.Duration) *Verdict {
	type place struct {
		phase string
		step  int64
	}
	var order []place
	at := map[place][]int{}
	var done []int
	quiet := now
	for i := range g.states {
		s := &g.states[i]
		if !s.active() {
			done = append(done, i)
			continue
		}
		p := place{s.status.Phase, s.status.Step}
		if at[p] == nil {
			order = append(order, p)
		}
		at[p] = append(at[p], i)
		quiet = min(quiet, now-s.moved)
	}
	var where []string
	for i, p := range order {
		if i == maxPlaces {
			where = append(where, fmt.Sprintf("and %d more places", len(order)-i))
			break
		}
		where = append(where, fmt.Sprintf("%s in phase %s, step %d", list(at[p]), p.phase, p.step))
	}
	who := "all ranks"
	if done != nil {
		who = "all ranks still at work"
		where = append(where, list(done)+" done")
	}
	return &Verdict{Kind: Deadlock, Rank: -1, Quiet: quiet,
		Cause: fmt.Sprintf("%s have waited for each other for %s: %s", who, quiet.Round(100*time.Millisecond), strings.Join(where, "; "))}
}

func (all rankStates) anyDone() bool {
	return slices.ContainsFunc(all, func(s rankState) bool { return s.done })
}

// maxPlaces bounds the length of a deadlock's verdict.
const maxPlaces = 16

// lingers reports whether all ranks are done but a process does not end.
func (g *Group) lingers(now time.Duration) bool {
	if !g.cfg.Processes || now-g.doneSince <= g.cfg.Timeout {
		return false
	}
	for i := range g.states {
		if !g.states[i].done {
			return false
		}
	}
	return true
}

func (g *Group) lingering(now time.Duration) *Verdict {
	for i := range g.states {
		if s := &g.states[i]; !s.exited {
			return &Verdict{Kind: Stuck, Rank: i, Host: s.member.Host, Pid: s.member.Pid, Quiet: now - g.doneSince,
				Cause: "its work is done but its process does not end"}
		}
	}
	return nil // not reached: a group whose processes have all ended is finished
}
