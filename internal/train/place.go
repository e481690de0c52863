package train

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/trace"
)

// maxPlan bounds a plan as JSON.
const maxPlan = 1 << 30

// maxCounts bounds the counts of a rank in a sample.
const maxCounts = 1 << 36

// plan plans the training on rank 0, sends the plan to all ranks and prints the chosen
// exchange. The sample is the first batches of feed, or, if it is nil, rank 0 reads it. For
// enough see save.Setup.Enough.
func (r *run) plan(ctx context.Context, from *checkpoint.Checkpoint, feed *data.Reader, enough int64) error {
	counts, err := r.sample(ctx, feed)
	if err != nil {
		return err
	}
	var b []byte
	if r.Comm.Rank() == 0 {
		r.Rec.Enter(trace.Plan)
		g, err := r.planInputs(from, r.Comm.Size(), r.Comm.Size() > 1 && !step.WorksAhead(r.Comm), enough)
		if err != nil {
			return err
		}
		g.Counts, g.Step = counts, func() { r.shown.Advance(1) }
		p, err := plan.Estimate(ctx, r.config, r.in.Encoder, r.in.Train, r.Comm.Size(), g)
		if err != nil {
			return err
		}
		if b, err = json.Marshal(p); err != nil {
			return err
		}
	}
	r.Rec.Enter(trace.Wait)
	b, err = collective.BroadcastBytes(r.Comm, b, 0, maxPlan)
	if err != nil {
		return err
	}
	r.planned = new(plan.Plan)
	if err := json.Unmarshal(b, r.planned); err != nil {
		return fmt.Errorf("plan of rank 0: %w", err)
	}
	if line := r.planned.Exchange(); line != "" && r.Comm.Size() > 1 {
		r.Say(line)
	}
	return nil
}

// sample counts the first batches of feed, which training then takes, and returns the counts of
// all ranks on rank 0. Without a feed, or if the first batches are smaller than the others, it
// returns nil.
func (r *run) sample(ctx context.Context, feed *data.Reader) ([][]byte, error) {
	size := r.Comm.Size()
	if batch := r.config.Train.Global(size); feed == nil || r.config.Train.Growth().Batch(0, batch) != batch {
		return nil, nil
	}
	r.Rec.Enter(trace.Plan)
	s := plan.NewSampler(r.config, r.in.Encoder, size)
	for i, more := 0, true; more; i++ {
		b, err := feed.Peek(ctx, i)
		if err != nil {
			return nil, err
		}
		if b == nil {
			break
		}
		more = s.Add(b)
		r.shown.Advance(1)
	}
	r.Rec.Enter(trace.Wait)
	return collective.GatherBytes(r.Comm, s.Counts(), 0, maxCounts)
}

// planInputs returns the inputs of a plan that the planner cannot choose. shared reports that the
// ranks share memory, so that nothing is sent over links.
func (r *run) planInputs(from *checkpoint.Checkpoint, ranks int, shared bool, enough int64) (g plan.Given, err error) {
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
