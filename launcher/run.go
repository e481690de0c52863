package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/internal/control/restart"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/rank"
)

// Run starts the ranks of a job and returns when all have ended and the job is not
// restarted. If ctx ends first, Run ends all ranks, and the outcome has exit code 1 and no
// verdict. With the cause Interrupted (see WithSignals), it has the exit code of the signal.
// The error is set only if the job could not be run. Failures of ranks are in the outcome.
func Run(ctx context.Context, job Job) (Outcome, error) {
	if err := job.check(); err != nil {
		return Outcome{Code: startCode(err)}, err
	}
	front, err := listen(job.Listen)
	if err != nil {
		return Outcome{Code: 1}, err
	}
	defer front.Close()
	job.front = front
	if job.Restarts > 0 || job.Changes != nil {
		return runUntilDone(ctx, job)
	}
	return once(ctx, job, nil)
}

// once runs the processes of a job: one generation, or with Heals as many as continue from
// memory.
func once(ctx context.Context, job Job, of *generations) (Outcome, error) {
	r, err := newRun(job)
	if err != nil {
		return Outcome{Code: 1}, err
	}
	r.of = of
	defer r.close()
	if job.Suspends { // before a rank runs
		stop := suspends(r.crew)
		defer stop()
	}
	if err := r.start(ctx); err != nil {
		r.crew.signal(killSign, everyone)
		r.reap()
		if ctx.Err() != nil {
			r.interrupt = context.Cause(ctx)
			return r.outcome(), nil
		}
		return Outcome{Code: startCode(err)}, err
	}
	err = r.watch(ctx)
	return r.outcome(), err
}

func newRun(job Job) (*run, error) {
	if job.Stdout == nil {
		job.Stdout = io.Discard
	}
	if job.Stderr == nil {
		job.Stderr = io.Discard
	}
	if job.Grace == 0 {
		job.Grace = grace
	}
	r := &run{job: job, begin: time.Now(), key: rank.NewKey(), exits: map[int]exit{}, own: map[int]bool{}, pids: map[int]int{}}
	r.console = &console{stderr: job.Stderr}
	r.relay = &relay{next: job.Host, free: maxReports, stepped: make(chan struct{})}
	if !job.Quiet {
		r.relay.display = newDisplay(r.console, r.begin)
	}
	var err error
	if r.server, err = r.serve(); err != nil {
		return nil, err
	}
	if r.guard, err = startGuard(job.Guard, "WDLRUN_KEY="+r.key.Hex(), r.word); err != nil {
		r.server.Close()
		return nil, err
	}
	if job.Plan.Remote() == "" {
		f, err := newFleet(len(job.Plan.Ranks), job.Plan.Each.wire(), r.guard)
		if err != nil {
			r.server.Close()
			r.guard.close()
			return nil, fmt.Errorf("launcher: start: host %s: %w", hostname(), err)
		}
		r.crew = f
	} else {
		r.remote = newRemote(job, r.console, r.guard, job.front.Addr().String())
		r.remote.left = r.relay.hostLeaves
		r.crew = r.remote
	}
	if r.relay.display != nil {
		go r.relay.display.run()
	}
	return r, nil
}

// start starts all ranks, or fails with some started. A host starts its ranks one after the
// other, and all hosts do so concurrently: a start takes a round trip, which a thousand hosts
// must not add up.
func (r *run) start(ctx context.Context) error {
	if r.remote != nil {
		if err := r.remote.connect(ctx); err != nil {
			return err
		}
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var hosts sync.WaitGroup
	for i, p := range r.job.Plan.Ranks {
		if p.LocalRank > 0 {
			continue
		}
		hosts.Go(func() {
			for _, p := range r.job.Plan.Ranks[i : i+p.LocalSize] {
				if ctx.Err() != nil {
					return
				}
				if err := r.startRank(p); err != nil {
					fail(err)
				}
			}
		})
	}
	hosts.Wait()
	return context.Cause(ctx)
}

// watch waits for all ranks to end and ends them when it is time.
func (r *run) watch(ctx context.Context) error {
	var term, kill, lost, heal <-chan time.Time
	var calls <-chan func(*run)
	done, ended, orders, stepped := ctx.Done(), r.server.Ended(), r.job.Orders, r.stepped()
	for r.left > 0 {
		select {
		case e := <-r.crew.ended():
			r.ended(e)
		case o, ok := <-orders:
			if !ok {
				orders = nil
				continue
			}
			r.server.Order(o)
		case f := <-calls:
			f(r)
		case <-stepped:
			stepped, calls = nil, r.of.calls
			r.confirm()
		case <-ended:
			ended = nil
			if v := r.judge(); v != nil && term == nil {
				calls, stepped = nil, nil // changes wait for the next generation
				if pause, ok := r.heal(v); ok {
					heal = time.After(pause)
					continue
				}
				r.crew.signal(wakeSign, everyone) // a stopped rank reports its stacks too
				term = time.After(r.patience())
			}
		case <-heal:
			var err error
			if heal, err = r.regroup(); err != nil {
				return err
			}
			if heal == nil {
				ended, stepped = r.server.Ended(), r.stepped()
			}
		case <-done:
			done = nil
			if r.server.Verdict() == nil || heal != nil {
				r.interrupt, r.asked = context.Cause(ctx), time.Now()
			}
			term, heal = time.After(0), nil
		case <-term:
			term, r.ending = nil, true
			r.relay.ends()
			r.crew.signal(termSign, everyone)
			if kill == nil {
				kill = time.After(r.job.Grace)
			}
		case <-kill:
			if r.spares() {
				kill = time.After(r.job.Grace)
				continue
			}
			r.crew.signal(killSign, everyone)
			lost = time.After(reapTime)
		case <-lost:
			return fmt.Errorf("launcher: run: %s did not end although killed: stuck in the kernel, on a file system that does not answer?", plural.Of(r.left, "rank"))
		}
	}
	select { // the end of the last process ends the group
	case <-r.server.Ended():
	case <-time.After(reapTime):
	}
	r.judge()
	return nil
}

// judge returns the verdict on the group, nil for none. It calls Judged once, unless the
// ranks were interrupted.
func (r *run) judge() *rank.Verdict {
	v := r.server.Verdict()
	if v == nil || r.judged || r.interrupt != nil {
		return v
	}
	r.judged = true
	if r.job.Judged == nil {
		return v
	}
	r.printLine(func() { r.job.Judged(v, lineWriter{r.console}) })
	return v
}

// runUntilDone runs a job until it succeeds, is interrupted, or the policy gives up. It also
// carries out changes of hosts.
func runUntilDone(ctx context.Context, job Job) (Outcome, error) {
	if job.Stderr == nil {
		job.Stderr = io.Discard
	}
	g := &generations{job: job, whole: job.Plan, begin: time.Now()}
	g.policy = restart.New(restart.Config{Size: len(job.Plan.Ranks), Min: job.MinRanks, Least: least(job), Budget: job.Restarts, Wait: job.RestartWait, Seed: uint64(g.begin.UnixNano())})
	for r := range job.Plan.Ranks {
		g.places = append(g.places, r)
	}
	defer g.open(ctx)()
	for n := 0; ; {
		out, err := once(ctx, g.job, g)
		if g.prepareNext(ctx, out, err) {
			g.healed += out.Heals
			continue
		}
		lost := g.unreached(ctx, err)
		if lost != nil {
			g.wait(lost, errors.As(err, new(*startError)))
			out.Verdict, err = lost, nil
		}
		out.Restarts, out.Elapsed = n, time.Since(g.begin)
		out.Heals, g.healed = out.Heals+g.healed, out.Heals+g.healed
		left := g.left(ctx, out, err)
		if err != nil || out.Verdict == nil && !left || g.job.Restarts == 0 {
			return out, err
		}
		if g.judged == nil {
			g.judge(out, false)
		}
		next := *g.judged
		g.judged = nil
		if next.Plan != restart.Restore {
			out.GaveUp = next.Text
			return out, nil
		}
		if g.job.Again != nil && next.Text != "" {
			command := g.job.Again(Failure{out, g.job.Generation, next, job.Stderr})
			if command == nil {
				return out, nil
			}
			g.job.Command = command
		}
		select {
		case <-time.After(next.After):
		case <-ctx.Done():
			out.Verdict, out.Code = nil, interruptCode(context.Cause(ctx))
			return out, nil
		}
		if lost == nil && !left {
			n++
		}
		if next.Exclude != "" {
			plan, _ := g.moved(next.Exclude)
			g.excluded = append(g.excluded, next.Exclude)
			g.proceed(g.job.Command, plan)
			continue
		}
		g.places, g.job.Plan = next.Ranks, g.whole.Only(next.Ranks)
		g.job.Generation++
	}
}
