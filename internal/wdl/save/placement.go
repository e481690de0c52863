package save

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/wdl/plan"
	"github.com/wdlrun/wdlrun/sparse"
)

// Placement is what a checkpoint's manifest says of where rows were: by whom the
// next job on as many ranks finds them owned, and what any other number of ranks
// shares out by.
type Placement struct {
	Ranks      int                        `json:"ranks"`
	Owner      []int32                    `json:"owner"`        // rank by shard
	Keys       int64                      `json:"keys"`         // that were asked for since the job began, as far as measured
	Wire       []int64                    `json:"wire_bytes"`   // measured by shard
	Memory     []int64                    `json:"memory_bytes"` // measured by shard
	Strategies map[string]sparse.Strategy `json:"strategies"`   // by table
}

// metaPlacement is its name in the manifest.
const metaPlacement = "placement"

// EnoughKeys is how many keys a shard must have been asked for on average before
// shards move by it. One batch of eight is counted, so that the load of a shard is
// then known to about an eighth.
const EnoughKeys = 8 * 64

// Loads are the measured ones.
func (p *Placement) Loads() []sparse.ShardLoad {
	loads := make([]sparse.ShardLoad, len(p.Wire))
	for i := range loads {
		loads[i] = sparse.ShardLoad{WireBytes: p.Wire[i], MemoryBytes: p.Memory[i]}
	}
	return loads
}

// Owners are those of a job on so many ranks, nil to go by its plan. Measured loads
// count if there are enough keys behind them.
func (p *Placement) Owners(ranks int, enough int64) []int32 {
	measured := p.Keys >= enough*int64(len(p.Owner))
	switch {
	case p.Ranks == ranks && measured:
		return plan.Balanced(p.Loads(), p.Owner, ranks)
	case p.Ranks == ranks:
		return p.Owner
	case measured:
		return plan.Balanced(p.Loads(), nil, ranks)
	}
	return nil
}

// Placed reads the placement of a checkpoint, nil if it has none: it is of an
// earlier version.
func Placed(c *checkpoint.Checkpoint, shards int) (*Placement, error) {
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

func readPlacement(b []byte, shards int) (*Placement, error) {
	p := new(Placement)
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

// loads is the memory of the loads of shards, for the life of the job: what a cut
// finds again may have to be touched for the first time, or begin a round of the
// collector, while a step waits.
type loads struct {
	own          []sparse.ShardLoad
	sums         []int64 // two by shard, and keys
	wire, memory []int64 // by shard, of the checkpoint under way
}

func (m *loads) resize(shards int) {
	if len(m.wire) != shards {
		m.sums, m.wire, m.memory = make([]int64, 2*shards+1), make([]int64, shards), make([]int64, shards)
	}
	clear(m.sums)
}

// placement is what a checkpoint keeps, and the owners that shards should have from
// there on, nil if they may stay; every rank calls it.
func (s *Saver) placement() (p Placement, owner []int32, err error) {
	store, m := s.Trainer.Store(), &s.loads
	m.own = store.Shards().Loads(m.own)
	m.resize(len(m.own))
	own, sums := m.own, m.sums
	for i, load := range own {
		sums[2*i], sums[2*i+1] = load.WireBytes, load.MemoryBytes
		sums[2*len(own)] += load.Keys
	}
	if err := s.meet(func() error { return collective.AllReduce(s.Comm, sums, collective.Sum) }); err != nil {
		return p, nil, err
	}
	p = Placement{Ranks: s.Comm.Size(), Owner: store.Shards().Owner(), Keys: sums[2*len(own)], Wire: m.wire, Memory: m.memory, Strategies: s.Strategies}
	for i := range own {
		p.Wire[i], p.Memory[i] = sums[2*i], sums[2*i+1]
	}
	if owner = p.Owners(p.Ranks, s.Enough); slices.Equal(owner, p.Owner) {
		owner = nil
	}
	return p, owner, nil
}
