package launcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/rank"
)

// with returns the plan after a change. Hosts keep their order; new ones are added at the
// end.
func (p Plan) with(c Change) (Plan, error) {
	hosts, counts := p.hosts()
	for _, text := range c.Add {
		name, n, err := splitHost(text)
		if err != nil {
			return p, err
		}
		switch i := find(hosts, name); {
		case i < 0:
			hosts, counts = append(hosts, Host{Name: name}), append(counts, max(n, 1))
		case n == 0:
			return p, fmt.Errorf("host %s is in the job with %s: to add N more, give %s:N", name, plural.Of(counts[i], "rank"), name)
		default:
			counts[i] += n
		}
	}
	for _, text := range c.Drop {
		name, n, err := splitHost(text)
		if err != nil {
			return p, err
		}
		switch i := find(hosts, name); {
		case i < 0:
			return p, fmt.Errorf("host %s is not in the job, whose hosts are %s", name, p.Hosts())
		case n > counts[i]:
			return p, fmt.Errorf("host %s has %s, and %d are to be removed", name, plural.Of(counts[i], "rank"), n)
		case n == 0:
			counts[i] = 0
		default:
			counts[i] -= n
		}
	}
	next := number(hosts, counts)
	next.Each = p.Each
	switch n := len(next.Ranks); {
	case n == 0:
		return p, errors.New("no rank would be left; to stop the training with a checkpoint, press Ctrl-C in the launcher or send it SIGTERM")
	case n > rank.MaxSize:
		return p, fmt.Errorf("the job would have %d ranks, and at most %d are allowed", n, rank.MaxSize)
	}
	return next, nil
}

// find returns the index of a host, or -1. All names of this machine are the same host.
func find(hosts []Host, name string) int {
	return slices.IndexFunc(hosts, func(h Host) bool {
		return strings.EqualFold(h.Name, name) || h.Local() && (Host{Name: name}).Local()
	})
}

// hosts returns the hosts of a plan and the number of ranks on each.
func (p Plan) hosts() (hosts []Host, counts []int) {
	for i := 0; i < len(p.Ranks); i += p.Ranks[i].LocalSize {
		hosts, counts = append(hosts, Host{Name: p.Ranks[i].Host}), append(counts, p.Ranks[i].LocalSize)
	}
	return hosts, counts
}

// Hosts returns the hosts of a plan and their ranks in the form of -H, such as a:2,b:4.
func (p Plan) Hosts() string {
	var all []string
	hosts, counts := p.hosts()
	for i, h := range hosts {
		name := h.Name
		if strings.Contains(name, ":") {
			name = "[" + name + "]"
		}
		all = append(all, fmt.Sprintf("%s:%d", name, counts[i]))
	}
	return strings.Join(all, ",")
}

// except returns the plan without the hosts of another one, and whether any is left.
func (p Plan) except(old Plan) (Plan, bool) {
	known := map[string]bool{}
	for _, r := range old.Ranks {
		known[r.Host] = true
	}
	var ranks []int
	for _, r := range p.Ranks {
		if !known[r.Host] {
			ranks = append(ranks, r.Rank)
		}
	}
	return p.Only(ranks), len(ranks) > 0
}

var errJobEnds = errors.New("the job has ended or is ending")

// serve answers changes until ctx ends. job is as it was at the start.
func (c *changes) serve(ctx context.Context, job Job) {
	for {
		select {
		case x := <-job.Changes:
			x.Done(c.carryOut(ctx, job, x))
		case <-ctx.Done():
			return
		}
	}
}

// carryOut returns when the first step on the other hosts is done, or the change has failed. If the job
// fails or loses a host before the ranks are asked to end, the change is made when it runs again.
func (c *changes) carryOut(ctx context.Context, job Job, x Change) (next Plan, err error) {
	for {
		if next, err = c.attempt(ctx, job, x); !errors.Is(err, errFailing) {
			return next, err
		}
	}
}

// errFailing reports that a change must wait for the next generation.
var errFailing = errors.New("the job fails")

func (c *changes) attempt(ctx context.Context, job Job, x Change) (next Plan, err error) {
	var old Plan
	var to *console
	if err := c.do(ctx, func(r *run) error { old, to = r.job.Plan, r.console; return nil }); err != nil {
		return next, err
	}
	if next, err = old.with(x); err != nil {
		return next, err
	}
	if probe, more := next.except(old); more {
		job.Plan = probe
		if err := reach(ctx, job, to); err != nil {
			return old, fmt.Errorf("%w; the job continues on its hosts", err)
		}
	}
	t := &transition{before: old, next: next, done: make(chan error, 1)}
	if err := c.do(ctx, func(r *run) error { return r.stopFor(t) }); err != nil {
		return old, err
	}
	select {
	case err = <-t.done:
	case <-ctx.Done():
		err = errJobEnds
	}
	return next, err
}

// do has f called by the goroutine that watches the ranks, when they have completed a step.
func (c *changes) do(ctx context.Context, f func(*run) error) error {
	done := make(chan error, 1)
	select {
	case c.calls <- func(r *run) { done <- f(r) }:
		return <-done
	case <-ctx.Done():
		return errJobEnds
	}
}

// reach starts the host processes of a plan and ends them again, to find out whether ranks
// can run there.
func reach(ctx context.Context, job Job, to *console) error {
	job.Quiet = true
	guard, err := startGuard(job.Guard, "WDLRUN_KEY="+rank.NewKey().Hex(), func(string) {})
	if err != nil {
		return err
	}
	defer guard.close()
	a := newRemote(job, to, guard, job.front.Addr().String())
	defer a.close()
	return a.connect(ctx)
}

// stopFor orders the ranks to end for a change.
func (r *run) stopFor(t *transition) error {
	switch {
	case r.interrupt != nil:
		return errJobEnds
	case !slices.Equal(r.job.Plan.Ranks, t.before.Ranks), r.server.Verdict() != nil, !r.relay.isFormed():
		return errFailing
	}
	r.of.asked = t
	r.server.Order(control.Stop)
	return nil
}

// confirm ends the trial of a change: the ranks have done a step. If they have resumed from memory since they were
// asked to end for a change, some may have forgotten that.
func (r *run) confirm() {
	r.of.confirm()
	if r.of.asked != nil {
		r.server.Order(control.Stop)
	}
}

// confirm ends the trial of a change.
func (c *changes) confirm() {
	if c.trial != nil {
		c.trial.done <- nil
		c.trial = nil
	}
}

// withdraw ends a change that was asked for, because of a failure.
func (c *changes) withdraw(why string) {
	if c.asked != nil {
		c.asked.done <- fmt.Errorf("the job has failed before the checkpoint: %s; try again", why)
		c.asked = nil
	}
}

// prepareNext prepares the next generation if the one that ended has ended for a change of hosts,
// or was the first on other hosts and failed. It returns false otherwise.
func (g *generations) prepareNext(ctx context.Context, out Outcome, err error) bool {
	if err == nil && out.Verdict != nil {
		err = errors.New(out.Verdict.String())
	}
	t := Turn{Outcome: out, Stderr: g.job.Stderr}
	t.Status.RunDir = g.runDir
	switch asked, trial := g.asked, g.trial; {
	case ctx.Err() != nil:
		return false
	case trial != nil && err != nil:
		g.trial, t.Plan, t.Failed = nil, trial.before, err
		g.proceed(g.job.Changed(t), t.Plan)
		trial.done <- fmt.Errorf("%w; the job returns to its previous hosts", err)
		return true
	case asked != nil && err != nil:
		g.withdraw(err.Error())
	case asked != nil:
		g.asked, t.Plan = nil, asked.next
		command := g.job.Changed(t)
		if command == nil {
			asked.done <- errJobEnds
			return false
		}
		g.trial = asked
		g.proceed(command, t.Plan)
		return true
	}
	g.confirm() // the work has ended before a step
	return false
}

// proceed makes the next generation run a command on the ranks of a plan.
func (g *generations) proceed(command []string, plan Plan) {
	g.job.Command, g.whole, g.job.Plan, g.places = command, plan, plan, nil
	for r := range plan.Ranks {
		g.places = append(g.places, r)
	}
	g.policy.Resize(len(plan.Ranks), g.job.MinRanks)
	g.job.Generation++
	g.failed = nil
}

// open serves changes until the returned function is called.
func (g *generations) open(ctx context.Context) (closed func()) {
	if g.job.Changes == nil {
		return func() {}
	}
	g.calls = make(chan func(*run))
	ctx, cancel := context.WithCancel(ctx)
	var served sync.WaitGroup
	job := g.job
	served.Go(func() { g.serve(ctx, job) })
	return func() { cancel(); served.Wait() }
}

// stepped returns a channel that is closed when the ranks of the present generation have
// completed a step. It is nil for a job that does not change.
func (r *run) stepped() <-chan struct{} {
	if r.of == nil {
		return nil
	}
	return r.relay.stepped
}
