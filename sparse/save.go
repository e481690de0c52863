package sparse

import (
	"fmt"
	"io"
	"strconv"

	"github.com/wdlrun/wdlrun/sparse/table"
)

// Section is the rows of one table in one shard.
type Section struct {
	Name         string // SectionName of the two
	Table, Shard int
	Rows         int // of the shard
}

// SectionName is the name under which a checkpoint keeps a table's shard.
func SectionName(table string, shard int) string { return shardName("sparse/", table, shard) }

// Files writes this rank's shards and reads them, and keeps cold rows on disk.
type Files struct{ store *Store }

// Files returns what writes and reads the shards.
func (s *Store) Files() *Files { return &s.files }

// Sections lists this rank's shards that hold rows, by table and shard, to be saved
// while no step is taken; a [Snapshot] saves during steps, and sightings too. A
// checkpoint without a section means a shard without rows.
func (x *Files) Sections() (all []Section) {
	s := x.store
	s.pipeline.wait()
	for i, t := range s.tables {
		for shard := range t.Shards() {
			if n := t.ShardRows(shard); n > 0 && int(s.shards.owner[shard]) == s.rank {
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
func (x *Files) SaveShard(w io.Writer, table, shard int) error {
	s := x.store
	err := x.checkPlace(table, shard)
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
func (x *Files) LoadShard(r io.Reader, table, shard int) error {
	s := x.store
	err := x.checkPlace(table, shard)
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
func (x *Files) LoadSeen(r io.Reader, table, shard int) error {
	s := x.store
	err := x.checkPlace(table, shard)
	if err == nil {
		err = s.tables[table].LoadSeen(r, shard)
	}
	if err != nil {
		return fmt.Errorf("sparse: load: rank %d of %d: %w", s.rank, s.size, err)
	}
	return nil
}

// checkPlace returns why this rank cannot save or load a table's shard.
func (x *Files) checkPlace(table, shard int) error {
	s := x.store
	s.pipeline.wait()
	if table < 0 || table >= len(s.tables) {
		return fmt.Errorf("table %d: there are %d", table, len(s.tables))
	}
	if shard < 0 || shard >= len(s.shards.owner) {
		return fmt.Errorf("table %q: shard %d: there are %d shards", s.name(table), shard, len(s.shards.owner))
	}
	if owner := int(s.shards.owner[shard]); owner != s.rank {
		return fmt.Errorf("table %q: shard %d: rank %d owns it", s.name(table), shard, owner)
	}
	return nil
}

// LoadDelta changes a shard of this rank by what a Snapshot has saved of it, on any
// number of ranks, and returns its last step; pass it to SetNow of the table
// when every shard is changed. What was pulled before cannot be pushed.
func (x *Files) LoadDelta(r io.Reader, table, shard int) (now int64, err error) {
	s := x.store
	if err = x.checkPlace(table, shard); err == nil {
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
func (x *Files) SetNow(table int, step int64) {
	s := x.store
	s.pipeline.wait()
	s.tables[table].SetNow(step)
}

// Past returns the steps that rows will take when they appear, to be saved with a
// checkpoint and loaded after Reset; nil if no table has a DenseL2 part. It is the same on
// every rank.
func (x *Files) Past() *table.Past {
	if !x.store.decays {
		return nil
	}
	return &x.store.past
}

// Forget lets go of the keys that were given up until a step: no delta will be
// asked from before it.
func (x *Files) Forget(step int64) {
	s := x.store
	s.pipeline.wait()
	for _, t := range s.tables {
		t.Forget(step)
	}
	for _, t := range s.replica.tables {
		t.Forget(step)
	}
}

// OpenTier bounds the memory of the rows of a table on this rank; rows that were
// not used for long go to files in dir.
func (x *Files) OpenTier(table int, dir string, memory int64) error {
	s := x.store
	s.pipeline.wait()
	if err := s.tables[table].OpenTier(dir, memory); err != nil {
		return fmt.Errorf("sparse: tier: rank %d of %d: %w", s.rank, s.size, err)
	}
	return nil
}

// Crowded returns 0, or the memory limit that the tier of a table on this rank should have
// had at least: what of the index leaves no room for rows is never on disk. It may be
// called at any time.
func (x *Files) Crowded(table int) int64 { return x.store.tables[table].Crowded() }
