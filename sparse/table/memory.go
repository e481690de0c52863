package table

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// memory holds the rows in memory with their keys, and the keys and notes of rows on disk.
type memory struct {
	shape
	index    index
	records  slabs // by row: packed words of values, then S of state
	notes    notes
	used     uint32 // rows used so far
	free     []Row  // rows of these that are free
	epoch    uint64
	now      int64 // number of the last step
	removed  removals
	deferred deferred
	tier     *tier // nil: all rows are in memory
	counters Counters
}

// Counters counts the operations of a table since Open.
type Counters struct {
	Hits      int64 // keys found
	Misses    int64 // keys not found
	Inserted  int64 // rows inserted by steps
	Refused   int64 // gradients dropped because their key was not admitted
	Evicted   int64 // rows removed by age, score or limit
	Deleted   int64 // rows removed by Delete
	ToDisk    int64 // rows moved to disk
	FromDisk  int64 // rows moved back to memory
	ReadAhead int64 // rows of FromDisk that Prefetch had read
}

// Shards returns the number of shards of the key space.
func (t *memory) Shards() int { return len(t.index.shards) }

// ShardOf returns the shard of a key.
func (t *memory) ShardOf(key uint64) int { return t.index.shardOf(hash(t.salt, key)) }

// Rows returns the number of rows of the table, in memory and on disk.
func (t *memory) Rows() int {
	n := int(t.used) - len(t.free)
	if t.tier != nil {
		n += t.tier.rows()
	}
	return n
}

// ShardRows returns the number of rows of a shard.
func (t *memory) ShardRows(shard int) int { return t.index.keys[shard] }

// Epoch returns a number that changes whenever a Row may have become invalid. Find its key
// again then.
func (t *memory) Epoch() uint64 { return t.epoch }

// Now returns the number of the last step. A [Snapshot] includes changes up to it.
func (t *memory) Now() int64 { return t.now }

// Counters returns the counters of the table.
func (t *memory) Counters() Counters { return t.counters }

// Uncount sets the counters of the table to 0.
func (t *memory) Uncount() { t.counters = Counters{} }

// indexBytes returns the memory of the index, in bytes.
func (t *memory) indexBytes() int64 { return t.index.bytes }

// at returns the record of a row in its memory format.
func (t *memory) at(r Row) []float32 {
	return unsafe.Slice((*float32)(t.records.at(uint32(r))), t.words())
}

// insert adds a key without a row and returns its row; the caller fills the record.
// checkCapacity has been called.
func (t *memory) insert(key uint64) Row {
	r := t.newRow()
	t.index.insert(key, hash(t.salt, key), r)
	return r
}

// newRow returns an unused row.
func (t *memory) newRow() Row {
	if last := len(t.free) - 1; last >= 0 {
		r := t.free[last]
		t.free = t.free[:last]
		return r
	}
	t.used++
	t.records.reserve(t.used)
	t.notes.reserve(t.used, t.cfg.Evict.HalfLife > 0, t.deferring)
	return Row(t.used)
}

// checkCapacity returns an error if the table cannot hold n more rows.
func (t *memory) checkCapacity(n int) error {
	if held := int(t.used) - len(t.free); held+n > maxRows {
		return fmt.Errorf("table %q: %d rows are held and %d touched; one rank can hold %d: use more ranks", t.cfg.Name, held, n, maxRows)
	}
	return nil
}

// fill writes the initial record of a key.
func (t *memory) fill(r Row, key uint64) {
	rec := t.at(r)
	if t.cfg.Values == Float32 {
		t.Initial(key, rec)
	} else {
		t.Initial(key, t.record[:t.width])
		nearest(rec, t.record[:t.width])
	}
	t.begins(rec)
}

// full returns the record of a row in float32. It is valid until the next call.
func (t *memory) full(r Row) []float32 { return t.widen(t.at(r)) }

// unpack writes a record in float32 to a row. It is the inverse of full.
func (t *memory) unpack(r Row, record []float32) {
	rec := t.at(r)
	if t.cfg.Values == Float32 {
		copy(rec, record)
		t.caughtUp(r)
		return
	}
	nearest(rec, record[:t.width])
	copy(rec[t.packed:], record[t.width:])
}

// meta returns the stamp of a row in memory or on disk, and its score if the table keeps
// scores.
func (t *memory) meta(r Row) (stamp *uint32, score *float32) {
	m := &t.notes
	if r.onDisk() {
		m, r = &t.tier.notes, r&^onDisk
	}
	if t.cfg.Evict.HalfLife > 0 {
		score = (*float32)(m.scores.at(uint32(r)))
	}
	return (*uint32)(m.stamps.at(uint32(r))), score
}

// stamp records a gradient, or another change, of a row at a step.
func (t *memory) stamp(r Row, step uint32, score float32) {
	at, has := t.meta(r)
	*at = step
	if has != nil {
		*has = score
	}
}

// age returns the number of steps since the last gradient of a row. The age of a row that
// was saved without a stamp counts from now on.
func (t *memory) age(r Row) uint32 {
	stamp, _ := t.meta(r)
	if *stamp == 0 {
		*stamp = uint32(t.now)
	}
	return uint32(max(0, int32(uint32(t.now)-*stamp)))
}

// score returns the current score of a row, or 0 if the table keeps none.
func (t *memory) score(r Row) float32 {
	if _, score := t.meta(r); score != nil {
		return t.decayed(*score, t.now-int64(t.age(r)))
	}
	return 0
}

// decayed returns the current value of a score of step then.
func (t *memory) decayed(score float32, then int64) float32 {
	life := int64(t.cfg.Evict.HalfLife)
	return float32(math.Ldexp(float64(score), -int(t.now/life-then/life)))
}

// caughtUp notes that a row has taken all steps.
func (t *memory) caughtUp(r Row) {
	if !t.deferred.off {
		*(*uint32)(t.notes.until.at(uint32(r))) = uint32(t.deferred.taken)
	}
}

// Forget frees the list of keys removed up to a step. A [Snapshot] of the changes since an
// earlier step then saves shards whole.
func (t *memory) Forget(step int64) {
	n := slices.IndexFunc(t.removed.steps, func(s uint32) bool { return int64(s) > step })
	if n < 0 {
		n = len(t.removed.steps)
	}
	t.removed.forget(max(step, t.removed.lost), n)
}

// recordOf returns the record of a row, in memory or on disk, in its memory format. It is
// valid until the next call.
func (t *memory) recordOf(key uint64, r Row) ([]float32, error) {
	if !r.onDisk() {
		return t.at(r), nil
	}
	t.tier.wait()
	rec := t.tier.record
	err := t.readCold([]coming{{r &^ onDisk, key}}, func(_ coming, record []byte) { copy(raw.Bytes(rec), record) })
	return rec, err
}

// readCold calls use with the records of rows on disk, those read ahead first.
func (t *memory) readCold(rows []coming, use func(c coming, record []byte)) error {
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

func (t *memory) tierFault(err error) error {
	return fmt.Errorf("table %q: tier: %w; the rows in memory are whole", t.cfg.Name, err)
}

func value(p *float32) float32 {
	if p == nil {
		return 0
	}
	return *p
}

// resize returns n elements, in the memory of x if it suffices; their values are
// unspecified. It allocates a quarter more, so that batches of nearly equal size do not
// each allocate.
func resize[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n, n+n/4)
	}
	return x[:n]
}
