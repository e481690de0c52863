package sparse

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// Shards returns the assignment of shards to ranks.
func (s *Store) Shards() *Shards { return &s.shards }

// init assigns equal consecutive ranges of shards to the ranks.
func (x *Shards) init(shards, tables int) {
	x.owner, x.loads, x.carried = make([]int32, shards), make([]ShardLoad, shards), make([]int64, tables)
	for i := range x.owner {
		x.owner[i] = int32(OwnerOf(i, shards, x.store.size))
	}
}

// Owner returns the rank that owns each shard.
func (x *Shards) Owner() []int32 { return slices.Clone(x.owner) }

// Owned returns the shards of this rank, ascending.
func (x *Shards) Owned() []int {
	shards := make([]int, 0, len(x.owner))
	for i, r := range x.owner {
		if int(r) == x.store.rank {
			shards = append(shards, i)
		}
	}
	return shards
}

// Place makes owner[shard] the owner of each shard: an owner list of a Plan or a
// checkpoint. The store must be empty (see Reset). Every rank passes the same list.
func (x *Shards) Place(owner []int32) error {
	s := x.store
	fault := func(err error) error { return fmt.Errorf("sparse: place: rank %d of %d: %w", s.rank, s.size, err) }
	if len(owner) != len(x.owner) {
		return fault(fmt.Errorf("owners of %d shards, there are %d", len(owner), len(x.owner)))
	}
	for shard, r := range owner {
		if r < 0 || int(r) >= s.size {
			return fault(fmt.Errorf("shard %d is given to rank %d", shard, r))
		}
	}
	s.pipeline.wait()
	if s.pipeline.waiting != nil {
		return fault(errors.New("a batch is prepared: Complete it first"))
	}
	for i, t := range s.tables {
		if n := t.Rows(); n != 0 {
			return fault(fmt.Errorf("table %q holds %d rows: Reset the store and load its shards where they belong", s.name(i), n))
		}
	}
	copy(x.owner, owner) // the sets of Lookups read it as well
	s.print = s.fingerprint()
	s.generation++
	return nil
}

// Loads returns the load of each shard as this rank measured it: the rows held now, if
// this rank owns the shard, and the keys requested from it here since Open, estimated
// from one in eight training Pulls. The sum over all ranks is the input of Place. The
// result reuses the memory of into, which may be nil.
func (x *Shards) Loads(into []ShardLoad) []ShardLoad {
	s := x.store
	s.pipeline.wait()
	loads := append(into[:0], x.loads...)
	for _, t := range s.tables {
		rows, bytes := int64(t.Rows()), t.Bytes()
		for shard := range loads {
			n := int64(t.ShardRows(shard))
			if n == 0 {
				continue
			}
			loads[shard].Rows += n
			loads[shard].MemoryBytes += bytes * n / rows
		}
	}
	return loads
}

// fingerprint returns a hash of the configuration and the owners.
func (s *Store) fingerprint() uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, s.cfg.fingerprint())
	h.Write(raw.Bytes(s.shards.owner))
	return h.Sum64()
}
