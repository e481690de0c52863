package table

import (
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/optim"
)

// Row refers to a row that a table holds; 0 refers to none. It stays valid while
// Epoch does not change.
type Row uint32

// Table is one rank's share of one table.
type Table struct {
	cfg   Config
	salt  uint64
	shift uint // of a hash, to the shard
	parts []part
	width int       // V: values of a row
	fresh []float32 // S: state of a row before its first step

	shards []index // by shard; those of other ranks stay empty
	rows   slabs
	epoch  uint64

	// stamps mark, by row, the rows a step has touched, so that a sweep over all
	// rows knows the others. Only tables with a DenseL2 part have them.
	dense  bool
	stamps []uint32
	stamp  uint32

	updates []optim.Update // by part, of the step being applied
	scratch []float32      // 2·V
	found   []Row
}

// part is a Part with its places in a record.
type part struct {
	Part
	lo, hi           int // values
	stateLo, stateHi int // state
	initial          initial
}

// Open makes an empty table whose key space is cut into shards parts, a power of
// two. Initial rows are drawn from seed.
func Open(cfg Config, seed uint64, shards int) (*Table, error) {
	if shards < 1 || shards > MaxShards || shards&(shards-1) != 0 {
		return nil, fmt.Errorf("table: open %q: %d shards: give a power of two of at most %d", cfg.Name, shards, MaxShards)
	}
	if faults := cfg.Validate(); len(faults) != 0 {
		return nil, fmt.Errorf("table: open %q: %w", cfg.Name, faults[0])
	}
	cfg = cfg.Default()
	t := &Table{
		cfg: cfg, salt: Salt(cfg.Name), shift: shardShift(shards),
		shards: make([]index, shards), updates: make([]optim.Update, len(cfg.Parts)),
	}
	for _, p := range cfg.Parts {
		t.parts = append(t.parts, part{
			Part: p, lo: t.width, hi: t.width + p.Dim,
			initial: newInitial(p.Init, seed, cfg.Name, p.Name),
		})
		t.width += p.Dim
		t.dense = t.dense || p.DenseL2
	}
	for i := range t.parts {
		p := &t.parts[i]
		state := make([]float32, p.Rule.StateLen(p.Dim))
		p.Rule.InitState(state)
		p.stateLo = t.width + len(t.fresh)
		p.stateHi = p.stateLo + len(state)
		t.fresh = append(t.fresh, state...)
	}
	t.scratch = make([]float32, 2*t.width)
	t.rows = newSlabs(t.width + len(t.fresh))
	return t, nil
}

// Config returns the configuration in effect, defaults filled in.
func (t *Table) Config() Config { return t.cfg.Default() }

// Width returns V, the values of a row over all parts.
func (t *Table) Width() int { return t.width }

// RecordLen returns V+S, the values and the state of a row.
func (t *Table) RecordLen() int { return t.width + len(t.fresh) }

// Part returns where part p lies among the values of a row: lo to hi.
func (t *Table) Part(p int) (lo, hi int) { return t.parts[p].lo, t.parts[p].hi }

// Parts returns how many parts a row has.
func (t *Table) Parts() int { return len(t.parts) }

// Salt returns Salt of the table's name.
func (t *Table) Salt() uint64 { return t.salt }

// Shards returns into how many shards the key space is cut.
func (t *Table) Shards() int { return len(t.shards) }

// ShardOf returns the shard of a key.
func (t *Table) ShardOf(key uint64) int { return int(hash(t.salt, key) >> t.shift) }

// Rows returns how many rows the table holds.
func (t *Table) Rows() int { return t.rows.n }

// ShardRows returns how many rows a shard holds.
func (t *Table) ShardRows(shard int) int { return t.shards[shard].n }

// Epoch changes whenever a Row may have become invalid: find its key again.
func (t *Table) Epoch() uint64 { return t.epoch }

// Find writes the row of each key to rows, 0 for a key that is not held.
func (t *Table) Find(keys []uint64, rows []Row) error {
	rows = rows[:len(keys)]
	for i, key := range keys {
		rows[i] = t.find(key)
	}
	return nil
}

func (t *Table) find(key uint64) Row {
	h := hash(t.salt, key)
	return Row(t.shards[h>>t.shift].find(key, h))
}

// Read writes the values of rows, the initial values of their keys where the row
// is 0, to dst: those of row i to dst[i·stride : i·stride+V].
func (t *Table) Read(keys []uint64, rows []Row, dst []float32, stride int) {
	for i, r := range rows {
		d := dst[i*stride : i*stride+t.width]
		if r == 0 {
			t.Initial(keys[i], d)
			continue
		}
		copy(d, t.rows.row(r))
	}
}

// Initial writes the V values of a key that nobody has trained.
func (t *Table) Initial(key uint64, values []float32) {
	for i := range t.parts {
		p := &t.parts[i]
		p.initial.fill(key, values[p.lo:p.hi])
	}
}

// insert adds a key that is not held and returns its row with the record still
// to be filled.
func (t *Table) insert(key uint64) Row {
	r := t.rows.add()
	shard := hash(t.salt, key) >> t.shift
	t.shards[shard].insert(key, uint32(r), t.salt, int(shard))
	if t.dense {
		t.stamps = append(t.stamps, 0)
	}
	return r
}

// Put writes the record of a key, V values and S of state, inserting it if it is
// not held.
func (t *Table) Put(key uint64, record []float32) error {
	if len(record) != t.RecordLen() {
		return fmt.Errorf("table %q: put: a record of %d values, want %d", t.cfg.Name, len(record), t.RecordLen())
	}
	r := t.find(key)
	if r == 0 {
		if err := t.room(1); err != nil {
			return err
		}
		r = t.insert(key)
	}
	copy(t.rows.row(r), record)
	return nil
}

// room returns an error if n more rows cannot be held.
func (t *Table) room(n int) error {
	if t.rows.n+n > maxRows {
		return fmt.Errorf("table %q: %d rows are held and %d touched; one rank can hold %d: use more ranks", t.cfg.Name, t.rows.n, n, maxRows)
	}
	return nil
}

// Each calls f with the rows of a shard by ascending key, each with its record,
// which is valid during the call only, until f fails.
func (t *Table) Each(shard int, f func(key uint64, record []float32) error) error {
	for _, slot := range t.shards[shard].sorted() {
		if err := f(slot.key(), t.rows.row(Row(slot.row))); err != nil {
			return err
		}
	}
	return nil
}

// Bytes returns the memory the table takes.
func (t *Table) Bytes() int64 {
	n := t.rows.bytes() + 4*int64(cap(t.stamps))
	for i := range t.shards {
		n += indexSlotBytes * int64(len(t.shards[i].slots))
	}
	return n
}

// Reset forgets every row, as if the table had just been opened.
func (t *Table) Reset() {
	clear(t.shards)
	t.rows.n = 0
	t.stamps = t.stamps[:0]
	t.epoch++
}

// Close frees the memory of the table, which cannot be used afterwards.
func (t *Table) Close() error {
	t.shards, t.rows.full, t.stamps = nil, nil, nil
	return nil
}

func resize[T any](x []T, n int) []T { return slices.Grow(x[:0], n)[:n] }
