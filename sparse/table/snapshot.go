package table

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// Snapshot is a table as it was at one step, saved shard by shard while training
// continues (copy-on-write by row). The first change of a row in a shard that is not
// yet saved copies its record. This costs a lookup for each key of a step and at most
// one copy of each record. A table with a DenseL2 part is copied whole by the next
// step, because each step changes every row. A Snapshot belongs to the goroutine of its
// table.
type Snapshot struct {
	view
	since int64
	gone  []uint64 // keys removed between since and the snapshot, until the first Save
	whole bool     // shards are saved whole
	err   error    // why it has ended, once it is closed
}

// Snapshot starts to save the given shards as they are now: the changes since a step,
// or Everything. It saves a shard whole if too many rows were removed since to list
// them, or if every row has changed. A table has one snapshot at a time: a new one
// replaces it.
func (t *Table) Snapshot(since int64, shards []int) *Snapshot {
	if t.saving != nil {
		t.saving.end(errors.New("another snapshot was begun"))
	}
	t.catchUpAll()
	k := t.spare
	if t.spare = nil; k == nil {
		k = &kept{t: &t.memory, set: NewSet(t.salt, nil, 1), last: make([]int32, t.Shards()), pending: make([]bool, t.Shards()), items: newSlabs(4 * (t.words() + 2))}
	}
	for _, shard := range shards {
		k.pending[shard] = true
	}
	s := &Snapshot{view: view{t, t.now, k}, since: since, whole: since == Everything}
	if !s.whole {
		gone, all := t.removed.since(since)
		s.gone, s.whole = gone, !all
	}
	t.saving = k
	t.buffer()
	return s
}

// Content is a kind of data that a Snapshot saves for a shard.
type Content int

const (
	Rows      Content = iota // all rows, in the format of [Table.SaveShard]
	Changes                  // changed rows, for [Table.LoadDelta]
	Sightings                // occurrences of keys without a row, in the format of [Table.SaveSeen]
)

// Save saves a shard by calls of section: for its occurrence counts, if it has any, and
// for its rows, if there are any to save. section receives the kind of content and a
// function that writes it. Afterwards the snapshot keeps nothing of the shard.
func (s *Snapshot) Save(shard int, section func(of Content, write func(io.Writer) error) error) error {
	if err := s.ended(); err != nil {
		return fmt.Errorf("table %q: shard %d: %w", s.t.cfg.Name, shard, err)
	}
	defer func() { s.kept.pending[shard] = false }()
	if err := s.saveSeen(shard, section); err != nil {
		return err
	}
	s.sortGone()
	given := s.kept.givenUp(shard)
	replaces := s.whole && s.since != Everything // an emptied shard must be saved as well
	if !s.kept.pending[shard] || !replaces && s.t.ShardRows(shard) == 0 && s.kept.last[shard] == 0 && len(given) == 0 {
		return nil
	}
	since := s.since
	if s.whole {
		since = Everything
	}
	all, rows := s.entries(shard, since, given)
	if len(all) == 0 && !replaces {
		return nil
	}
	whole := s.whole
	if changed := len(all) - countGone(all); !whole && changed == rows && rows > 0 {
		whole, all = true, slices.DeleteFunc(all, entry.isGone)
	}
	of := Changes
	if whole {
		of = Rows
	}
	return section(of, func(w io.Writer) error {
		if whole {
			return s.saveShard(w, shard, all)
		}
		return s.saveDelta(w, shard, since, all)
	})
}

// saveSeen saves the occurrence counts of a shard if they changed since the base.
func (s *Snapshot) saveSeen(shard int, section func(of Content, write func(io.Writer) error) error) error {
	if s.t.sketches == nil || !s.kept.pending[shard] {
		return nil
	}
	was, counted := s.kept.seen[shard]
	if !counted {
		was = s.t.sketches[shard]
	}
	delete(s.kept.seen, shard)
	if was.counts == nil || was.last <= s.since {
		return nil
	}
	return section(Sightings, func(w io.Writer) error { return s.t.saveSeen(w, shard, &was) })
}

// sortGone distributes the keys of gone to their shards.
func (s *Snapshot) sortGone() {
	if len(s.gone) == 0 {
		return
	}
	if s.kept.given == nil {
		s.kept.given = make([][]uint64, s.t.Shards())
	}
	for _, key := range s.gone {
		shard := s.t.ShardOf(key)
		s.kept.given[shard] = append(s.kept.given[shard], key)
	}
	s.kept.gave, s.gone = len(s.gone), nil
}

// Close ends the snapshot and frees its copies. It keeps a small amount of memory for
// the next snapshot, because fresh memory costs a step more than the copies do.
func (s *Snapshot) Close() error {
	k := s.kept
	if k == nil {
		return nil
	}
	k.end(errors.New("the snapshot is closed"))
	s.kept, s.err = nil, k.err
	if s.t.saving == k {
		s.t.saving = nil
	}
	if s.t.spare != nil || k.bytes() > spareBytes {
		return k.free()
	}
	k.reset()
	s.t.spare = k
	return nil
}

// ended returns why the rest of the snapshot cannot be saved, or nil.
func (s *Snapshot) ended() error {
	if s.kept != nil {
		return s.kept.err
	}
	return s.err
}
