package table

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// tiered finds and inserts rows, and moves cold ones to disk and back if there is a tier.
type tiered struct {
	eviction
	colder []victim // scratch: rows to move to disk

	convert func(record []float32) // changes the records that are loaded; nil: nothing does
}

const (
	// Records have at least 1/recordShare of the limit, even if the index leaves less.
	// Without memory for records every Find would move all rows to disk.
	recordShare = 8
	// movedAtOnce is the number of rows that one transaction moves to disk.
	movedAtOnce = 4096
)

// OpenTier limits the memory of the table to about memory bytes. A Find that exceeds it
// first moves the rows with the lowest score, or the oldest, to an unnamed file in dir.
// Find brings them back. The file cannot be used by another run; checkpoints contain
// every row.
func (t *tiered) OpenTier(dir string, memory int64) error {
	fault := func(err error) error { return fmt.Errorf("table %q: tier in %q: %w", t.cfg.Name, dir, err) }
	switch {
	case dir == "":
		return fault(fmt.Errorf("a memory limit of %d bytes needs a folder for what is past it", memory))
	case memory < 1:
		return fault(fmt.Errorf("a memory limit of %d bytes is none", memory))
	case t.tier != nil:
		return fault(errors.New("the table has one already"))
	case t.dense:
		return fault(errors.New("a DenseL2 part touches every row in every step: no row is ever cold"))
	}
	s, err := openBolt(dir)
	if err != nil {
		return fault(err)
	}
	t.tier = &tier{store: s, limit: memory, notes: newNotes(&t.records), record: make([]float32, t.words())}
	return nil
}

// inMemory returns the bytes that count against the limit: records, and what is always in
// memory.
func (t *tiered) inMemory() (records, always int64) {
	rows := int64(int(t.used) - len(t.free))
	records = rows * int64(4*t.words())
	rest := t.rowBytes() - int64(4*t.words())
	return records, t.indexBytes() + (rows+int64(t.tier.rows()))*rest + int64(cap(t.tier.returned))
}

// MinMemory returns the least memory limit that the tier needs, if its limit is too low,
// and 0 otherwise. Only records move to disk. If everything else leaves them less than
// an eighth of the limit, the table exceeds the limit. MinMemory may be called at any
// time.
func (t *tiered) MinMemory() int64 {
	if t.tier == nil {
		return 0
	}
	return t.tier.minMemory.Load()
}

// TierLeast returns the least memory limit that leaves enough memory for records in
// addition to always bytes that are never on disk.
func TierLeast(always int64) int64 { return always/(recordShare-1)*recordShare + recordShare }

// enforceLimit moves rows to disk if the memory limit is exceeded, until records take 7/8 of
// their part of the limit.
func (t *tiered) enforceLimit() error {
	x := t.tier
	if x == nil {
		return nil
	}
	records, always := t.inMemory()
	free := x.limit - always
	if records <= free {
		return nil
	}
	if least := x.limit / recordShare; free < least {
		free = least
		x.minMemory.Store(max(x.minMemory.Load(), TierLeast(always)))
	}
	each := int64(4 * t.words())
	if records <= free {
		return nil
	}
	x.wait()
	return t.moveColdest(int((records-free/8*7)/each) + 1)
}

// moveColdest moves up to n rows to disk: the colder half of the rows in memory of one shard
// after the other.
func (t *tiered) moveColdest(n int) error {
	x := t.tier
	all := len(t.index.shards)
	for shards := 0; n > 0 && shards < 2*all; {
		t.colder = t.colder[:0]
		for end := shards + all; shards < end && len(t.colder) < min(n, movedAtOnce); shards++ {
			t.findCold(x.hand, n-len(t.colder))
			x.hand = (x.hand + 1) % all
		}
		if err := t.moveToDisk(t.colder); err != nil {
			return t.tierFault(err)
		}
		n -= len(t.colder)
	}
	x.round++
	x.began[x.round&1] = t.now
	return nil
}

// findCold adds the colder half of a shard's rows in memory, at most most of them, to the
// rows to move.
func (t *tiered) findCold(shard, most int) {
	x := t.tier
	hot := slices.DeleteFunc(t.candidates(shard), func(v victim) bool { return v.row.onDisk() })
	slices.SortFunc(hot, func(a, b victim) int {
		if a, b := x.fresh(a.row, a.age, t.now), x.fresh(b.row, b.age, t.now); a != b {
			return cmp.Compare(a, b)
		}
		return a.before(b)
	})
	t.colder = append(t.colder, hot[:min(most, (len(hot)+1)/2)]...)
}

// moveToDisk moves rows to disk, all or none.
func (t *tiered) moveToDisk(cold []victim) error {
	if len(cold) == 0 {
		return nil
	}
	x := t.tier
	x.ids = x.ids[:0]
	for i := range cold {
		x.ids = append(x.ids, x.take(i))
	}
	slices.Sort(x.ids)
	if err := x.store.put(x.ids, func(i int) []byte { return raw.Bytes(t.at(cold[i].row)) }); err != nil {
		return err
	}
	x.claim(len(cold), t.cfg.Evict.HalfLife > 0)
	for i, v := range cold {
		h := hash(t.salt, v.key)
		row := t.index.segment(h).find(v.key, h)
		if t.watch != nil {
			t.watch.moving(v.key, *row)
		}
		stamp, score := t.meta(*row)
		t.free = append(t.free, *row)
		*row = x.ids[i] | onDisk
		t.stamp(*row, *stamp, value(score))
	}
	t.epoch++
	t.counters.ToDisk += int64(len(cold))
	return nil
}

// moveToMemory moves the rows of keys that are on disk back to memory.
func (t *tiered) moveToMemory(keys []uint64, rows []Row) error {
	x := t.tier
	x.wait()
	x.coming = x.coming[:0]
	for i, r := range rows[:len(keys)] {
		if r.onDisk() {
			x.coming = append(x.coming, coming{r &^ onDisk, keys[i]})
		}
	}
	slices.SortFunc(x.coming, func(a, b coming) int { return cmp.Compare(a.id, b.id) })
	x.coming = slices.Compact(x.coming) // a key may occur twice
	if err := t.checkCapacity(len(x.coming)); err != nil {
		return err
	}
	if err := t.readCold(x.coming, t.storeInMemory); err != nil {
		return err
	}
	for i, r := range rows[:len(keys)] {
		if r.onDisk() {
			rows[i] = t.index.find(keys[i], hash(t.salt, keys[i]))
		}
	}
	return nil
}

// storeInMemory stores the record of a row on disk in memory.
func (t *tiered) storeInMemory(c coming, record []byte) {
	x := t.tier
	row := t.newRow()
	copy(raw.Bytes(t.at(row)), record)
	if n := int(row) + 1 - len(x.returned); n > 0 {
		x.returned = append(x.returned, make([]uint8, n)...)
	}
	x.returned[row] = mark(x.round)
	stamp, score := t.meta(c.id | onDisk)
	t.stamp(row, *stamp, value(score))
	if _, ok := x.staged[c.id]; ok {
		t.counters.ReadAhead++
	}
	x.forget(c.id)
	h := hash(t.salt, c.key)
	*t.index.segment(h).find(c.key, h) = row
	t.counters.FromDisk++
}

// find returns the row of one key, moved to memory if necessary, or 0 if it has none.
func (t *tiered) find(key uint64) (Row, error) {
	r := t.index.find(key, hash(t.salt, key))
	if !r.onDisk() {
		return r, nil
	}
	rows := []Row{r}
	err := t.moveToMemory([]uint64{key}, rows)
	return rows[0], err
}

// rowToChange returns the row of a key in order to change it. It inserts the key if it has no row.
func (t *tiered) rowToChange(key uint64) (Row, error) {
	r, err := t.find(key)
	if err == nil && t.saving != nil {
		t.saving.copyKey(key, r)
	}
	if err == nil && r == 0 {
		if err = t.checkCapacity(1); err == nil {
			r = t.insert(key)
		}
	}
	if err == nil && t.watch != nil {
		t.watch.change(key, r)
	}
	return r, err
}

// Put writes the record of a key, V values and S floats of state, and inserts the key
// if it has no row. It counts as a change of the next step.
func (t *tiered) Put(key uint64, record []float32) error {
	if len(record) != t.RecordLen() {
		return fmt.Errorf("table %q: put: a record of %d values, want %d", t.cfg.Name, len(record), t.RecordLen())
	}
	if err := t.enforceLimit(); err != nil {
		return err
	}
	r, err := t.rowToChange(key)
	if err != nil {
		return err
	}
	t.unpack(r, record)
	t.stamp(r, uint32(t.now+1), 1)
	return nil
}

// Cold reports whether rows are on disk.
func (t *tiered) Cold() bool { return t.tier != nil && t.tier.rows() > 0 }

// Prefetch starts to read the rows of keys that are on disk, so that a Find soon after
// does not wait. It drops what an earlier Prefetch has read. It returns at once, and
// keys may be reused. If a row cannot be read, Find returns the error.
func (t *tiered) Prefetch(keys []uint64) {
	if !t.Cold() {
		return
	}
	x := t.tier
	x.wait()
	var ids []Row
	for _, key := range keys {
		if r := t.index.find(key, hash(t.salt, key)); r.onDisk() {
			ids = append(ids, r&^onDisk)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	staged, done, size := make(map[Row][]byte, len(ids)), make(chan struct{}), 4*t.words()
	x.staged, x.ahead = staged, done
	go func() {
		defer close(done)
		all := make([]byte, 0, len(ids)*size)
		_ = x.read(ids, size, func(i int, b []byte) { // Find reports rows that cannot be read
			at := len(all)
			all = append(all, b...)
			staged[ids[i]] = all[at:]
		})
	}()
}
