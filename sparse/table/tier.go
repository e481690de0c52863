package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/wdlrun/wdlrun/internal/raw"
)

// store keeps records by number. get fills its result only until the next call.
type store interface {
	put(ids []Row, record func(i int) []byte) error // all or none
	get(id Row, use func(record []byte) error) error
	reset() error
	close() error
}

// tier keeps the records of cold rows on disk. Index and notes stay in memory, so
// that what is held, its age and its score are known without reading.
type tier struct {
	store store
	limit int64 // bytes of memory
	notes notes
	used  uint32 // numbers ever taken into use
	free  []Row  // of them, not in use
	hand  int    // the shard to look for cold rows next

	ahead  chan struct{}  // closed at the end of the prefetch that runs; nil: none
	staged map[Row][]byte // what it has read
}

func (t *tier) rows() int { return int(t.used) - len(t.free) }

// OpenTier lets the table keep at most about memory bytes in RAM: at the next
// Find past it, the rows with the lowest score or the oldest go to a file without
// a name in the folder dir, and come back when they are found again. What it holds
// is of no use to another run; checkpoints hold every row.
func (t *Table) OpenTier(dir string, memory int64) error {
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
	t.tier = &tier{store: s, limit: memory, notes: newNotes(&t.records)}
	return nil
}

// inMemory is what counts against the limit.
func (t *Table) inMemory() int64 {
	return t.IndexBytes() + int64(int(t.used)-len(t.free))*t.rowBytes() + int64(t.tier.rows())*(t.rowBytes()-int64(4*t.words()))
}

// makeRoom moves rows to disk if the memory limit is passed, down to 7/8 of it.
func (t *Table) makeRoom() error {
	if t.tier == nil || t.inMemory() <= t.tier.limit {
		return nil
	}
	t.tier.settle()
	over := t.inMemory() - t.tier.limit/8*7
	want := int(over/int64(4*t.words())) + 1
	for shards := 0; want > 0 && shards < 2*len(t.index.shards); shards++ {
		n, err := t.freeze(t.tier.hand, want)
		if err != nil {
			return t.tierFault(err)
		}
		want -= n
		t.tier.hand = (t.tier.hand + 1) % len(t.index.shards)
	}
	return nil
}

func (t *Table) tierFault(err error) error {
	return fmt.Errorf("table %q: tier: %w; the rows in memory are whole", t.cfg.Name, err)
}

// freeze moves the colder half of a shard's rows in memory to disk, at most most
// of them.
func (t *Table) freeze(shard, most int) (int, error) {
	hot := slices.DeleteFunc(t.candidates(shard), func(v victim) bool { return t.index.find(v.key, hash(t.salt, v.key)).onDisk() })
	slices.SortFunc(hot, victim.before)
	hot = hot[:min(most, (len(hot)+1)/2)]
	if len(hot) == 0 {
		return 0, nil
	}
	x := t.tier
	ids := make([]Row, len(hot))
	for i := range ids {
		ids[i] = x.take(i)
	}
	slices.Sort(ids)
	err := x.store.put(ids, func(i int) []byte {
		return raw.Bytes(t.at(t.index.find(hot[i].key, hash(t.salt, hot[i].key))))
	})
	if err != nil {
		return 0, err
	}
	x.claim(len(ids), t.cfg.Evict.HalfLife > 0)
	for i, v := range hot {
		h := hash(t.salt, v.key)
		c := t.index.segment(h).find(v.key, h)
		stamp, score := t.meta(c.row)
		t.free = append(t.free, c.row)
		c.row = ids[i] | onDisk
		t.stamp(c.row, *stamp, value(score))
	}
	t.epoch++
	t.counters.Frozen += int64(len(hot))
	return len(hot), nil
}

func value(p *float32) float32 {
	if p == nil {
		return 0
	}
	return *p
}

// take returns the i'th number that claim would take into use.
func (t *tier) take(i int) Row {
	if i < len(t.free) {
		return t.free[len(t.free)-1-i]
	}
	return Row(t.used) + Row(i-len(t.free)) + 1
}

// claim takes n numbers into use.
func (t *tier) claim(n int, scores bool) {
	old := min(n, len(t.free))
	t.free = t.free[:len(t.free)-old]
	t.used += uint32(n - old)
	t.notes.reserve(t.used, scores)
}

// forget gives up a row on disk. Its record stays until the number is used anew.
func (t *tier) forget(r Row) {
	t.free = append(t.free, r&^onDisk)
	t.settle()
	delete(t.staged, r&^onDisk)
}

// thaw brings those rows on disk back to memory.
func (t *Table) thaw(keys []uint64, rows []Row) error {
	t.tier.settle()
	for i, r := range rows[:len(keys)] {
		if !r.onDisk() {
			continue
		}
		h := hash(t.salt, keys[i])
		c := t.index.segment(h).find(keys[i], h)
		if c.row.onDisk() { // not yet brought by the same key before
			if err := t.room(1); err != nil {
				return err
			}
			if err := t.thawSlot(c); err != nil {
				return err
			}
		}
		rows[i] = c.row
	}
	return nil
}

func (t *Table) thawSlot(c *slot) error {
	var row Row
	err := t.readCold(c, func(record []byte) {
		row = t.take()
		copy(raw.Bytes(t.at(row)), record)
	})
	if err != nil {
		return err
	}
	stamp, score := t.meta(c.row)
	t.stamp(row, *stamp, value(score))
	if _, ok := t.tier.staged[c.row&^onDisk]; ok {
		t.counters.ReadAhead++
	}
	t.tier.forget(c.row)
	c.row = row
	t.counters.Thawed++
	return nil
}

// readCold calls use with the record of a row on disk.
func (t *Table) readCold(c *slot, use func(record []byte)) error {
	id := c.row &^ onDisk
	if b, ok := t.tier.staged[id]; ok {
		use(b)
		return nil
	}
	if err := t.tier.read(id, 4*t.words(), use); err != nil {
		return t.tierFault(fmt.Errorf("read key %d: %w: load the last checkpoint", c.key(), err))
	}
	return nil
}

// read calls use with a record of size bytes.
func (t *tier) read(id Row, size int, use func(record []byte)) error {
	return t.store.get(id, func(b []byte) error {
		if len(b) != size {
			return fmt.Errorf("a record of %d bytes, want %d", len(b), size)
		}
		use(b)
		return nil
	})
}

// recordOf returns the record of a row as it lies in memory, wherever it is; it is
// valid until the next call.
func (t *Table) recordOf(key uint64, r Row) ([]float32, error) {
	if !r.onDisk() {
		return t.at(r), nil
	}
	t.tier.settle()
	rec := t.cold
	err := t.readCold(&slot{uint32(key), uint32(key >> 32), r}, func(record []byte) { copy(raw.Bytes(rec), record) })
	return rec, err
}

// Cold reports whether rows are on disk.
func (t *Table) Cold() bool { return t.tier != nil && t.tier.rows() > 0 }

// Prefetch begins to read those rows of keys that are on disk, so that a Find of
// them soon after need not wait, and forgets what another has read. It returns at
// once; keys may be used again. A row that cannot be read is left to that Find, which
// names it.
func (t *Table) Prefetch(keys []uint64) {
	if !t.Cold() {
		return
	}
	x := t.tier
	x.settle()
	var ids []Row
	for _, key := range keys {
		if r := t.index.find(key, hash(t.salt, key)); r.onDisk() {
			ids = append(ids, r&^onDisk)
		}
	}
	slices.Sort(ids)
	staged, done, size := make(map[Row][]byte, len(ids)), make(chan struct{}), 4*t.words()
	x.staged, x.ahead = staged, done
	go func() {
		defer close(done)
		for _, id := range slices.Compact(ids) {
			if err := x.read(id, size, func(b []byte) { staged[id] = slices.Clone(b) }); err != nil {
				return
			}
		}
	}()
}

// settle waits for the prefetch that runs.
func (t *tier) settle() {
	if t.ahead != nil {
		<-t.ahead
		t.ahead = nil
	}
}

func (t *tier) reset() error {
	t.settle()
	err := errors.Join(t.store.reset(), t.notes.free())
	t.notes, t.used, t.free, t.hand, t.staged = t.notes.anew(), 0, nil, 0, nil
	return err
}

func (t *tier) close() error {
	t.settle()
	return errors.Join(t.store.close(), t.notes.free())
}

// seal appends the checksum under which a record is stored, of its number too, so
// that a record in the place of another is found out.
func seal(b []byte, id Row, record []byte) []byte {
	b = append(b, record...)
	return binary.LittleEndian.AppendUint32(b, sealOf(id, record))
}

// open returns the record that seal wrote.
func unseal(b []byte, id Row) ([]byte, error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("row %d is missing or cut short", id)
	}
	record := b[:len(b)-4]
	if want, is := binary.LittleEndian.Uint32(b[len(record):]), sealOf(id, record); want != is {
		return nil, fmt.Errorf("row %d: the checksum is %08x, the file says %08x", id, is, want)
	}
	return record, nil
}

func sealOf(id Row, record []byte) uint32 {
	var number [4]byte
	binary.LittleEndian.PutUint32(number[:], uint32(id))
	return crc32.Update(crc32.Update(0, castagnoli, number[:]), castagnoli, record)
}
