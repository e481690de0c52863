package wdl

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/wdl/config"
	"github.com/wdlrun/wdlrun/internal/wdl/layout"
	"github.com/wdlrun/wdlrun/internal/wdl/plan"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// placement is what a checkpoint's manifest says of where rows were: by whom the
// next job on as many ranks finds them owned, and what any other number of ranks
// shares out by.
type placement struct {
	Ranks      int                        `json:"ranks"`
	Owner      []int32                    `json:"owner"`        // rank by shard
	Keys       int64                      `json:"keys"`         // that were asked for since the job began, as far as measured
	Wire       []int64                    `json:"wire_bytes"`   // measured by shard
	Memory     []int64                    `json:"memory_bytes"` // measured by shard
	Strategies map[string]sparse.Strategy `json:"strategies"`   // by table
}

// metaPlacement is its name in the manifest.
const metaPlacement = "placement"

// enoughKeys is how many keys a shard must have been asked for on average before
// shards move by it. One batch of eight is counted, so that the load of a shard is
// then known to about an eighth.
const enoughKeys = 8 * 64

// loads are the measured ones.
func (p *placement) loads() []sparse.ShardLoad {
	loads := make([]sparse.ShardLoad, len(p.Wire))
	for i := range loads {
		loads[i] = sparse.ShardLoad{WireBytes: p.Wire[i], MemoryBytes: p.Memory[i]}
	}
	return loads
}

// owners are those of a job on so many ranks, nil to go by its plan. Measured loads
// count if there are enough keys behind them.
func (p *placement) owners(ranks int, enough int64) []int32 {
	measured := p.Keys >= enough*int64(len(p.Owner))
	switch {
	case p.Ranks == ranks && measured:
		return plan.Balanced(p.loads(), p.Owner, ranks)
	case p.Ranks == ranks:
		return p.Owner
	case measured:
		return plan.Balanced(p.loads(), nil, ranks)
	}
	return nil
}

// placed reads the placement of a checkpoint, nil if it has none: it is of an
// earlier version.
func placed(c *checkpoint.Checkpoint, shards int) (*placement, error) {
	b, ok := c.Manifest().Meta[metaPlacement]
	if !ok {
		return nil, nil
	}
	p, err := readPlacement(b, shards)
	if err != nil {
		return nil, fmt.Errorf("wdl: checkpoint %s: placement: %w", c.Dir(), err)
	}
	return p, nil
}

func readPlacement(b []byte, shards int) (*placement, error) {
	p := new(placement)
	if err := json.Unmarshal(b, p); err != nil {
		return nil, err
	}
	if len(p.Owner) != shards || len(p.Wire) != shards || len(p.Memory) != shards || p.Ranks < 1 {
		return nil, fmt.Errorf("%d owners, %d and %d loads of %d shards on %d ranks", len(p.Owner), len(p.Wire), len(p.Memory), shards, p.Ranks)
	}
	for shard, r := range p.Owner {
		if r < 0 || int(r) >= p.Ranks {
			return nil, fmt.Errorf("shard %d belongs to rank %d of %d", shard, r, p.Ranks)
		}
		if p.Wire[shard] < 0 || p.Memory[shard] < 0 {
			return nil, fmt.Errorf("shard %d has a negative load", shard)
		}
	}
	return p, nil
}

// measured is the memory of the loads of shards, for the life of the job: what a cut
// finds anew may have to be touched for the first time, or begin a round of the
// collector, while a step waits.
type measured struct {
	own          []sparse.ShardLoad
	sums         []int64 // two by shard, and keys
	wire, memory []int64 // by shard, of the checkpoint under way
}

func (m *measured) resize(shards int) {
	if len(m.wire) != shards {
		m.sums, m.wire, m.memory = make([]int64, 2*shards+1), make([]int64, shards), make([]int64, shards)
	}
	clear(m.sums)
}

// maxPlan bounds what rank 0 tells the others of a plan.
const maxPlan = 1 << 30

// plan foresees the training on rank 0, tells all ranks, and says what was chosen.
func (j *job) plan(ctx context.Context, from *checkpoint.Checkpoint) error {
	var b []byte
	if j.comm.Rank() == 0 {
		j.rec.Enter(trace.Plan)
		g, err := j.given(from, j.comm.Size(), j.comm.Size() > 1 && !step.WorksAhead(j.comm))
		if err != nil {
			return err
		}
		g.Step = func() { j.advance(1) }
		p, err := plan.Foresee(ctx, j.config, j.encoder, j.train, j.comm.Size(), g)
		if err != nil {
			return err
		}
		if b, err = json.Marshal(p); err != nil {
			return err
		}
	}
	j.rec.Enter(trace.Wait)
	b, err := collective.BroadcastBytes(j.comm, b, 0, maxPlan)
	if err != nil {
		return err
	}
	j.planned = new(plan.Plan)
	if err := json.Unmarshal(b, j.planned); err != nil {
		return fmt.Errorf("wdl: plan of rank 0: %w", err)
	}
	if line := j.planned.Exchange(); line != "" && j.comm.Size() > 1 {
		j.say(line)
	}
	return nil
}

// denseNeeds plans the dense part of a filled configuration, before any record is read.
func denseNeeds(c *config.Config, ranks int) (plan.Dense, error) {
	columns, inputs, err := encode.Outputs(schemaOf(c).Fill())
	if err != nil {
		return plan.Dense{}, err
	}
	size, err := step.DenseSize(c, layout.New(c, columns, inputs))
	return plan.NewDense(size, c.Train.Threads, ranks), err
}

// given is what a plan for so many ranks cannot choose. shared says that they share
// memory, so that nothing travels by links.
func (j *job) given(from *checkpoint.Checkpoint, ranks int, shared bool) (g plan.Given, err error) {
	if g.Dense, err = denseNeeds(j.config, ranks); err != nil {
		return g, err
	}
	g.Backup, g.Copies = j.opt.Tolerance.Backup, j.opt.Replicas > 1
	switch {
	case j.train == nil:
		g.Even = "of a stream there is no sample before it begins"
	case j.config.Train.Slots > 0:
		g.Even = "rows are what is summed in the order of slots"
	case shared:
		g.Even = plan.InPlace
	case j.opt.Replicas > 1:
		g.Owned = "rows of every rank have no second rank to keep a copy"
	case !j.opt.Tolerance.Off():
		g.Owned = "gradients of rows of every rank are not told apart by microbatch, as slow ranks need it"
	}
	if from == nil {
		return g, nil
	}
	was, err := placed(from, layout.Shards)
	if was == nil || err != nil {
		return g, err
	}
	if g.Owner = was.owners(ranks, j.enough); was.Ranks == ranks {
		g.Strategies = was.Strategies
	}
	return g, nil
}

// placement is what a checkpoint keeps, and the owners that shards should have from
// there on, nil if they may stay; every rank calls it.
func (j *job) placement() (p placement, owner []int32, err error) {
	s, m := j.trainer.Store(), &j.measured
	m.own = s.Loads(m.own)
	own := m.own
	m.resize(len(own))
	sums := m.sums
	for i, load := range own {
		sums[2*i], sums[2*i+1] = load.WireBytes, load.MemoryBytes
		sums[2*len(own)] += load.Keys
	}
	if err := j.meet(func() error { return collective.AllReduce(j.comm, sums, collective.Sum) }); err != nil {
		return p, nil, err
	}
	p = placement{
		Ranks: j.comm.Size(), Owner: s.Owner(), Keys: sums[2*len(own)],
		Wire: m.wire, Memory: m.memory, Strategies: j.planned.Strategies(),
	}
	for i := range own {
		p.Wire[i], p.Memory[i] = sums[2*i], sums[2*i+1]
	}
	if owner = p.owners(p.Ranks, j.enough); slices.Equal(owner, p.Owner) {
		owner = nil
	}
	return p, owner, nil
}

// move gives shards to other owners at a checkpoint that is due for it: they read it
// as soon as it is written. A job that goes on from it gives them to the same.
func (j *job) move() error {
	p := j.pending
	if p == nil || p.owner == nil || j.done() {
		return nil
	}
	owner := p.owner
	if err := j.settle(); err != nil || j.lastSaved != p.step {
		return err // what could not be written stays where it is
	}
	was, moved := j.trainer.Store().Owner(), 0
	for i, r := range owner {
		if was[i] != r {
			moved++
		}
	}
	j.rec.Enter(trace.Restore)
	trains := j.trains
	j.trains = false // a group that is lost before copies are whole again goes back to this checkpoint
	c, err := checkpoint.Open(checkpoint.Dir(p.root, p.step))
	if err == nil {
		c.Watch(j.advance)
		err = j.trainer.Load(c, owner)
	}
	if err != nil {
		return fmt.Errorf("wdl: step %d: shards change hands: %w", p.step, err)
	}
	j.planned.Owner, j.trains = owner, trains
	j.moved += int64(moved)
	j.say(fmt.Sprintf("after step %d %d of %d shards go to other ranks, as one was asked for more than %.0f %% above the mean", p.step, moved, layout.Shards, 100*(plan.Tolerated-1)))
	return nil
}
