package table

import (
	"errors"
	"fmt"
)

// Table is one rank's share of one table. It has layers, each of which uses only those
// below it:
//
//	Table      files and snapshots
//	steps      reading rows, and the optimizer steps of their gradients
//	tiered     rows found and inserted, cold ones moved to disk and back
//	eviction   rows removed
//	admission  which keys get a row
//	observed   a snapshot and a watch, which are informed before and after rows change
//	memory     rows and their keys
//	shape      layout of a row
type Table struct {
	steps
	file    file    // file being written
	list    []entry // its entries
	other   []entry // memory to sort them
	touched float32 // keeps what touch has read
	desc    []byte  // the description of a shard, encoded
	spare   *kept   // memory of the previous snapshot, if it is small
}

// Open makes an empty table with a key space of shards shards, a power of two. seed
// determines the initial rows.
func Open(cfg Config, seed uint64, shards int) (*Table, error) {
	faults := cfg.Validate()
	if shards < 1 || shards > MaxShards || shards&(shards-1) != 0 {
		faults = append(faults, fmt.Errorf("%d shards: give a power of two of at most %d", shards, MaxShards))
	}
	if len(faults) != 0 {
		return nil, fmt.Errorf("table: open %q: %w", cfg.Name, errors.Join(faults...))
	}
	cfg = cfg.Default()
	t := new(Table)
	t.shape = newShape(cfg, seed)
	t.steps.init()
	t.clear(shards)
	return t, nil
}

// clear reinitialises everything that grows.
func (t *Table) clear(shards int) {
	t.index = newIndex(t.salt, shards)
	t.records = newSlabs(4 * t.words())
	t.notes = newNotes(&t.records)
	t.used, t.free, t.seen = 0, nil, nil
	t.deferred = deferred{off: !canDefer(t.parts)}
	t.removed = removals{}
	t.sketches = nil
	if t.cfg.Admit.After > 1 {
		t.sketches = make([]sketch, shards)
	}
}

// Bytes returns the memory of the table, in bytes.
func (t *Table) Bytes() int64 {
	n := t.indexBytes() + int64(t.used)*t.rowBytes() + 8*int64(cap(t.seen)) + 4*int64(cap(t.free)) + t.removed.bytes()
	for i := range t.sketches {
		n += int64(len(t.sketches[i].counts))
	}
	return n
}

// Reset removes every row, as if the table had just been opened, and frees the memory.
func (t *Table) Reset() error {
	t.endObservers()
	err := errors.Join(t.index.large.free(), t.records.free(), t.notes.free())
	if t.tier != nil {
		err = errors.Join(err, t.tier.reset())
	}
	t.clear(len(t.index.shards))
	t.now, t.own = 0, Past{}
	t.epoch++
	return err
}

// Close frees the memory of the table, which cannot be used afterwards.
func (t *Table) Close() error {
	t.endObservers()
	err := errors.Join(t.index.large.free(), t.records.free(), t.notes.free(), t.spare.free())
	t.spare = nil
	if t.tier != nil {
		err = errors.Join(err, t.tier.close())
	}
	return err
}

// NewWatch starts to record the changes of a table. It replaces an earlier Watch. It
// returns an error if the table has a DenseL2 part, because every step would change
// every row.
func NewWatch(t *Table) (*Watch, error) {
	if t.dense {
		return nil, fmt.Errorf("table %q: watch: a DenseL2 part changes every row in every step", t.cfg.Name)
	}
	t.watch = &Watch{t: &t.observed}
	return t.watch, nil
}
