package sparse

import (
	"errors"
	"fmt"
	"slices"
)

// loadEvery is which Pulls are measured for the loads of shards: counting every
// key of every batch would cost a tenth of the lookup.
const loadEvery = 8

// measure counts what the ranks ask for, if it is this Pull's turn.
func (l *Lookup) measure() {
	if !l.insert || l.number%loadEvery != 0 {
		return
	}
	s := l.store
	s.hot.pulls++
	for r := range s.size {
		for t, x := range s.tables {
			keys, _ := l.section(r, t)
			if s.cfg.HotKeys > 0 {
				s.hot.popular[t].add(keys)
			}
			bytes := int64(8 + (s.wire[t].Rows.Bytes()+s.wire[t].Gradients.Bytes())*x.Width())
			for _, key := range keys {
				load := &s.loads[x.ShardOf(key)]
				load.Keys += loadEvery
				load.WireBytes += loadEvery * bytes
			}
		}
		for home := range s.size {
			s.eachHot(l.heard(r), home, func(t, i int) {
				key := s.hot.sets[t].Keys()[i : i+1]
				if int(s.owner[s.tables[t].ShardOf(key[0])]) == s.rank {
					s.hot.popular[t].add(key)
				}
			})
		}
	}
}

// Owner returns the rank that owns each shard.
func (s *Store) Owner() []int32 { return slices.Clone(s.owner) }

// Place makes owner[shard] the owner of each shard: that of a [Plan], or of a
// checkpoint. The store must be empty, see Reset; every rank gives the same.
func (s *Store) Place(owner []int32) error {
	fault := func(err error) error { return fmt.Errorf("sparse: place: rank %d of %d: %w", s.rank, s.size, err) }
	if len(owner) != len(s.owner) {
		return fault(fmt.Errorf("owners of %d shards, there are %d", len(owner), len(s.owner)))
	}
	for shard, r := range owner {
		if r < 0 || int(r) >= s.size {
			return fault(fmt.Errorf("shard %d is given to rank %d", shard, r))
		}
	}
	s.settle()
	if s.waiting != nil {
		return fault(errors.New("a batch is prepared: Complete it first"))
	}
	for t, x := range s.tables {
		if n := x.Rows(); n != 0 {
			return fault(fmt.Errorf("table %q holds %d rows: Reset the store and load its shards where they belong", s.name(t), n))
		}
	}
	copy(s.owner, owner) // the sets of Lookups read it, too
	s.print = s.fingerprint()
	s.generation++
	return nil
}

// Loads returns what each shard costs: what it holds now if it is this rank's, and
// what was asked of it since Open or the last Loads with reset, counted in every
// eighth training Pull and multiplied.
func (s *Store) Loads(reset bool) []ShardLoad {
	s.settle()
	loads := slices.Clone(s.loads)
	for shard := range loads {
		load := &loads[shard]
		for _, x := range s.tables {
			if int(s.owner[shard]) != s.rank {
				break // what it has there are guests
			}
			n := int64(x.ShardRows(shard))
			load.Rows += n
			if x.Rows() > 0 {
				load.MemoryBytes += x.Bytes() * n / int64(x.Rows())
			}
		}
	}
	if reset {
		clear(s.loads)
	}
	return loads
}

// Plan proposes owners by the loads that all ranks have measured, see [Place];
// every rank calls it and gets the same. It changes nothing: at the next
// checkpoint, Reset the store, Place the owners and load the shards.
func (s *Store) Plan() (Plan, error) {
	const words = 4
	own := s.Loads(false)
	n := words * len(own)
	send, recv := make([]int64, n*s.size), make([]int64, n*s.size)
	for i, load := range own {
		copy(send[words*i:], []int64{load.Rows, load.MemoryBytes, load.Keys, load.WireBytes})
	}
	for r := 1; r < s.size; r++ {
		copy(send[r*n:], send[:n])
	}
	if err := s.ex.AllToAll(send, recv); err != nil {
		return Plan{}, fmt.Errorf("sparse: plan: rank %d of %d: exchange of loads: %w", s.rank, s.size, err)
	}
	loads := make([]ShardLoad, len(own))
	for i := range recv {
		load, x := &loads[i%n/words], max(recv[i], 0)
		switch i % words {
		case 0:
			load.Rows += x
		case 1:
			load.MemoryBytes += x
		case 2:
			load.Keys += x
		case 3:
			load.WireBytes += x
		}
	}
	return Place(loads, s.owner, s.size), nil
}

// Measured is what this rank has carried as an owner since Open, in the terms of
// a Plan: keys received, rows sent and gradients received.
func (s *Store) Measured() RankLoad {
	c := s.Counters()
	return RankLoad{Shards: len(s.Owned()), ShardLoad: ShardLoad{
		Rows: c.RowsHeld, MemoryBytes: c.MemoryBytes,
		Keys: c.KeyBytesReceived / 8, WireBytes: c.KeyBytesReceived + c.RowBytesSent + c.GradBytesReceived,
	}}
}
