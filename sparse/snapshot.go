package sparse

import (
	"errors"
	"fmt"
	"io"

	"github.com/wdlrun/wdlrun/sparse/table"
)

// Everything is the first step of a [Snapshot] of all rows.
const Everything = table.Everything

// Snapshot is this rank's shards as they were at one step, to be saved a shard at a
// time while steps continue: rows that a step is about to change are copied first, see
// [table.Snapshot]. It takes the turns it is given on the goroutine of the store's
// calls, so that nothing runs during a step.
type Snapshot struct {
	store  *Store
	tables []*table.Snapshot
	shards []int // that are saved
	table  int   // whose shards are next
	next   int   // of shards
}

// Snapshot begins to save what this rank owns: what has changed since a step, for a
// checkpoint that builds upon the one of that step, or Everything. Call it between
// Apply and the next Push; it takes a few microseconds a table. A store has one
// snapshot at a time: a new one takes the place of the one before, and rows that are
// loaded, or all forgotten, end it.
func (f *Files) Snapshot(since int64) *Snapshot {
	s := f.store
	s.pipeline.wait()
	x := &Snapshot{store: s, shards: s.shards.Owned()}
	for _, t := range s.tables {
		x.tables = append(x.tables, t.Snapshot(since, x.shards))
	}
	return x
}

// lookShards is how many shards a turn looks through for one with a section: a few
// microseconds.
const lookShards = 256

// Next saves what there is of at most one shard by the function section: its sightings,
// named [SeenName], and its rows, named [SectionName] if they are all, else [DeltaName],
// by table and shard, and nothing if there is nothing to save in the shards that it looks
// through; more says whether any are left to be looked through. A checkpoint without a
// section means a shard without rows, or without changes.
func (x *Snapshot) Next(section func(name string, write func(io.Writer) error) error) (more bool, err error) {
	s, saved := x.store, false
	s.pipeline.wait()
	save := func(of table.Content, write func(io.Writer) error) error {
		saved = true
		name := [...]func(table string, shard int) string{table.Rows: SectionName, table.Changes: DeltaName, table.Sightings: SeenName}[of]
		return section(name(s.name(x.table), x.shards[x.next-1]), write)
	}
	for range lookShards {
		if x.next == len(x.shards) {
			x.table, x.next = x.table+1, 0
		}
		if x.table >= len(x.tables) || len(x.shards) == 0 {
			return false, nil
		}
		x.next++
		if err := x.tables[x.table].Save(x.shards[x.next-1], save); err != nil {
			return false, fmt.Errorf("sparse: save: rank %d of %d: %w", s.rank, s.size, err)
		}
		if saved {
			break
		}
	}
	return true, nil
}

// Close ends the snapshot: steps cost again what they do without one.
func (x *Snapshot) Close() error {
	var errs []error
	for _, t := range x.tables {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}
