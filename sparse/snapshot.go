package sparse

import (
	"errors"
	"fmt"
	"io"

	"github.com/wdlrun/wdlrun/sparse/table"
)

// Everything is the step since which a [Snapshot] of all rows tells what changed.
const Everything = table.Everything

// Snapshot is this rank's shards as they were at one step, to be saved a shard at a
// time while steps go on: rows that a step is about to change are copied first, see
// [table.Snapshot]. It takes the turns it is given on the goroutine of the store's
// calls, so that nothing runs beside a step.
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
func (s *Store) Snapshot(since int64) *Snapshot {
	s.settle()
	x := &Snapshot{store: s, shards: s.Owned()}
	for _, t := range s.tables {
		x.tables = append(x.tables, t.Snapshot(since, x.shards))
	}
	return x
}

// Next saves what there is of one shard by the function section: its sightings, named
// [SeenName], and its rows, named [SectionName] if they are all, else [DeltaName], by
// table and shard; more says whether there was one left. A checkpoint without a section
// stands for a shard without rows, or without changes.
func (x *Snapshot) Next(section func(name string, write func(io.Writer) error) error) (more bool, err error) {
	s := x.store
	s.settle()
	for ; x.table < len(x.tables); x.table, x.next = x.table+1, 0 {
		for x.next < len(x.shards) {
			shard := x.shards[x.next]
			x.next++
			err := x.tables[x.table].Save(shard, func(of table.Content, write func(io.Writer) error) error {
				more = true
				name := [...]func(table string, shard int) string{table.Rows: SectionName, table.Changes: DeltaName, table.Sightings: SeenName}[of]
				return section(name(s.name(x.table), shard), write)
			})
			if err != nil {
				return false, fmt.Errorf("sparse: save: rank %d of %d: %w", s.rank, s.size, err)
			}
			if more {
				return true, nil
			}
		}
	}
	return false, nil
}

// Close ends the snapshot: steps cost again what they do without one.
func (x *Snapshot) Close() error {
	var errs []error
	for _, t := range x.tables {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}
