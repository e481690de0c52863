package sparse

import (
	"fmt"
	"io"
	"strconv"
)

// Section is the rows of one table in one shard.
type Section struct {
	Name         string // SectionName of the two
	Table, Shard int
	Rows         int // of the shard
}

// SectionName is the name under which a checkpoint keeps a table's shard.
func SectionName(table string, shard int) string { return shardName("sparse/", table, shard) }

// Sections lists this rank's shards that hold rows, by table and shard, to be saved
// while no step is taken; a [Snapshot] saves during steps, and sightings too. A
// checkpoint without a section means a shard without rows.
func (s *Store) Sections() (all []Section) {
	s.settle()
	for i, t := range s.tables {
		for shard := range t.Shards() {
			if n := t.ShardRows(shard); n > 0 && int(s.owner[shard]) == s.rank {
				all = append(all, Section{SectionName(t.Config().Name, shard), i, shard, n})
			}
		}
	}
	return all
}

// DeltaName is the name under which a checkpoint keeps what changed in a table's
// shard.
func DeltaName(table string, shard int) string { return shardName("delta/", table, shard) }

// shardName names a shard's section, its number in five digits or more: there are many.
func shardName(of, table string, shard int) string {
	var digits [20]byte
	n := strconv.AppendInt(digits[:0], int64(shard), 10)
	return of + table + "/" + "00000"[min(len(n), 5):] + string(n)
}

// SaveShard writes the rows of a table in one shard of this rank, with their
// state, in the format of package table. Staged gradients are not saved: save
// between Apply and the next Push.
func (s *Store) SaveShard(w io.Writer, table, shard int) error {
	err := s.checkPlace(table, shard)
	if err == nil {
		err = s.tables[table].SaveShard(w, shard)
	}
	if err != nil {
		return fmt.Errorf("sparse: save: rank %d of %d: %w", s.rank, s.size, err)
	}
	return nil
}

// LoadShard reads what SaveShard wrote, on any number of ranks, into a shard of
// this rank that is still empty (see Reset). It reads no byte past the end. On
// an error the shard is empty again.
func (s *Store) LoadShard(r io.Reader, table, shard int) error {
	err := s.checkPlace(table, shard)
	if err == nil {
		if n := s.staged[table].set.Len(); n != 0 {
			err = fmt.Errorf("table %q: shard %d: the gradients of %d keys wait: Apply them or Reset the store first", s.name(table), shard, n)
		}
	}
	if err == nil {
		err = s.tables[table].LoadShard(r, shard)
	}
	if err != nil {
		return fmt.Errorf("sparse: load: rank %d of %d: %w", s.rank, s.size, err)
	}
	return nil
}

// SeenName is the name under which a checkpoint keeps how often keys without a row were
// seen in a table's shard.
func SeenName(table string, shard int) string { return shardName("seen/", table, shard) }

// LoadSeen reads sightings that a Snapshot saved, on any number of ranks, in place of what was
// counted in a shard of this rank. A table with another number of counters, or one that
// admits every key, counts on as it is.
func (s *Store) LoadSeen(r io.Reader, table, shard int) error {
	err := s.checkPlace(table, shard)
	if err == nil {
		err = s.tables[table].LoadSeen(r, shard)
	}
	if err != nil {
		return fmt.Errorf("sparse: load: rank %d of %d: %w", s.rank, s.size, err)
	}
	return nil
}

// checkPlace returns why this rank cannot save or load a table's shard.
func (s *Store) checkPlace(table, shard int) error {
	s.settle()
	if table < 0 || table >= len(s.tables) {
		return fmt.Errorf("table %d: there are %d", table, len(s.tables))
	}
	if shard < 0 || shard >= len(s.owner) {
		return fmt.Errorf("table %q: shard %d: there are %d shards", s.name(table), shard, len(s.owner))
	}
	if owner := int(s.owner[shard]); owner != s.rank {
		return fmt.Errorf("table %q: shard %d: rank %d owns it", s.name(table), shard, owner)
	}
	return nil
}

// LoadDelta changes a shard of this rank by what a Snapshot has saved of it, on any
// number of ranks, and returns its last step; pass it to SetNow of the table
// when every shard is changed. What was pulled before cannot be pushed.
func (s *Store) LoadDelta(r io.Reader, table, shard int) (now int64, err error) {
	if err = s.checkPlace(table, shard); err == nil {
		s.generation++
		now, err = s.tables[table].LoadDelta(r, shard)
	}
	if err != nil {
		return 0, fmt.Errorf("sparse: load: rank %d of %d: %w", s.rank, s.size, err)
	}
	return now, nil
}

// SetNow says to which step of a table the shards and deltas that were loaded
// belong.
func (s *Store) SetNow(table int, step int64) {
	s.settle()
	s.tables[table].SetNow(step)
}

// Forget lets go of the keys that were given up until a step: no delta will be
// asked from before it.
func (s *Store) Forget(step int64) {
	s.settle()
	for _, t := range s.tables {
		t.Forget(step)
	}
	for _, t := range s.replica.tables {
		t.Forget(step)
	}
}

// OpenTier bounds the memory of the rows of a table on this rank; rows that were
// not used for long go to files in dir.
func (s *Store) OpenTier(table int, dir string, memory int64) error {
	s.settle()
	if err := s.tables[table].OpenTier(dir, memory); err != nil {
		return fmt.Errorf("sparse: tier: rank %d of %d: %w", s.rank, s.size, err)
	}
	return nil
}

// Crowded returns 0, or the memory limit that the tier of a table on this rank should have
// had at least: what of the index leaves no room for rows is never on disk. It may be
// called at any time.
func (s *Store) Crowded(table int) int64 { return s.tables[table].Crowded() }
