package rank

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// active reports whether a rank is working and must send heartbeats.
func (s *rankState) active() bool { return s.joined && !s.done && !s.exited }

// active returns the number of working ranks. Each of several may be waiting for another; a
// single one waits for no rank.
func (all rankStates) active() (n int) {
	for i := range all {
		if all[i].active() {
			n++
		}
	}
	return n
}

// sign returns the strongest sign of a rank, or "".
func (s *rankState) sign() Kind {
	switch {
	case s.failed:
		return Failed // its report explains the end of its process as well
	case s.code == withHost:
		return Lost
	case s.exited && s.signal != 0:
		return Killed
	case s.blames:
		return Blamed
	case s.exited && s.code != 0:
		return Exited
	case s.exited && s.joined && !s.done, s.lost:
		return Lost
	case s.silent:
		return Silent
	case s.stuck:
		return Stuck
	}
	return ""
}

// at returns the time of a rank's sign.
func (s *rankState) at() time.Duration {
	switch s.sign() {
	case Failed:
		return s.failedAt
	case Killed, Exited:
		return s.exitAt
	case Blamed:
		return s.blameAt
	case Lost:
		if s.lost {
			return s.lostAt
		}
		return s.exitAt
	case Silent:
		return s.silentAt
	}
	return s.stuckAt
}

// strength orders the kinds: a lower one is closer to the root cause. A killed process and
// one that exited without a report are equally strong; the earlier one counts.
func strength(k Kind) int {
	if k == Exited {
		k = Killed
	}
	return slices.Index([]Kind{Killed, Failed, Lost, Silent, Stuck, Blamed}, k)
}

// complete reports whether a rank has finished: its work is done and, if processes are
// reported, its process has ended. A program that never joins is complete when it ends with
// code 0.
func (g *Group) complete(s *rankState) bool {
	if s.sign() != "" {
		return false
	}
	if g.cfg.Processes {
		return s.exited
	}
	return s.done
}

// settled reports whether no more signs of a rank are expected.
func (g *Group) settled(s *rankState) bool {
	if s.failed || s.blames || s.exited {
		return true
	}
	if g.cfg.Processes {
		return false
	}
	return s.done || s.sign() != ""
}

// awaits reports whether the end of a process may explain more than the signs. This is so
// if the strongest sign is a lost connection, reported by the coordinator or by peers, and
// the rank's process has not ended. A rank that blames a peer itself was alive at that
// time.
func (g *Group) awaits(now time.Duration) bool {
	if !g.cfg.Processes || now-g.began >= g.cfg.Ends {
		return false
	}
	if k := g.states[g.states.root()].sign(); k != Lost && k != Blamed {
		return false
	}
	for i := range g.states {
		s := &g.states[i]
		switch s.sign() {
		case Lost:
		case Blamed:
			if s = &g.states[s.blamed]; s.blames {
				continue
			}
		default:
			continue
		}
		if !s.exited {
			return true
		}
	}
	return false
}

func (g *Group) condemn(v *Verdict) Decision {
	g.ended = true
	return Decision{Act: Condemn, Verdict: v}
}

// root returns the rank with the strongest sign, the earliest if several are equal. At
// least one rank must have a sign.
func (all rankStates) root() int {
	root := -1
	for i := range all {
		s := &all[i]
		if s.sign() == "" {
			continue
		}
		if root < 0 || nearer(s, &all[root]) {
			root = i
		}
	}
	return root
}

// repeats reports whether a rank on the same host failed with the same permanent cause, which says
// nothing more.
func (v *Verdict) repeats(o *rankState) bool {
	return v.Kind == Failed && v.Permanent && v.Alone && o.sign() == Failed && o.cause == v.Cause
}

// silentHost returns the ranks on root's host that work or have not joined yet, if there are several, all of them
// are silent since the given time, and there are other hosts. The cause is then the host.
func silentHost(states []rankState, root int, since time.Duration) (ranks []int) {
	others := false
	for i := range states {
		switch s := &states[i]; {
		case s.member.Host != states[root].member.Host:
			others = true
		case !s.active() && (s.joined || s.exited):
		case s.joined && s.beat > since:
			return nil
		default:
			ranks = append(ranks, i)
		}
	}
	if len(ranks) < 2 || !others {
		return nil
	}
	return ranks
}

// further returns the position of another rank at its last report, if that is ahead of what
// is known of the lost rank. Ranks that report a loss state their position at once. The
// lost rank's last heartbeat may be a second older, from before its first input.
func (g *Group) further(gone *rankState) string {
	far := gone.status
	for i := range g.states {
		if s := g.states[i].status; s.Step > far.Step {
			far = s
		}
	}
	switch {
	case gone.status.Phase == "" || far.Step == gone.status.Step:
		return ""
	case gone.status.Position == "" && far.Position != "":
		return fmt.Sprintf("it ended later: another rank had reached step %d, input %s", far.Step, far.Position)
	}
	return fmt.Sprintf("it ended later: another rank had reached step %d", far.Step)
}

// waiting describes which ranks wait for others while one is stuck, and where.
func (g *Group) waiting(root int) string {
	var who []int
	first := -1
	for i := range g.states {
		if o := &g.states[i]; i != root && o.active() && o.sign() == "" && o.status.Waits {
			if who = append(who, i); first < 0 {
				first = i
			}
		}
	}
	if who == nil {
		return ""
	}
	verb, at := "wait", g.states[first].status
	if len(who) == 1 {
		verb = "waits"
	}
	return fmt.Sprintf("%s %s for it in phase %s, step %d", list(who), verb, at.Phase, at.Step)
}

// nearer reports whether a is closer to the root cause than b.
func nearer(a, b *rankState) bool {
	if x, y := strength(a.sign()), strength(b.sign()); x != y {
		return x < y
	}
	return a.at() < b.at()
}

// accused follows reports of ranks that blame each other to the rank that most of them
// blame. In a tie it returns the one that the first report blames.
func (g *Group) accused(first int) (int, *rankState) {
	votes := make([]int, len(g.states))
	for i := range g.states {
		if g.states[i].blames {
			votes[g.states[i].blamed]++
		}
	}
	root := g.states[first].blamed
	for i, n := range votes {
		if n > votes[root] {
			root = i
		}
	}
	return root, &g.states[root]
}

// charges returns the report of the first rank that blames root.
func (g *Group) charges(root int) string {
	first := g.accuser(root)
	if first < 0 {
		return ""
	}
	return fmt.Sprintf("rank %d reports: %s", first, g.states[first].blame)
}

// accuser returns the first rank that blames root, or -1.
func (g *Group) accuser(root int) int {
	first := -1
	for i := range g.states {
		s := &g.states[i]
		if s.blames && s.blamed == root && (first < 0 || s.blameAt < g.states[first].blameAt) {
			first = i
		}
	}
	return first
}

// list formats rank numbers: "rank 3", "ranks 0–2, 5".
func list(ranks []int) string {
	var b strings.Builder
	b.WriteString("rank")
	if len(ranks) != 1 {
		b.WriteByte('s')
	}
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		sep := ", "
		if i == 0 {
			sep = " "
		}
		b.WriteString(sep + strconv.Itoa(ranks[i]))
		if j == i+1 {
			b.WriteString(", " + strconv.Itoa(ranks[j]))
		} else if j > i {
			b.WriteString("–" + strconv.Itoa(ranks[j]))
		}
		if b.Len() > 200 {
			b.WriteString(" …")
			break
		}
		i = j + 1
	}
	return b.String()
}
