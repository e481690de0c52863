package save

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/sparse"
)

// Placement is the part of a checkpoint's manifest about the owners of rows. The next job
// on the same number of ranks starts with these owners. A job on another number of ranks
// places shards by the loads.
type Placement struct {
	Ranks      int                        `json:"ranks"`
	Owner      []int32                    `json:"owner"`        // rank by shard
	Keys       int64                      `json:"keys"`         // keys requested since the job began, as far as measured
	Wire       []int64                    `json:"wire_bytes"`   // measured by shard
	Memory     []int64                    `json:"memory_bytes"` // measured by shard
	Strategies map[string]sparse.Strategy `json:"strategies"`   // by table
}

// metaPlacement is the key of a Placement in the manifest.
const metaPlacement = "placement"

// EnoughKeys is the mean number of keys requested per shard before shards move according to
// measured loads. One batch in eight is counted, so the load of a shard is then known to
// about one eighth.
const EnoughKeys = 8 * 64

// Loads returns the measured load of each shard.
func (p *Placement) Loads() []sparse.ShardLoad {
	loads := make([]sparse.ShardLoad, len(p.Wire))
	for i := range loads {
		loads[i] = sparse.ShardLoad{WireBytes: p.Wire[i], MemoryBytes: p.Memory[i]}
	}
	return loads
}

// Owners returns the owners for a job on the given number of ranks; nil: the owners in its plan.
// Measured loads are used only if at least enough keys per shard were requested.
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

// Placed returns the placement of a checkpoint; nil if it has none, as those of earlier
// versions.
func Placed(c *checkpoint.Checkpoint, shards int) (*Placement, error) {
	b, ok := c.Manifest().Meta[metaPlacement]
	if !ok {
		return nil, nil
	}
	p, err := readPlacement(b, shards)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: placement: %w", c.Dir(), err)
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

// loads holds the buffers for the loads of shards for the whole job. Allocating them at a
// checkpoint would touch new memory or start a garbage collection while a step waits.
type loads struct {
	own          []sparse.ShardLoad
	sums         []int64 // two per shard, and the number of keys
	wire, memory []int64 // by shard, for the checkpoint being written
}

func (m *loads) resize(shards int) {
	if len(m.wire) != shards {
		m.sums, m.wire, m.memory = make([]int64, 2*shards+1), make([]int64, shards), make([]int64, shards)
	}
	clear(m.sums)
}

// placement returns the placement for a checkpoint. owner holds the new owners of shards
// after it; nil: unchanged. Every rank calls it.
func (s *Saver) placement() (p Placement, owner []int32, err error) {
	store, m := s.Trainer.Store(), &s.loads
	m.own = store.Shards().Loads(m.own)
	m.resize(len(m.own))
	own, sums := m.own, m.sums
	for i, load := range own {
		sums[2*i], sums[2*i+1] = load.WireBytes, load.MemoryBytes
		sums[2*len(own)] += load.Keys
	}
	if err := s.callWithinDelay(func() error { return collective.AllReduce(s.Comm, sums, collective.Sum) }); err != nil {
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
