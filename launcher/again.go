package launcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/control/restart"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/rank"
)

// least returns the number of ranks with which a job continues when a host leaves in order; 0: as
// after a failure. The ranks of a job that recovers from memory need one another, not all.
func least(job Job) int {
	if job.Heals && job.MinRanks == 0 {
		return 2
	}
	return 0
}

// left asks the policy how the job continues if hosts have ended their ranks in order, and returns
// false if none has. If all hosts have, or the job has one host, the job ends: a cluster or user
// has stopped it.
func (g *generations) left(ctx context.Context, out Outcome, err error) bool {
	var names []string
	var places []int
	for _, r := range g.leaving {
		if name := g.job.Plan.Ranks[r].Host; !slices.Contains(names, name) {
			names, places = append(names, name), append(places, g.placesOn(name)...)
		}
	}
	g.leaving = nil
	v := out.Verdict
	switch {
	case len(names) == 0, v == nil && g.job.Again == nil, err != nil, ctx.Err() != nil, len(places) == len(g.places), g.job.Restarts == 0:
		return false
	case v != nil && (v.Kind == rank.Failed || !slices.Contains(names, v.Host)): // another failure came first
		return false
	}
	free := false
	if len(names) == 1 {
		_, free = g.moved(names[0])
	}
	g.policy.Progress(out.Status.Step - 1)
	next := g.policy.HostsLeft(names, places, free)
	g.judged, g.failed, g.forgotten = &next, nil, ""
	return true
}

// permanent returns the reason why a restart would repeat a verdict, or "". This is so for
// an error that a rank reported as permanent, and for a rank's own error that equals the
// previous generation's verdict, such as a loss that is not finite or a record that cannot
// be read. Causes outside the rank, such as a signal, may occur twice in one place by
// chance.
func permanent(before, v *rank.Verdict) string {
	switch {
	case v.Kind != rank.Failed:
		return ""
	case v.Permanent:
		return "the job is not restarted: this error would occur again until its cause is fixed"
	case before != nil && before.Kind == rank.Failed && before.Step == v.Step && before.Cause == v.Cause:
		return fmt.Sprintf("the job is not restarted: the same error occurred before, at the same step %d", v.Step)
	}
	return ""
}

// judge asks the policy what to do about the end of a generation. The policy counts
// failures by place. Places keep their numbers when others are left out.
func (g *generations) judge(out Outcome, held bool) {
	g.policy.Progress(out.Status.Step - 1) // rank 0 may not have applied its current step
	v := out.Verdict
	place := -1
	if v.Rank >= 0 && v.Rank < len(g.places) && v.Kind != rank.Gone {
		place = g.places[v.Rank]
	}
	why := permanent(g.failed, v)
	next, unfit := g.unfit(v)
	switch {
	case unfit:
		place = -1
	case why != "":
		next = restart.Recovery{Plan: restart.GiveUp, Text: why}
	case v.Together != "":
		_, free := g.moved(v.Host)
		next, place = g.policy.HostFailed(time.Since(g.begin), v.Host, g.placesOn(v.Host), free), -1
	default:
		next = g.policy.Failed(time.Since(g.begin), place, held)
	}
	if v.Kind == rank.Blamed || v.Kind == rank.Cut { // its process is alive
		next.Text = strings.Replace(next.Text, "failed", "lost a link", 1)
	}
	g.failed = v
	if place >= 0 && place != v.Rank {
		next.Text = fmt.Sprintf("rank %d was rank %d at the start; %s", v.Rank, place, next.Text)
	}
	if g.forgotten != "" {
		next.Text, g.forgotten = g.forgotten+": "+next.Text, ""
	}
	g.judged = &next
}

// unfit asks the policy how the job continues if a permanent error before the first step may come from the number
// of ranks that remain. Ranks on the hosts of those that were left out go first.
func (g *generations) unfit(v *rank.Verdict) (next restart.Recovery, ok bool) {
	if !v.Permanent || v.Step > 0 || len(g.places) >= len(g.whole.Ranks) {
		return next, false
	}
	lost := map[string]bool{}
	for place, r := range g.whole.Ranks {
		if !slices.Contains(g.places, place) {
			lost[r.Host] = true
		}
	}
	order := slices.Clone(g.places)
	slices.Reverse(order)
	slices.SortStableFunc(order, func(a, b int) int {
		gone := func(place int) int {
			if lost[g.whole.Ranks[place].Host] {
				return 0
			}
			return 1
		}
		return gone(a) - gone(b)
	})
	return g.policy.Unfit(order)
}

// placesOn returns the places of the current ranks of a host.
func (g *generations) placesOn(host string) (places []int) {
	for r, p := range g.job.Plan.Ranks {
		if p.Host == host {
			places = append(places, g.places[r])
		}
	}
	return places
}

// moved returns the plan in which the ranks of a host are in free slots of the others, and
// whether there are enough of these.
func (g *generations) moved(host string) (Plan, bool) {
	hosts, counts := g.job.Plan.hosts()
	left := 0
	for i, h := range hosts {
		if h.Name == host {
			left, counts[i] = counts[i], 0
		}
	}
	for _, h := range g.job.Hosts {
		if h.Name == host || slices.Contains(g.excluded, h.Name) {
			continue
		}
		i := find(hosts, h.Name)
		if i < 0 {
			i = len(hosts)
			hosts, counts = append(hosts, h), append(counts, 0)
		}
		more := max(min(left, h.Slots-counts[i]), 0)
		counts[i] += more
		left -= more
	}
	plan := number(hosts, counts)
	plan.Each = g.job.Plan.Each
	return plan, left == 0
}

// unreached returns the verdict on a host that could not be reached at a restart or not start ranks,
// or on the network, or nil for any other error. The host has started ranks before: after it has been
// rebooted, its file systems may not be mounted yet.
func (g *generations) unreached(ctx context.Context, err error) *rank.Verdict {
	var lost *hostError
	var network *networkError
	switch {
	case ctx.Err() != nil, g.job.Generation == 0:
	case errors.As(err, &lost):
		n := len(g.placesOn(lost.host))
		return &rank.Verdict{Kind: rank.Lost, Rank: -1, Host: lost.host, Together: plural.Of(n, "rank"), Cause: lost.Unwrap().Error()}
	case errors.As(err, &network):
		return &rank.Verdict{Kind: rank.Lost, Rank: -1, Cause: network.Error()}
	}
	return nil
}

// wait asks the policy what to do while a host cannot be reached, or answers but starts no ranks. The
// verdict is only reported if the job gives up.
func (g *generations) wait(lost *rank.Verdict, answers bool) {
	free, places := false, []int(nil)
	if lost.Host != "" {
		_, free = g.moved(lost.Host)
		places = g.placesOn(lost.Host)
	}
	cause, _, _ := strings.Cut(lost.Cause, "\n")
	next := g.policy.Unreached(time.Since(g.begin), lost.Host, places, free, strings.TrimSuffix(cause, ":"))
	if answers {
		next.Text = strings.Replace(next.Text, "does not answer (", "cannot start its ranks (", 1)
	}
	g.judged = &next
	if g.job.Judged != nil && (next.Plan != restart.Restore || g.job.Restarts == 0) {
		g.job.Judged(lost, g.job.Stderr)
	}
}
