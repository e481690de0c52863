package table

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync/atomic"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// store keeps records by number. The slices that get passes to use are valid during the
// call only.
type store interface {
	put(ids []Row, record func(i int) []byte) error // all or none
	get(ids []Row, use func(i int, record []byte) error) error
	reset() error
	close() error
}

// tier keeps the records of cold rows on disk. Index and notes stay in memory, so that
// looking up keys, ages and scores needs no reading.
type tier struct {
	store store
	limit int64 // bytes of memory
	notes notes
	used  uint32 // numbers used so far
	free  []Row  // numbers of these that are free
	hand  int    // next shard to search for cold rows

	round    int      // number of times rows were moved to disk
	began    [2]int64 // first step of this round, indexed by its last bit, and of the previous one
	returned []uint8  // by row in memory: mark of the round in which it was moved back; 0, or past the end: never on disk
	colder   []victim // rows to move in a round
	ids      []Row    // their numbers
	coming   []coming // rows being moved back

	minMemory atomic.Int64 // least limit that would leave enough memory for records; 0: this one does

	ahead  chan struct{}  // closed at the end of the running prefetch; nil: none
	staged map[Row][]byte // records that it has read
}

// tiered finds and inserts rows, and moves cold ones to disk and back if there is a tier.
type tiered struct {
	eviction
	cold []float32 // scratch: a record in its format on disk
}

// coming is a row that is being moved to memory.
type coming struct {
	id  Row
	key uint64
}

const (
	// Records have at least 1/recordShare of the limit, even if the index leaves less.
	// Without memory for records every Find would move all rows to disk.
	recordShare = 8
	// movedAtOnce is the number of rows that one transaction moves to disk.
	movedAtOnce = 4096
)

func (t *tier) rows() int { return int(t.used) - len(t.free) }

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
	t.tier = &tier{store: s, limit: memory, notes: newNotes(&t.records)}
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

func (t *tiered) tierFault(err error) error {
	return fmt.Errorf("table %q: tier: %w; the rows in memory are whole", t.cfg.Name, err)
}

// moveColdest moves up to n rows to disk: the colder half of the rows in memory of one shard
// after the other.
func (t *tiered) moveColdest(n int) error {
	x := t.tier
	all := len(t.index.shards)
	for shards := 0; n > 0 && shards < 2*all; {
		x.colder = x.colder[:0]
		for end := shards + all; shards < end && len(x.colder) < min(n, movedAtOnce); shards++ {
			t.findCold(x.hand, n-len(x.colder))
			x.hand = (x.hand + 1) % all
		}
		if err := t.moveToDisk(x.colder); err != nil {
			return t.tierFault(err)
		}
		n -= len(x.colder)
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
		if a, b := x.fresh(a, t.now), x.fresh(b, t.now); a != b {
			return cmp.Compare(a, b)
		}
		return a.before(b)
	})
	x.colder = append(x.colder, hot[:min(most, (len(hot)+1)/2)]...)
}

// mark returns the mark of a round, which repeats after 255 rounds.
func mark(round int) uint8 { return uint8(1 + round%255) }

// fresh returns 0 unless a row was moved back in this round or the previous one and has not
// been trained since. Such rows are moved to disk last, because a batch that is to be
// trained needs them.
func (t *tier) fresh(v victim, now int64) int {
	if int(v.row) >= len(t.returned) {
		return 0
	}
	for ago := range 2 {
		if round := t.round - ago; t.returned[v.row] == mark(max(round, 0)) && now-int64(v.age) <= t.began[round&1] {
			return 2 - ago
		}
	}
	return 0
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

func value(p *float32) float32 {
	if p == nil {
		return 0
	}
	return *p
}

// take returns the i-th number that claim would assign.
func (t *tier) take(i int) Row {
	if i < len(t.free) {
		return t.free[len(t.free)-1-i]
	}
	return Row(t.used) + Row(i-len(t.free)) + 1
}

// claim assigns n numbers.
func (t *tier) claim(n int, scores bool) {
	old := min(n, len(t.free))
	t.free = t.free[:len(t.free)-old]
	t.used += uint32(n - old)
	t.notes.reserve(t.used, scores, false) // no row of a table with a tier decays
}

// forget frees the number of a row on disk. Its record stays until the number is reused.
func (t *tier) forget(r Row) {
	t.free = append(t.free, r&^onDisk)
	t.wait()
	delete(t.staged, r&^onDisk)
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

// readCold calls use with the records of rows on disk, those read ahead first.
func (t *tiered) readCold(rows []coming, use func(c coming, record []byte)) error {
	x := t.tier
	x.ids = x.ids[:0]
	late := rows[:0:0]
	for _, c := range rows {
		if b, ok := x.staged[c.id]; ok {
			use(c, b)
		} else {
			late, x.ids = append(late, c), append(x.ids, c.id)
		}
	}
	if len(late) == 0 {
		return nil
	}
	at := 0
	err := x.read(x.ids, 4*t.words(), func(i int, record []byte) {
		use(late[i], record)
		at = i + 1
	})
	if err != nil {
		return t.tierFault(fmt.Errorf("read key %d: %w: load the last checkpoint", late[min(at, len(late)-1)].key, err))
	}
	return nil
}

// read calls use with records of size bytes.
func (t *tier) read(ids []Row, size int, use func(i int, record []byte)) error {
	return t.store.get(ids, func(i int, b []byte) error {
		if len(b) != size {
			return fmt.Errorf("a record of %d bytes, want %d", len(b), size)
		}
		use(i, b)
		return nil
	})
}

// recordOf returns the record of a row, in memory or on disk, in its memory format. It is
// valid until the next call.
func (t *tiered) recordOf(key uint64, r Row) ([]float32, error) {
	if !r.onDisk() {
		return t.at(r), nil
	}
	t.tier.wait()
	rec := t.cold
	err := t.readCold([]coming{{r &^ onDisk, key}}, func(_ coming, record []byte) { copy(raw.Bytes(rec), record) })
	return rec, err
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

// wait waits for the running prefetch.
func (t *tier) wait() {
	if t.ahead != nil {
		<-t.ahead
		t.ahead = nil
	}
}

func (t *tier) reset() error {
	t.wait()
	err := errors.Join(t.store.reset(), t.notes.free())
	t.notes, t.used, t.free, t.hand, t.staged, t.returned = t.notes.empty(), 0, nil, 0, nil, nil
	return err
}

func (t *tier) close() error {
	t.wait()
	return errors.Join(t.store.close(), t.notes.free())
}

// seal appends the checksum of a stored record. It includes the number of the record, so
// that a misplaced record is detected.
func seal(b []byte, id Row, record []byte) []byte {
	b = append(b, record...)
	return binary.LittleEndian.AppendUint32(b, sealOf(id, record))
}

// unseal returns the record that seal wrote, or an error if the checksum differs.
func unseal(b []byte, id Row) ([]byte, error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("row %d is missing or cut short", id)
	}
	record := b[:len(b)-4]
	if want, is := binary.LittleEndian.Uint32(b[len(record):]), sealOf(id, record); want != is {
		return nil, fmt.Errorf("row %d: the checksum is %08x, the file has %08x", id, is, want)
	}
	return record, nil
}

func sealOf(id Row, record []byte) uint32 {
	var number [4]byte
	binary.LittleEndian.PutUint32(number[:], uint32(id))
	return crc32.Update(crc32.Update(0, castagnoli, number[:]), castagnoli, record)
}
