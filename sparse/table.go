package sparse

import "github.com/wdlrun/wdlrun/optim"

// table is this rank's share of one table.
type table struct {
	Table
	salt   uint64
	shift  uint // of a hash, to the shard
	parts  []part
	width  int       // V: values of a row
	fresh  []float32 // S: state of a row before its first step
	shards []index   // by shard; those of other ranks stay empty
	rows   slabs

	// stamps mark, by row, the rows a step has touched, so that a sweep over all
	// rows knows the others. Only tables with a DenseL2 part have them.
	dense  bool
	stamps []uint32
	stamp  uint32

	updates []optim.Update // by part, of the step being applied
	staged  staged
}

// part is a Part with its places in a record.
type part struct {
	Part
	lo, hi           int // values
	stateLo, stateHi int // state
	initial          initial
}

func newTable(t Table, cfg Config) *table {
	x := &table{
		Table: t, salt: Salt(t.Name), shift: shardShift(cfg.Shards),
		shards: make([]index, cfg.Shards), updates: make([]optim.Update, len(t.Parts)),
	}
	for _, p := range t.Parts {
		x.parts = append(x.parts, part{
			Part: p, lo: x.width, hi: x.width + p.Dim,
			initial: newInitial(p.Init, cfg.Seed, t.Name, p.Name),
		})
		x.width += p.Dim
		x.dense = x.dense || p.DenseL2
	}
	for i := range x.parts {
		p := &x.parts[i]
		state := make([]float32, p.Rule.StateLen(p.Dim))
		p.Rule.InitState(state)
		p.stateLo = x.width + len(x.fresh)
		p.stateHi = p.stateLo + len(state)
		x.fresh = append(x.fresh, state...)
	}
	x.rows = newSlabs(x.width + len(x.fresh))
	return x
}

// find returns the row of a key, 0 if it is not held.
func (t *table) find(key uint64) uint32 {
	h := hashKey(t.salt, key)
	return t.shards[h>>t.shift].find(key, h)
}

// findAll writes the row of each key to rows. A loop of nothing but probes lets
// the processor overlap their cache misses.
func (t *table) findAll(keys []uint64, rows []uint32) {
	rows = rows[:len(keys)]
	for i, key := range keys {
		h := hashKey(t.salt, key)
		rows[i] = t.shards[h>>t.shift].find(key, h)
	}
}

// insert adds a key that is not held and returns its row with the record still
// to be filled.
func (t *table) insert(key uint64) uint32 {
	r := t.rows.add()
	shard := hashKey(t.salt, key) >> t.shift
	t.shards[shard].insert(key, r, t.salt, int(shard))
	if t.dense {
		t.stamps = append(t.stamps, 0)
	}
	return r
}

// initial fills the values of a key nobody has trained.
func (t *table) initial(key uint64, values []float32) {
	for i := range t.parts {
		p := &t.parts[i]
		p.initial.fill(key, values[p.lo:p.hi])
	}
}

// read copies the values of rows, of their keys where the row is 0, to dst.
func (t *table) read(keys []uint64, rows []uint32, dst []float32) {
	for i, r := range rows {
		d := dst[i*t.width : (i+1)*t.width]
		if r == 0 {
			t.initial(keys[i], d)
			continue
		}
		copy(d, t.rows.row(r))
	}
}

// nextStamp starts a new set of touched rows.
func (t *table) nextStamp() {
	t.stamp++
	if t.stamp == 0 {
		clear(t.stamps)
		t.stamp = 1
	}
}

func (t *table) bytes() int64 {
	n := t.rows.bytes() + 4*int64(cap(t.stamps)) + t.staged.bytes()
	for i := range t.shards {
		n += indexSlotBytes * int64(len(t.shards[i].slots))
	}
	return n
}

// clear forgets every row; the slabs stay for the rows to come.
func (t *table) clear() {
	clear(t.shards)
	t.rows.n = 0
	t.stamps = t.stamps[:0]
	t.staged.reset()
}
