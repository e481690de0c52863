package rank

import (
	"slices"
	"time"
)

// decide ends the group if it is finished or has failed.
func (g *Group) decide(now time.Duration) Decision {
	if g.ended {
		return Decision{}
	}
	signs, complete, settled := 0, 0, 0
	for i := range g.states {
		s := &g.states[i]
		if s.sign() != "" {
			signs++
		}
		if g.complete(s) {
			complete++
		}
		if g.settled(s) {
			settled++
		}
	}
	if signs == 0 {
		g.trouble = false // a silent rank has sent a heartbeat again
		return g.judgeAll(now, complete)
	}
	if !g.trouble {
		g.trouble, g.since, g.began = true, now, now
	}
	if settled == len(g.states) || now-g.since >= g.cfg.Settle && !g.awaits(now) {
		return g.condemn(g.verdict(now))
	}
	return Decision{}
}

// judgeAll decides about the group if no rank has a sign.
func (g *Group) judgeAll(now time.Duration, complete int) Decision {
	joins := g.joined > 0 || g.started && g.cfg.Version != "" // other programs may never join
	switch {
	case complete == len(g.states):
		g.ended = true
		return Decision{Act: Finish}
	case !g.formed && joins && now-g.lastJoin > g.cfg.Timeout, !g.formed && g.joined > 0 && g.neverForms():
		return g.condemn(g.absent(now))
	case g.formed && g.deadlocked(now):
		return g.condemn(g.deadlock(now))
	case g.formed && g.lingers(now):
		return g.condemn(g.lingering(now))
	}
	return Decision{}
}

// verdict selects the root cause among the ranks with signs and lists the others under it.
func (g *Group) verdict(now time.Duration) *Verdict {
	root := g.states.root()
	s := &g.states[root]
	// Rank 0 hosts the coordinator and was stopped, so the ranks that are lost have left
	// it.
	if k := s.sign(); !g.cfg.Processes && (k == Lost || k == Blamed) && g.pause.length > 0 && now-g.pause.end <= g.cfg.Silence {
		s = &g.states[0]
		return &Verdict{Kind: Silent, Host: s.member.Host, Pid: s.member.Pid, Phase: s.status.Phase, Step: s.status.Step, Position: s.status.Position,
			Quiet: g.pause.length, Cause: "it hosts the coordinator, and the other ranks no longer waited for it"}
	}
	if s.sign() == Blamed {
		root, s = g.accused(root)
	}
	if s.failed && s.blamed == Differs {
		return &Verdict{Kind: Disagree, Rank: -1, Phase: s.status.Phase, Step: s.status.Step, Cause: s.cause}
	}
	v := &Verdict{
		Kind: s.sign(), Rank: root, Host: s.member.Host, Pid: s.member.Pid,
		Phase: s.status.Phase, Step: s.status.Step, Position: s.status.Position,
		Cause: s.cause, Permanent: s.failed && s.blamed == ForGood, Alone: !slices.ContainsFunc(g.states, func(o rankState) bool { return o.member.Host != s.member.Host }), Code: s.code, Signal: s.signal,
	}
	switch v.Kind {
	case Silent:
		v.Quiet, v.Cause = now-s.beat, g.waiting(root)
		if ranks := silentHost(g.states, root, now-g.cfg.Silence+recent); ranks != nil {
			v.Together, v.Pid = list(ranks), 0
		}
	case Stuck:
		v.Quiet, v.Cause = now-s.moved, g.waiting(root)
	case Lost:
		v.Cause = "its connection to the coordinator broke"
		if s.code == withHost {
			var ranks []int
			for i := range g.states {
				if g.states[i].lostWith(s) {
					ranks = append(ranks, i)
				}
			}
			v.Cause, v.Together, v.Pid, v.Code = s.why, list(ranks), 0, 0
		} else if s.exited {
			v.Cause = "its process ended with code 0 before its work was done"
		}
		if further := g.further(s); further != "" {
			v.Cause += "; " + further
		}
	case Killed, Exited:
		v.Cause = s.why
		if further := g.further(s); further != "" && v.Cause != "" {
			v.Cause += "; " + further
		} else {
			v.Cause += further
		}
	case "", Blamed: // only reports of others
		v.Kind = Blamed
		v.Cause = g.charges(root)
	}
	for i := range g.states {
		o := &g.states[i]
		if i == root || o.sign() == "" || v.Together != "" && o.member.Host == s.member.Host || v.repeats(o) {
			continue
		}
		if o.blames && o.blamed == root {
			v.Blaming++
		}
		v.Folded++
	}
	v.Others = g.others(root, v)
	return v
}
