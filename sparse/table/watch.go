package table

import (
	"errors"
	"fmt"
	"slices"
)

// Watch records which rows of a table have changed since the last Take. A Take costs
// time for the rows that changed, not for all rows. Training continues while rows are
// copied: the first change of a row that is taken and not yet copied copies it. A step
// pays one bit for each of its rows, and 16 bytes for each row that changes for the
// first time since the last Take. A table has one Watch; a Snapshot may be under way at
// the same time. A Watch belongs to the goroutine of its table.
type Watch struct {
	t       *observed
	changed rowBits   // rows that changed since the last Take
	list    []touched // changed rows, and rows that have moved or been removed since
	cold    []uint64  // keys of changed rows that have moved to disk since
	removed []uint64  // keys whose rows have been removed since

	waiting rowBits   // rows taken but not copied yet
	taken   []touched // these rows; the last is copied next
	out     Taken
	err     error // why the record of changes is incomplete
}

// observed is a memory with the observers that are informed before and after its rows change.
type observed struct {
	memory
	saving *kept  // of the current snapshot; nil: none
	watch  *Watch // nil: none
}

// errChanged ends a snapshot or a watch after rows were loaded or the table was reset.
var errChanged = errors.New("rows were loaded, or all forgotten, since the snapshot was begun")

// endObservers ends the current snapshot and Watch before rows are loaded or the table is reset.
func (t *observed) endObservers() {
	if t.watch != nil {
		t.watch.lose(errChanged)
	}
	if t.saving != nil {
		t.saving.end(errChanged)
		t.saving = nil
	}
}

// touched is a key and its row at the time of the change. A later entry with the same row
// belongs to another key.
type touched struct {
	key uint64
	row Row
}

// Taken holds rows as they were at a Take.
type Taken struct {
	Keys    []uint64  // distinct, in no particular order
	Values  []float32 // V for each key
	Removed []uint64  // keys whose rows were removed; may repeat, and may be among Keys
}

// errTooMany ends a Watch whose lists take too much memory.
var errTooMany = errors.New("too many rows were given up since they were last taken")

// Close stops recording.
func (w *Watch) Close() {
	if w.t.watch == w {
		w.t.watch = nil
	}
}

// Take starts to copy the rows that have changed since the last Take, or since
// NewWatch, with their current values. Copy copies them. Take may be called again when
// Copy has returned 0. It returns an error if rows were loaded or the table was reset,
// because changes may be missing: make a new Watch.
func (w *Watch) Take() error {
	if w.err == nil && len(w.taken) > 0 {
		panic("table: Watch.Take: the changes that were taken are not copied yet")
	}
	if w.err != nil {
		return w.fault(w.err)
	}
	out := &w.out
	out.Keys, out.Values, out.Removed = out.Keys[:0], out.Values[:0], out.Removed[:0]
	if err := w.copyCold(); err != nil {
		w.lose(err)
		return w.fault(err)
	}
	w.changed, w.waiting = w.waiting, w.changed // waiting is empty: all rows are copied
	w.list, w.taken = w.taken[:0], w.list
	w.removed, out.Removed = out.Removed, w.removed
	n := len(out.Keys) + len(w.taken)
	out.Keys = slices.Grow(out.Keys, n-len(out.Keys))
	out.Values = slices.Grow(out.Values, n*w.t.width-len(out.Values))
	return nil
}

func (w *Watch) fault(err error) error { return fmt.Errorf("table %q: watch: %w", w.t.cfg.Name, err) }

// copyCold copies the changed rows that are on disk and lists those that have moved back.
func (w *Watch) copyCold() error {
	t := w.t
	slices.Sort(w.cold)
	for _, key := range slices.Compact(w.cold) {
		switch r := t.index.find(key, hash(t.salt, key)); {
		case r.onDisk():
			rec, err := t.recordOf(key, r)
			if err != nil {
				return err
			}
			w.out.Keys, w.out.Values = append(w.out.Keys, key), append(w.out.Values, t.values(rec)...)
		case r != 0:
			w.mark(key, r)
		}
	}
	w.cold = w.cold[:0]
	return nil
}

// Copy copies at most n rows of the last Take and returns how many are left.
func (w *Watch) Copy(n int) (left int) {
	for ; n > 0 && len(w.taken) > 0; n-- {
		last := w.taken[len(w.taken)-1]
		w.taken = w.taken[:len(w.taken)-1]
		if w.waiting.has(last.row) {
			w.copy(last.key, last.row)
		}
	}
	return len(w.taken)
}

// Taken returns the rows of the last Take, after Copy has returned 0. The result is
// valid until the next Take. It returns an error if rows were loaded, or the table was
// reset, before all were copied.
func (w *Watch) Taken() (*Taken, error) {
	if w.err != nil {
		return nil, w.fault(w.err)
	}
	return &w.out, nil
}

// Again makes the next Take include the rows of the last one. They must all have been
// copied.
func (w *Watch) Again() error {
	if w.err != nil {
		return w.fault(w.err)
	}
	t := w.t
	for _, key := range w.out.Keys {
		switch r := t.index.find(key, hash(t.salt, key)); {
		case r.onDisk():
			w.cold = append(w.cold, key)
		case r != 0: // otherwise it was removed
			w.mark(key, r)
		}
	}
	w.removed = append(w.removed, w.out.Removed...)
	w.out.Keys, w.out.Values, w.out.Removed = w.out.Keys[:0], w.out.Values[:0], w.out.Removed[:0]
	return nil
}

// copy copies a waiting row.
func (w *Watch) copy(key uint64, r Row) {
	w.waiting.clear(r)
	w.out.Keys, w.out.Values = append(w.out.Keys, key), append(w.out.Values, w.t.values(w.t.at(r))...)
}

// mark records that a row in memory changes.
func (w *Watch) mark(key uint64, r Row) {
	if w.changed.set(r) {
		w.list = append(w.list, touched{key, r})
	}
}

// before is called before a step changes rows. A row of 0 is not held.
func (w *Watch) before(keys []uint64, rows []Row) {
	if len(w.taken) == 0 {
		return
	}
	for i, r := range rows {
		if w.waiting.has(r) {
			w.copy(keys[i], r)
		}
	}
}

// after is called when a step has inserted rows. A row of 0 was not admitted.
func (w *Watch) after(keys []uint64, rows []Row) {
	if w.err != nil {
		return
	}
	w.changed.fit(Row(w.t.used))
	for i, r := range rows {
		if r != 0 && w.changed.set(r) {
			w.list = append(w.list, touched{keys[i], r})
		}
	}
}

// change is before and after for one key whose row is in memory.
func (w *Watch) change(key uint64, r Row) {
	if w.err != nil {
		return
	}
	w.copyBefore(key, r)
	w.mark(key, r)
}

// copyBefore copies a waiting row before it changes, moves to disk or is removed.
func (w *Watch) copyBefore(key uint64, r Row) {
	if w.waiting.has(r) {
		w.copy(key, r)
	}
}

// beforeRemoval is called before a row, in memory or on disk, is removed.
func (w *Watch) beforeRemoval(key uint64, r Row) {
	if w.err != nil {
		return
	}
	if !r.onDisk() {
		w.copyBefore(key, r)
		w.changed.clear(r)
	}
	w.removed = append(w.removed, key)
	w.bound()
}

// moving is called before a row in memory moves to disk.
func (w *Watch) moving(key uint64, r Row) {
	if w.err != nil {
		return
	}
	w.copyBefore(key, r)
	if w.changed.has(r) {
		w.changed.clear(r)
		w.cold = append(w.cold, key)
		w.bound()
	}
}

// spareEntries is the number of entries that the lists may have beyond two per row.
const spareEntries = 1 << 22

// bound ends a watch whose lists grow faster than the rows because no Take empties them.
func (w *Watch) bound() {
	if len(w.list)+len(w.cold)+len(w.removed) > 2*w.t.Rows()+spareEntries {
		w.lose(errTooMany)
	}
}

// lose ends the watch: some changes are unknown.
func (w *Watch) lose(why error) {
	*w = Watch{t: w.t, err: why}
}

// rowBits is a set of rows in memory.
type rowBits []uint64

// fit allocates bits for the rows up to r.
func (b *rowBits) fit(r Row) {
	if n := int(r)/64 + 1 - len(*b); n > 0 {
		*b = append(*b, make([]uint64, n)...)
	}
}

func (b rowBits) has(r Row) bool { return int(r/64) < len(b) && b[r/64]>>(r%64)&1 != 0 }

func (b rowBits) clear(r Row) {
	if int(r/64) < len(b) {
		b[r/64] &^= 1 << (r % 64)
	}
}

// set adds a row and reports whether it is new.
func (b *rowBits) set(r Row) bool {
	b.fit(r)
	word, bit := &(*b)[r/64], uint64(1)<<(r%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}
