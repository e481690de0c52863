// Package restart decides what a launcher does when a rank has ended: start it again,
// continue without it, restore all ranks from the last checkpoint, or give up. It is a pure
// state machine without clock, I/O or goroutine. Its messages are shown to users
// (Recovery.Text).
//
// A job may fail Budget times without progress. Progress is a step that was never applied
// before; it restores the budget. Until then, each pause is twice as long as the previous one.
//
// If the job can run with fewer ranks (Min), it continues without a failed rank, whose shards
// are read from the checkpoint. If other ranks hold its shards, it is started again until it
// has failed three times in ten minutes. If all ranks are needed, a failed rank is always
// started again, and reported if it fails repeatedly.
//
// A host that ends its ranks in order, after a checkpoint, has not failed: the job continues
// without it if it can, and otherwise starts again on it.
//
// A job that cannot start again because a host does not answer has not failed: the host is
// waited for with growing pauses, for at most Wait, unless the job can run without it.
package restart

import (
	"cmp"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

const (
	// firstPause is the wait before the first restart. It doubles with each restart without
	// progress, up to MaxPause. Up to a quarter is subtracted at random, so that jobs that failed
	// together do not restart together.
	firstPause = 250 * time.Millisecond
	MaxPause   = 30 * time.Second

	// strikes is the number of failures of a rank within memory after which it is reported, and
	// left out if the job can run without it. It is also the number of losses of a host after
	// which its ranks move to other hosts.
	strikes = 3
	memory  = 10 * time.Minute

	defaultWait = 10 * time.Minute

	// leaveTime is the wait before a job starts again on a host that has ended its ranks. If the
	// host is shutting down, it soon refuses logins.
	leaveTime = 2 * time.Second
)

// Config limits the failures of a job.
type Config struct {
	// Size is the number of ranks of the job, Min the number with which it can run; 0: Size.
	Size, Min int
	// Least is the number of ranks with which the job continues when a host leaves in order; 0: Min.
	Least int
	// Budget is the number of restarts without progress; 0: 3. A new step restores it.
	Budget int
	// Wait bounds the time for which a host that does not answer is waited for; 0: 10 minutes.
	Wait time.Duration
	Seed uint64
}

// Plan is the action of a launcher after a failure.
type Plan uint8

// The plans.
const (
	GiveUp  Plan = iota // the job has failed
	Rejoin              // start the rank again; the others continue meanwhile
	Restore             // start Ranks again from the last checkpoint, in a new generation
)

// Recovery is a plan with its details.
type Recovery struct {
	Plan  Plan
	After time.Duration // wait before the action
	Ranks []int         // with Restore: the remaining ranks
	Text  string        // message for users; "": there is nothing new

	Waits   bool   // the job has not run since the previous failure
	Exclude string // with Restore: the host whose ranks move to other hosts; "": none
}

// Policy is the state machine of a job's restart policy. Times count from any fixed moment
// and never decrease.
type Policy struct {
	cfg      Config
	left     int // restarts left of the budget
	tries    int // restarts since progress
	step     int64
	out      []int                      // ranks left out, ascending
	failures [][]time.Duration          // times of failures, by rank
	lost     map[string][]time.Duration // times at which hosts were lost
	rng      *rand.Rand

	leftAt int64 // the last step when a host left; -1: none has

	asked int           // failed attempts to start since the job last ran
	since time.Duration // the first of them
	named string        // the host that the last message about them names
}

// New returns the policy of a new job.
func New(c Config) *Policy {
	c.Min, c.Budget, c.Wait = cmp.Or(c.Min, c.Size), cmp.Or(c.Budget, 3), cmp.Or(c.Wait, defaultWait)
	return &Policy{cfg: c, left: c.Budget, leftAt: -1, failures: make([][]time.Duration, c.Size), rng: rand.New(rand.NewPCG(c.Seed, 2))}
}

// Progress records that a step has been applied. Steps that are repeated after a restore are
// not progress.
func (p *Policy) Progress(step int64) {
	if step > p.step {
		p.step, p.left, p.tries, p.asked = step, p.cfg.Budget, 0, 0
	}
}

// Resize records that the job continues on other ranks, numbered from 0, and can run with
// least of them; 0: all are needed. Failures of the earlier ranks are forgotten. The budget
// remains.
func (p *Policy) Resize(size, least int) {
	p.cfg.Size, p.cfg.Min = size, size
	if least > 0 {
		p.cfg.Min = least
	}
	p.out, p.failures, p.asked = nil, make([][]time.Duration, size), 0
}

// Failed records that a rank ended. held reports whether other ranks hold its shards. A
// number outside the job, such as -1, is a failure of no single rank.
func (p *Policy) Failed(now time.Duration, rank int, held bool) Recovery {
	p.asked = 0
	who, failures := p.blame(now, rank)
	again := failures >= strikes
	out := failures > 0 && len(p.ranks()) > p.cfg.Min && (again || !held)
	switch {
	case out:
		at, _ := slices.BinarySearch(p.out, rank)
		p.out = slices.Insert(p.out, at, rank)
		who += " and is left out"
	case again && len(p.ranks()) < p.cfg.Size:
		who += fmt.Sprintf(", and -min-np %d needs its place", p.cfg.Min)
	}
	ranks := p.ranks()
	if p.left == 0 {
		return Recovery{Plan: GiveUp, Text: fmt.Sprintf("%s; %d restarts have brought no step beyond %d", who, p.cfg.Budget, p.step)}
	}
	p.left--
	v := Recovery{Plan: Restore, After: p.pause(), Ranks: ranks}
	what := fmt.Sprintf("%d ranks start again", len(ranks))
	if len(ranks) == 1 {
		what = "1 rank starts again"
	}
	if held && !out {
		v.Plan, v.Ranks, what = Rejoin, nil, "it is started again"
	}
	v.Text = fmt.Sprintf("%s; %s in %v", who, what, v.After.Round(time.Millisecond))
	return v
}

// HostFailed records that a host was lost with these ranks. free reports whether other hosts
// have free slots for them. All of the ranks are left out at once if the job can run with the
// others. Otherwise all ranks start again on the same hosts, until the host has been lost
// strikes times within memory: then its ranks move to the free slots.
func (p *Policy) HostFailed(now time.Duration, host string, ranks []int, free bool) Recovery {
	p.asked = 0
	who := fmt.Sprintf("host %s was lost", host)
	if p.lost == nil {
		p.lost = map[string][]time.Duration{}
	}
	p.lost[host] = append(p.recent(now, p.lost[host]), now)
	again := len(p.lost[host]) >= strikes
	if again {
		who += fmt.Sprintf(" %d times within %v", len(p.lost[host]), memory)
	}
	exclude := ""
	switch {
	case len(p.ranks())-len(ranks) >= p.cfg.Min:
		p.leaveOut(ranks)
		who += " and is left out"
	case again && free:
		exclude = host
		who += " and is excluded: its ranks move to other hosts"
	case again:
		who += ", and no other host has free slots for its ranks"
	}
	if p.left == 0 {
		return Recovery{Plan: GiveUp, Text: fmt.Sprintf("%s; %d restarts have brought no step beyond %d", who, p.cfg.Budget, p.step)}
	}
	p.left--
	left := p.ranks()
	v := Recovery{Plan: Restore, After: p.pause(), Ranks: left, Exclude: exclude}
	v.Text = fmt.Sprintf("%s; %d ranks start again in %v", who, len(left), v.After.Round(time.Millisecond))
	return v
}

// Unreached records that the job could not start again because a host did not answer, or no
// network connects the hosts (host is empty then). The host has these ranks; free reports whether
// other hosts have free slots for them. This counts neither as a restart nor as a loss. The ranks
// are left out if the job can run with the others, and move to free slots after some attempts.
// Otherwise the job waits, and gives up after Wait.
func (p *Policy) Unreached(now time.Duration, host string, ranks []int, free bool, cause string) Recovery {
	if p.asked == 0 {
		p.since, p.named = now, ""
	}
	p.asked++
	who := "the hosts cannot start again"
	if host != "" {
		who = fmt.Sprintf("host %s does not answer", host)
	}
	v := Recovery{Plan: Restore, Waits: true}
	switch left := len(p.ranks()) - len(ranks); {
	case len(ranks) > 0 && left >= p.cfg.Min:
		p.leaveOut(ranks)
		v.After, v.Text = p.pauseOf(0), fmt.Sprintf("%s (%s) and is left out; %d ranks start again", who, cause, left)
	case len(ranks) > 0 && free && p.asked >= strikes:
		v.After, v.Exclude = p.pauseOf(0), host
		v.Text = fmt.Sprintf("%s (%s) and is excluded: its ranks move to other hosts", who, cause)
	case now-p.since >= p.cfg.Wait:
		return Recovery{Plan: GiveUp, Text: fmt.Sprintf("%s: the job has waited for %v to start again (-restart-wait)", who, p.cfg.Wait)}
	default:
		v.After = min(p.pauseOf(p.asked-1), p.cfg.Wait-(now-p.since))
		if p.asked == 1 || p.named != host {
			v.Text = fmt.Sprintf("%s (%s): the job waits for up to %v (-restart-wait) and then starts again", who, cause, (p.cfg.Wait - (now - p.since)).Round(time.Second))
		}
		p.named = host
	}
	v.Ranks = p.ranks()
	return v
}

// HostsLeft records that hosts have ended their ranks in order, as drained machines do. free reports
// whether other hosts have free slots for the ranks. The job continues without them if it can, and
// otherwise starts again on the same hosts. This is neither a restart nor a loss if there was a new
// step since a host left before.
func (p *Policy) HostsLeft(hosts []string, ranks []int, free bool) Recovery {
	p.asked = 0
	who := fmt.Sprintf("host %s leaves", hosts[0])
	if len(hosts) > 1 {
		who = fmt.Sprintf("hosts %s leave", strings.Join(hosts, ", "))
	}
	if p.step == p.leftAt {
		if p.left == 0 {
			return Recovery{Plan: GiveUp, Text: fmt.Sprintf("%s; %d restarts have brought no step beyond %d", who, p.cfg.Budget, p.step)}
		}
		p.left--
	}
	p.leftAt = p.step
	v := Recovery{Plan: Restore, After: p.pause()}
	switch left := len(p.ranks()) - len(ranks); {
	case left >= cmp.Or(p.cfg.Least, p.cfg.Min):
		p.leaveOut(ranks)
		v.Text = fmt.Sprintf("%s: %d ranks continue without it", who, left)
		if left == 1 {
			v.Text = fmt.Sprintf("%s: 1 rank continues without it", who)
		}
	case free && len(hosts) == 1:
		v.Exclude = hosts[0]
		v.Text = fmt.Sprintf("%s: its ranks move to other hosts", who)
	default:
		v.After = max(v.After, leaveTime)
		v.Text = fmt.Sprintf("%s: the job starts again when it answers", who)
	}
	if len(hosts) > 1 {
		v.Text = strings.NewReplacer(" without it", " without them", " it answers", " they answer").Replace(v.Text)
	}
	v.Ranks = p.ranks()
	return v
}

// Unfit records that the job cannot run with its present ranks, such as three of four with train.slots. It
// continues with the largest power of two below, if that is at least Config.Min, and leaves out the first of the ranks in
// order. Otherwise it needs all of its ranks again. This is no restart. It returns false if no rank has been left out,
// or if the number is a power of two: then it is not the cause.
func (p *Policy) Unfit(order []int) (v Recovery, ok bool) {
	n := len(p.ranks())
	fit := 1 << (bits.Len(uint(n)) - 1)
	if n == p.cfg.Size || n == fit {
		return v, false
	}
	v = Recovery{Plan: Restore, After: p.pause()}
	if fit >= p.cfg.Min {
		p.leaveOut(order[:n-fit])
	} else {
		p.out, p.cfg.Min = nil, p.cfg.Size
	}
	v.Ranks = p.ranks()
	v.Text = fmt.Sprintf("the job cannot run with %d ranks; %d start again in %v", n, len(v.Ranks), v.After.Round(time.Millisecond))
	return v, true
}

// leaveOut removes ranks from the job.
func (p *Policy) leaveOut(ranks []int) {
	for _, r := range ranks {
		if at, there := slices.BinarySearch(p.out, r); !there {
			p.out = slices.Insert(p.out, at, r)
		}
	}
}

// recent returns the times that are within memory.
func (p *Policy) recent(now time.Duration, times []time.Duration) []time.Duration {
	return slices.DeleteFunc(times, func(t time.Duration) bool { return now-t > memory })
}

// blame records a failure of a rank. It returns a description and the number of the rank's
// failures within memory.
func (p *Policy) blame(now time.Duration, rank int) (who string, failures int) {
	if rank < 0 || rank >= len(p.failures) {
		return "the group failed", 0
	}
	p.failures[rank] = append(p.recent(now, p.failures[rank]), now)
	failures = len(p.failures[rank])
	who = fmt.Sprintf("rank %d failed", rank)
	if failures >= strikes {
		who += fmt.Sprintf(" %d times within %v", failures, memory)
	}
	return who, failures
}

func (p *Policy) ranks() (ranks []int) {
	for r := range p.cfg.Size {
		if _, out := slices.BinarySearch(p.out, r); !out {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// pause returns the next pause, which grows with each restart since progress.
func (p *Policy) pause() time.Duration {
	p.tries++
	return p.pauseOf(p.tries - 1)
}

// pauseOf returns firstPause doubled n times, minus up to a quarter at random.
func (p *Policy) pauseOf(n int) time.Duration {
	d := firstPause
	for range min(n, 16) {
		d = min(2*d, MaxPause)
	}
	return d - time.Duration(p.rng.Int64N(int64(d)/4+1))
}
