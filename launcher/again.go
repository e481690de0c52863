package launcher

import (
	"context"
	"fmt"
	"time"

	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/rank/restart"
)

// Failure is the end of a generation after which the job is started again.
type Failure struct {
	Outcome
	Generation int              // that has failed
	Next       restart.Recovery // who is started again, and when
}

// generations carries a job over failures. Each generation has processes, a key
// and a coordinator of its own, so that nothing of the one before can reach it.
type generations struct {
	job    Job
	policy *restart.Policy
	whole  Plan  // of the first
	places []int // in whole, by rank of the present one
	begin  time.Time
}

// again runs a job until it ends well, is interrupted or the policy gives up.
func again(ctx context.Context, job Job) (Outcome, error) {
	g := &generations{job: job, whole: job.Plan, begin: time.Now()}
	g.policy = restart.New(restart.Config{Size: len(job.Plan.Ranks), Min: job.MinRanks, Budget: job.Restarts, Seed: uint64(g.begin.UnixNano())})
	for r := range job.Plan.Ranks {
		g.places = append(g.places, r)
	}
	for n := 0; ; n++ {
		out, err := once(ctx, g.job)
		out.Restarts, out.Elapsed = n, time.Since(g.begin)
		if err != nil || out.Verdict == nil {
			return out, err
		}
		next := g.judge(out)
		if next.Plan != restart.Restore {
			out.GaveUp = next.Text
			return out, nil
		}
		if g.job.Again != nil {
			g.job.Command = g.job.Again(Failure{out, g.job.Generation, next})
		}
		select {
		case <-time.After(next.After):
		case <-ctx.Done():
			out.Verdict, out.Code = nil, interruptCode(context.Cause(ctx))
			return out, nil
		}
		g.places, g.job.Plan = next.Ranks, g.whole.Only(next.Ranks)
		g.job.Generation++
	}
}

// judge asks the policy what to do about the end of a generation. The policy
// counts failures of places, which keep their number when others are left out.
func (g *generations) judge(out Outcome) restart.Recovery {
	g.policy.Progress(out.Status.Step - 1) // the step that rank 0 was in may not be applied
	v := out.Verdict
	place := -1
	if v.Rank >= 0 && v.Rank < len(g.places) && v.Kind != rank.Gone {
		place = g.places[v.Rank]
	}
	next := g.policy.Failed(time.Since(g.begin), place, false)
	if place >= 0 && place != v.Rank {
		next.Text = fmt.Sprintf("rank %d was rank %d at the start; %s", v.Rank, place, next.Text)
	}
	return next
}
