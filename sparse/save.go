package sparse

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/wdlrun/wdlrun/sparse/table"
)

// Section is the rows of one table in one shard.
type Section struct {
	Name         string // result of SectionName
	Table, Shard int
	Rows         int // number of rows in the shard
}

// SectionName returns the name of the checkpoint section with the rows of a shard.
func SectionName(table string, shard int) string { return shardName("sparse/", table, shard) }

// Files returns the calls that save and load shards.
func (s *Store) Files() *Files { return &s.files }

// Sections lists this rank's shards that hold rows, by table and shard, for saving
// between steps. A Snapshot saves concurrently with steps, and also saves occurrence
// counts. A shard without rows has no section.
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

// DeltaName returns the name of the checkpoint section with the changes of a shard.
func DeltaName(table string, shard int) string { return shardName("delta/", table, shard) }

// shardName returns the name of a shard's section, with at least five digits for its
// number.
func shardName(of, table string, shard int) string {
	var digits [20]byte
	n := strconv.AppendInt(digits[:0], int64(shard), 10)
	return of + table + "/" + "00000"[min(len(n), 5):] + string(n)
}

// SaveShard writes the rows of a table in one shard of this rank, with their state, in the
// format of package table. Staged gradients are not saved: call it between Apply and the
// next Push.
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

// LoadShard reads the output of SaveShard, on any number of ranks, into a shard of this
// rank. The shard must be empty (see Reset). LoadShard reads no byte past the end of the
// data. If it returns an error the shard is empty.
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

// SeenName returns the name of the checkpoint section with the occurrence counts of
// keys that have no row in a shard.
func SeenName(table string, shard int) string { return shardName("seen/", table, shard) }

// LoadSeen reads the occurrence counts that a Snapshot saved, on any number of ranks. They
// replace the counts of a shard of this rank. LoadSeen skips them if the table has a
// different number of counters or admits every key.
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

// checkPlace returns an error if this rank cannot save or load a table's shard.
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

// LoadDelta applies the changes that a Snapshot saved, on any number of ranks, to a
// shard of this rank, and returns the last step they contain. Pass it to SetNow once
// all shards of the table are loaded. Batches pulled before cannot be pushed.
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

// Convert makes LoadShard and LoadDelta change each record of a table, which is its V values and S of state, with
// f; nil ends it.
func (x *Files) Convert(table int, f func(record []float32)) { x.store.tables[table].Convert(f) }

// Put inserts or changes the row of a key on the rank that owns it; other ranks ignore the call. fill
// gets its record: of a key without a row, V initial values and S zeros of state, which it completes.
// Call it before the first step.
func (x *Files) Put(table int, key uint64, fill func(record []float32, held bool)) error {
	s := x.store
	t := s.tables[table]
	if int(s.shards.owner[t.ShardOf(key)]) != s.rank {
		return nil
	}
	if n := t.RecordLen(); cap(x.record) < n {
		x.record = make([]float32, n)
	}
	rec := x.record[:t.RecordLen()]
	held, err := t.Get(key, rec)
	if !held {
		clear(rec)
		t.Initial(key, rec[:t.Width()])
	}
	fill(rec, held)
	if err = errors.Join(err, t.Put(key, rec)); err != nil {
		return fmt.Errorf("sparse: put: rank %d of %d: %w", s.rank, s.size, err)
	}
	return nil
}

// SetNow sets the step to which the loaded shards and deltas of a table belong. Call it for
// each table, on every rank, after loading.
func (x *Files) SetNow(table int, step int64) {
	s := x.store
	s.pipeline.wait()
	s.tables[table].SetNow(step)
}

// Past returns the steps that a new row takes when it is inserted. Save it with a
// checkpoint and load it after Reset. It is nil if no table has a DenseL2 part, and the
// same on every rank.
func (x *Files) Past() *table.Past {
	if !x.store.decays {
		return nil
	}
	return &x.store.past
}

// Forget drops the list of keys evicted up to a step. Later deltas must start at that step
// or later.
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

// Retire removes the rows of this rank, of the tables with Evict.Retires, whose last gradient was at
// a step or before it, and returns their number. Call it on every rank after loading.
func (x *Files) Retire(step int64) (n int) {
	for i, t := range x.store.tables {
		if x.store.cfg.Tables[i].Evict.Retires {
			n += t.Retire(step)
		}
	}
	return n
}

// Freeze keeps the values of a part of a table as they are in the steps up to the given one, also in
// copies. Call it on every rank, after Start.
func (x *Files) Freeze(table, part int, until int64) {
	x.store.tables[table].Freeze(part, until)
	if copies := x.store.replica.tables; copies != nil {
		copies[table].Freeze(part, until)
	}
}

// OpenTier limits the memory of the rows of a table on this rank, in bytes. Rows that have
// not been used for a long time move to files in dir.
func (x *Files) OpenTier(table int, dir string, memory int64) error {
	s := x.store
	s.pipeline.wait()
	if err := s.tables[table].OpenTier(dir, memory); err != nil {
		return fmt.Errorf("sparse: tier: rank %d of %d: %w", s.rank, s.size, err)
	}
	return nil
}

// MinMemory returns the least memory limit of a table's tier on this rank if its index leaves
// no memory for rows, and 0 otherwise. The index is never on disk. MinMemory may be called at
// any time.
func (x *Files) MinMemory(table int) int64 { return x.store.tables[table].MinMemory() }
