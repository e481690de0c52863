package train

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/trace"
)

// maxPlan bounds a plan as JSON.
const maxPlan = 1 << 30

// plan plans the training on rank 0, sends the plan to all ranks and prints the chosen
// exchange. For enough see save.Setup.Enough.
func (r *run) plan(ctx context.Context, from *checkpoint.Checkpoint, enough int64) error {
	var b []byte
	if r.comm.Rank() == 0 {
		r.rec.Enter(trace.Plan)
		g, err := r.given(from, r.comm.Size(), r.comm.Size() > 1 && !step.WorksAhead(r.comm), enough)
		if err != nil {
			return err
		}
		g.Step = func() { r.shown.Advance(1) }
		p, err := plan.Estimate(ctx, r.config, r.in.Encoder, r.in.Train, r.comm.Size(), g)
		if err != nil {
			return err
		}
		if b, err = json.Marshal(p); err != nil {
			return err
		}
	}
	r.rec.Enter(trace.Wait)
	b, err := collective.BroadcastBytes(r.comm, b, 0, maxPlan)
	if err != nil {
		return err
	}
	r.planned = new(plan.Plan)
	if err := json.Unmarshal(b, r.planned); err != nil {
		return fmt.Errorf("plan of rank 0: %w", err)
	}
	if line := r.planned.Exchange(); line != "" && r.comm.Size() > 1 {
		r.say(line)
	}
	return nil
}

// given returns the inputs of a plan that the planner cannot choose. shared reports that the
// ranks share memory, so that nothing is sent over links.
func (r *run) given(from *checkpoint.Checkpoint, ranks int, shared bool, enough int64) (g plan.Given, err error) {
	if g.Dense, err = denseNeeds(r.config, ranks); err != nil {
		return g, err
	}
	g.Backup, g.Copies = r.opt.Tolerance.Backup, r.opt.Replicas > 1
	switch {
	case r.in.Train == nil:
		g.Even = "a stream has no sample before it begins"
	case r.config.Train.Slots > 0:
		g.Even = "rows are what is summed in the order of slots"
	case shared:
		g.Even = plan.InPlace
	case r.opt.Replicas > 1:
		g.Owned = "rows of every rank have no second rank to keep a copy"
	case !r.opt.Tolerance.Off():
		g.Owned = "its gradients are not kept apart by microbatch, which -backup and -mode need"
	}
	if from == nil {
		return g, nil
	}
	was, err := save.Placed(from, layout.Shards)
	if was == nil || err != nil {
		return g, err
	}
	if g.Owner = was.Owners(ranks, enough); was.Ranks == ranks {
		g.Strategies = was.Strategies
	}
	return g, nil
}
