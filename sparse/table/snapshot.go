package table

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"unsafe"
)

// Everything is the first step of a snapshot of all rows.
const Everything int64 = -1

// view is a table to be saved: as it is now, or as it was at the start of a snapshot.
type view struct {
	t    *Table
	now  int64 // step of the view
	kept *kept // nil: the current state
}

// asItIs returns the view of the current state.
func (t *Table) asItIs() view {
	t.catchUpAll()
	return view{t: t, now: t.now}
}

// kept holds rows as they were before their first change after the start of a snapshot. It
// holds them until their shards are saved.
type kept struct {
	set     *Set       // keys that were about to change
	item    []uint32   // by number in set: its record in items, 0 for a key that had no row
	before  []int32    // by number: previous value of last
	last    []int32    // by shard: number of the last kept key plus one, 0 for none
	pending []bool     // by shard: still to be saved
	all     bool       // every row of the pending shards is kept
	items   slabs      // words of a record in its memory format, stamp, score
	used    uint32     // items in use; item 0 means none
	keys    []uint64   // of a step, in pending shards
	rows    []Row      // rows of keys
	ids     []uint32   // numbers of keys
	given   [][]uint64 // by shard: keys removed since the base of the snapshot; nil if there are none
	gave    int        // number of keys in given
}

// entry is a key to save: with an unchanged row, with a kept one, or with neither if the
// key was removed.
type entry struct {
	key  uint64
	row  Row
	item uint32
}

// Snapshot is a table as it was at one step, saved shard by shard while training
// continues (copy-on-write by row). The first change of a row in a shard that is not
// yet saved copies its record. This costs a lookup for each key of a step and at most
// one copy of each record. A table with a DenseL2 part is copied whole by the next
// step, because each step changes every row. A Snapshot belongs to the goroutine of its
// table.
type Snapshot struct {
	view
	since int64
	gone  []uint64       // keys removed between since and the snapshot, until the first Save
	whole bool           // shards are saved whole
	seen  map[int]sketch // by shard: occurrence counts at the start, if steps have counted since
	err   error          // why the rest cannot be saved
}

// errChanged ends a snapshot after rows were loaded or the table was reset.
var errChanged = errors.New("rows were loaded, or all forgotten, since the snapshot was begun")

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
		k = &kept{set: NewSet(t.salt, nil, 1), last: make([]int32, t.Shards()), pending: make([]bool, t.Shards()), items: newSlabs(4 * (t.words() + 2))}
	}
	for _, shard := range shards {
		k.pending[shard] = true
	}
	s := &Snapshot{view: view{t, t.now, k}, since: since, whole: since == Everything}
	if !s.whole {
		gone, all := t.removed.since(since)
		s.gone, s.whole = gone, !all
	}
	t.saving = s
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
	if s.err != nil {
		return fmt.Errorf("table %q: shard %d: %w", s.t.cfg.Name, shard, s.err)
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
	was, counted := s.seen[shard]
	if !counted {
		was = s.t.sketches[shard]
	}
	delete(s.seen, shard)
	if was.counts == nil || was.last <= s.since {
		return nil
	}
	return section(Sightings, func(w io.Writer) error { return s.t.saveSeen(w, shard, &was) })
}

// copySeen copies the occurrence counts of a shard before a step changes them.
func (s *Snapshot) copySeen(shard int) {
	if !s.kept.pending[shard] {
		return
	}
	if _, has := s.seen[shard]; !has {
		if s.seen == nil {
			s.seen = map[int]sketch{}
		}
		s.seen[shard] = s.t.sketches[shard].clone()
	}
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

// givenUp returns the removed keys of a shard after sortGone.
func (k *kept) givenUp(shard int) []uint64 {
	if k.given == nil {
		return nil
	}
	return k.given[shard]
}

// Close ends the snapshot and frees its copies. It keeps a small amount of memory for
// the next snapshot, because fresh memory costs a step more than the copies do.
func (s *Snapshot) Close() error {
	s.end(errors.New("the snapshot is closed"))
	k := s.kept
	s.kept = nil
	if k == nil || s.t.spare != nil || k.bytes() > spareBytes {
		return k.free()
	}
	k.reset()
	s.t.spare = k
	return nil
}

// spareBytes is the most memory of a closed snapshot that the table keeps.
const spareBytes = 256 << 10

// bytes returns the memory in use, except for the little that every table has.
func (k *kept) bytes() int64 {
	return k.set.Bytes() + int64(k.used)*int64(k.items.size) + 4*int64(cap(k.item)+cap(k.before)) + 8*int64(k.gave)
}

// reset clears the rows.
func (k *kept) reset() {
	k.set.Reset()
	clear(k.last)
	clear(k.pending)
	k.item, k.before, k.all, k.used, k.gave = k.item[:0], k.before[:0], false, 0, 0
	for shard := range k.given {
		k.given[shard] = k.given[shard][:0]
	}
}

// free frees the memory; k may be nil.
func (k *kept) free() error {
	if k == nil {
		return nil
	}
	return k.items.free()
}

// end ends the snapshot, so that steps no longer copy rows.
func (s *Snapshot) end(why error) {
	s.seen = nil
	if s.t.saving == s {
		s.t.saving = nil
	}
	if s.err == nil {
		s.err = why
	}
}

// loses ends the current snapshot and Watch before rows are loaded or the table is reset.
func (t *memory) loses() {
	if t.watch != nil {
		t.watch.lose(errChanged)
	}
	if t.saving != nil {
		t.saving.end(errChanged)
	}
}

// copyRows copies rows in memory before a step changes or inserts them.
func (s *Snapshot) copyRows(keys []uint64, rows []Row) {
	t, k := s.t, s.kept
	if t.dense {
		s.copyAll()
	}
	k.keys, k.rows = k.keys[:0], k.rows[:0]
	for i, key := range keys {
		if k.pending[t.ShardOf(key)] {
			k.keys, k.rows = append(k.keys, key), append(k.rows, rows[i])
		}
	}
	n := uint32(k.set.Len())
	k.ids = resize(k.ids, len(k.keys))
	k.set.Add(k.keys, k.ids)
	for i, id := range k.ids {
		if id == n { // numbers are assigned in order, so the key is new
			s.copy(k.keys[i], k.rows[i])
			n++
		}
	}
}

// copyKey copies the row of a key, in memory or on disk, before it is changed or removed.
// row is 0 for a key to be inserted.
func (s *Snapshot) copyKey(key uint64, row Row) {
	k := s.kept
	if !k.pending[s.t.ShardOf(key)] || k.set.Has(key) {
		return
	}
	var id [1]uint32
	k.set.Add([]uint64{key}, id[:])
	s.copy(key, row)
}

// copyAll keeps every row of the pending shards, once.
func (s *Snapshot) copyAll() {
	if s.kept.all {
		return
	}
	s.kept.all = true
	for shard, pending := range s.kept.pending {
		if pending {
			s.t.index.each(shard, s.copyKey)
		}
	}
}

// copy copies the row of the last key of the set. A disk error ends the snapshot.
func (s *Snapshot) copy(key uint64, row Row) {
	t, k := s.t, s.kept
	shard, item := t.ShardOf(key), uint32(0)
	if row != 0 {
		rec, err := t.recordOf(key, row)
		if err != nil {
			s.end(err)
			return
		}
		k.used++
		k.items.reserve(k.used)
		item = k.used
		words := k.words(t, item)
		copy(words, rec)
		stamp, score := t.meta(row)
		words[len(words)-2], words[len(words)-1] = math.Float32frombits(*stamp), value(score)
	}
	k.item, k.before = append(k.item, item), append(k.before, k.last[shard])
	k.last[shard] = int32(len(k.item))
}

// words returns the words of an item.
func (k *kept) words(t *Table, item uint32) []float32 {
	return unsafe.Slice((*float32)(k.items.at(item)), t.words()+2)
}

// entries returns, by ascending key, the changes of a shard after a step, or all its rows,
// and the keys of gone that have no row. It also returns the number of rows in the shard.
func (v view) entries(shard int, since int64, gone []uint64) (all []entry, rows int) {
	t := v.t
	all = t.list[:0]
	for _, key := range gone {
		if t.ShardOf(key) == shard && !v.holds(key) {
			all = append(all, entry{key: key})
		}
	}
	changing := v.kept != nil && v.kept.last[shard] != 0
	t.index.each(shard, func(key uint64, row Row) {
		if changing && v.kept.set.Has(key) {
			return
		}
		rows++
		if stamp, _ := t.meta(row); v.changed(*stamp, since) {
			all = append(all, entry{key: key, row: row})
		}
	})
	if changing {
		for i := v.kept.last[shard]; i != 0; i = v.kept.before[i-1] {
			item := v.kept.item[i-1]
			if item == 0 {
				continue
			}
			rows++
			if v.changed(v.kept.stamp(t, item), since) {
				all = append(all, entry{key: v.kept.set.Keys()[i-1], item: item})
			}
		}
	}
	slices.SortFunc(all, entry.compare)
	all = slices.CompactFunc(all, func(a, b entry) bool { return a.key == b.key }) // removed twice
	t.list = all
	return all, rows
}

func (e entry) isGone() bool { return e.row == 0 && e.item == 0 }

func countGone(all []entry) (n int) {
	for _, e := range all {
		if e.isGone() {
			n++
		}
	}
	return n
}

func (e entry) compare(o entry) int {
	switch {
	case e.key < o.key:
		return -1
	case e.key > o.key:
		return 1
	}
	return 0
}

// holds reports whether a key has a row.
func (v view) holds(key uint64) bool {
	if v.kept != nil {
		if i, kept := v.kept.set.Number(key); kept {
			return v.kept.item[i] != 0
		}
	}
	return v.t.index.find(key, hash(v.t.salt, key)) != 0
}

// changed reports whether a row with that stamp has changed after a step.
func (v view) changed(stamp uint32, since int64) bool {
	switch {
	case since == Everything:
		return true
	case v.t.dense:
		return v.now > since
	}
	return stamp != 0 && int32(stamp-uint32(since)) > 0
}

func (k *kept) stamp(t *Table, item uint32) uint32 {
	return math.Float32bits(k.words(t, item)[t.words()])
}

// read returns the row to save for an entry. The record is valid until the next call.
func (v view) read(e entry) (rec []float32, stamp uint32, score float32, err error) {
	t := v.t
	if e.item != 0 {
		words := v.kept.words(t, e.item)
		n := t.words()
		return t.widen(words[:n]), math.Float32bits(words[n]), words[n+1], nil
	}
	rec, err = t.recordOf(e.key, e.row)
	at, has := t.meta(e.row)
	return t.widen(rec), *at, value(has), err
}
