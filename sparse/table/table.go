package table

import (
	"errors"
	"fmt"
	"unsafe"
)

// Row refers to a row of a table; 0 is no row. It is valid until Epoch changes.
type Row uint32

const (
	maxRows = 1<<31 - 1 // rows of one table on one rank
	onDisk  = Row(1) << 31
)

// onDisk reports whether r is the number of a row on disk. Find never returns one.
func (r Row) onDisk() bool { return r&onDisk != 0 }

// notes holds the data of rows outside their records.
type notes struct {
	stamps slabs // by row: step of its last gradient, truncated; 0: unknown
	scores slabs // by row, with a HalfLife: score at its stamp
	until  slabs // by row, if steps are deferred: the last step that it has taken, truncated
}

// Table is one rank's share of one table. It has layers, each of which uses only those
// below it:
//
//	Table      files and snapshots
//	steps      reading rows, and the optimizer steps of their gradients
//	tiered     rows found and inserted, cold ones moved to disk and back
//	eviction   rows removed
//	admission  which keys get a row
//	memory     rows and their keys
//	shape      layout of a row
type Table struct {
	steps
	file  file    // file being written
	list  []entry // its entries
	desc  []byte  // the description of a shard, encoded
	spare *kept   // memory of the previous snapshot, if it is small
}

// shape is the layout of a row.
type shape struct {
	cfg       Config
	salt      uint64
	parts     []part
	runs      []run     // runs of parts
	width     int       // V: number of values of a row
	packed    int       // words of 4 bytes that the values take in a record
	fresh     []float32 // S floats: state of a row before its first step
	dense     bool      // a part has DenseL2
	decays    bool      // a step without a gradient changes a part
	deferring bool      // rows may take such steps later
	record    []float32 // scratch: V+S
}

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
	observers
}

// observers are informed before and after rows change.
type observers struct {
	saving *Snapshot // the current snapshot
	watch  *Watch    // nil: none
}

// newNotes returns notes for rows with the given records.
func newNotes(records *slabs) notes {
	return notes{records.parallel(4), records.parallel(4), records.parallel(4)}
}

// empty returns empty notes with as many rows in each slab.
func (n *notes) empty() notes { return newNotes(&n.stamps) }

func (n *notes) reserve(last uint32, scores, until bool) {
	n.stamps.reserve(last)
	if scores {
		n.scores.reserve(last)
	}
	if until {
		n.until.reserve(last)
	}
}

func (n *notes) free() error {
	return errors.Join(n.stamps.free(), n.scores.free(), n.until.free())
}

// part is a Part with its position in a record.
type part struct {
	Part
	lo, hi           int // range of values
	stateLo, stateHi int // range of words in the record
	initial          initial
	stateOfValues    bool // a new row's state depends on its values
	decays           bool // it has DenseL2, and a step without a gradient changes it
	frozen           int64
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
	t.cold = make([]float32, t.words())
	t.clear(shards)
	return t, nil
}

// newShape assigns the parts of a row their positions in its record.
func newShape(cfg Config, seed uint64) (t shape) {
	t.cfg, t.salt = cfg, Salt(cfg.Name)
	for _, p := range cfg.Parts {
		t.parts = append(t.parts, part{
			Part: p, lo: t.width, hi: t.width + p.Dim,
			initial: newInitial(p.Init, seed, cfg.Name, p.Name),
		})
		t.width += p.Dim
		t.dense = t.dense || p.DenseL2
	}
	t.packed = t.width
	if cfg.Values == BFloat16 {
		t.packed = (t.width + 1) / 2
	}
	for i := range t.parts {
		p := &t.parts[i]
		state := make([]float32, p.Rule.StateLen(p.Dim))
		p.Rule.InitState(nil, state)
		p.stateOfValues = p.Rule.Kind == "ftrl" && p.Init.Kind != "zero"
		p.decays = p.changesUntouched()
		t.decays = t.decays || p.decays
		p.stateLo = t.packed + len(t.fresh)
		p.stateHi = p.stateLo + len(state)
		t.fresh = append(t.fresh, state...)
	}
	t.runs, t.deferring = runs(t.parts), canDefer(t.parts)
	t.record = make([]float32, t.RecordLen())
	return t
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

// words returns the number of 4-byte words of a record in memory.
func (t *shape) words() int { return t.packed + len(t.fresh) }

// Config returns the configuration in effect, with defaults filled in.
func (t *shape) Config() Config { return t.cfg.Default() }

// Width returns V, the number of values of a row over all parts.
func (t *shape) Width() int { return t.width }

// RecordLen returns V+S, the number of values and state floats of a row.
func (t *shape) RecordLen() int { return t.width + len(t.fresh) }

// Part returns the range, lo to hi, of part p in the values of a row.
func (t *shape) Part(p int) (lo, hi int) { return t.parts[p].lo, t.parts[p].hi }

// Parts returns the number of parts of a row.
func (t *shape) Parts() int { return len(t.parts) }

// Salt returns Salt of the table's name.
func (t *shape) Salt() uint64 { return t.salt }

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

// Counters returns the counters of the table.
func (t *memory) Counters() Counters { return t.counters }

// Uncount sets the counters of the table to 0.
func (t *memory) Uncount() { t.counters = Counters{} }

// indexBytes returns the memory of the index, in bytes.
func (t *memory) indexBytes() int64 { return t.index.bytes }

// Bytes returns the memory of the table, in bytes.
func (t *Table) Bytes() int64 {
	n := t.indexBytes() + int64(t.used)*t.rowBytes() + 8*int64(cap(t.seen)) + 4*int64(cap(t.free)) + t.removed.bytes()
	for i := range t.sketches {
		n += int64(len(t.sketches[i].counts))
	}
	return n
}

// rowBytes returns the memory of a row without its index entry, in bytes.
func (t *shape) rowBytes() int64 {
	n := int64(4*t.words() + 4)
	if t.cfg.Evict.HalfLife > 0 {
		n += 4
	}
	if t.deferring {
		n += 4
	}
	return n
}

// at returns the record of a row in its memory format.
func (t *memory) at(r Row) []float32 {
	return unsafe.Slice((*float32)(t.records.at(uint32(r))), t.words())
}

// Initial writes the V initial values of a key.
func (t *shape) Initial(key uint64, values []float32) {
	for i := range t.parts {
		p := &t.parts[i]
		p.initial.fill(key, values[p.lo:p.hi])
	}
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

// Get copies the record of a key, V values and S floats of state, to record. It reports
// whether the key has a row.
func (t *steps) Get(key uint64, record []float32) (bool, error) {
	r, err := t.find(key)
	if err != nil || r == 0 {
		return false, err
	}
	t.catchUp([]Row{r})
	copy(record, t.full(r))
	return true, nil
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

// full returns the record of a row in float32. It is valid until the next call.
func (t *memory) full(r Row) []float32 { return t.widen(t.at(r)) }

// widen converts a record from its memory format to float32.
func (t *shape) widen(rec []float32) []float32 {
	if t.cfg.Values == Float32 {
		return rec
	}
	expand(t.record[:t.width], rec)
	copy(t.record[t.width:], rec[t.packed:])
	return t.record
}

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

// stamp records a gradient, or another change, of a row at a step.
func (t *memory) stamp(r Row, step uint32, score float32) {
	at, has := t.meta(r)
	*at = step
	if has != nil {
		*has = score
	}
}

// Each calls f with each row of a shard, by ascending key, until f returns an error.
// The record is valid only during the call.
func (t *Table) Each(shard int, f func(key uint64, record []float32) error) error {
	v := t.asItIs()
	all, _ := v.entries(shard, Everything, nil)
	for _, e := range all {
		rec, _, _, err := v.read(e)
		if err == nil {
			err = f(e.key, rec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Reset removes every row, as if the table had just been opened, and frees the memory.
func (t *Table) Reset() error {
	t.loses()
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
	t.loses()
	err := errors.Join(t.index.large.free(), t.records.free(), t.notes.free(), t.spare.free())
	t.spare = nil
	if t.tier != nil {
		err = errors.Join(err, t.tier.close())
	}
	return err
}
