package sparse

import (
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/sparse/table"
)

func newBatch(s *Store) batch {
	tables := len(s.tables)
	l := batch{
		store: s, place: make([][]uint32, tables),
		want: newSide(s.size, tables), rowAt: make([]int, s.size*tables+1), next: make([]cursor, s.size*tables),
	}
	for _, t := range s.tables {
		set := table.NewSet(t.Salt(), s.shards.owner, s.size)
		if n := len(l.sets); n >= s.workers.n {
			set.Share(l.sets[n%s.workers.n]) // a worker fills its sets one after the other
		}
		l.sets = append(l.sets, set)
	}
	return l
}

// init sets the method values; the batch must not be copied afterwards.
func (l *batch) init() { l.onTake, l.onPlace = l.prepareTables, l.placeTables }

func (f *feature) bags() int { return max(0, len(f.offsets)-1) }

// between returns bags from ≤ b < to.
func (f *feature) between(from, to int) f32.Bags {
	if from == to {
		return f32.Bags{}
	}
	if f.single {
		return f32.Bags{At: f.at[from:to]}
	}
	return f32.Bags{Offsets: f.offsets[from : to+1], At: f.at, Coefs: f.coefs}
}

func newSide(ranks, tables int) side {
	return side{
		counts: make([]int64, ranks*tables), at: make([]int, ranks*tables+1),
		keyBytes: make([]int, ranks), rowBytes: make([]int, ranks), gradBytes: make([]int, ranks), markBytes: make([]int, ranks), markAt: make([]int, ranks),
	}
}

// layout places the sections, whose counts are set, and returns the number of keys.
func (d *side) layout(s *Store) int {
	tables := len(s.tables)
	clear(d.gradBytes)
	for i, n := range d.counts {
		d.at[i+1] = d.at[i] + int(n)
		d.gradBytes[i/tables] += s.wire[i%tables].Gradients.section(int(n) * s.tables[i%tables].Width())
	}
	marks := 0
	for r := range d.keyBytes {
		n := d.at[(r+1)*tables] - d.at[r*tables]
		d.keyBytes[r], d.markBytes[r], d.markAt[r] = 8*n, 0, marks
		if r != s.rank {
			d.markBytes[r] = (n + 7) / 8
		}
		marks += d.markBytes[r]
	}
	d.marks = resize(d.marks, marks)
	return d.at[len(d.counts)]
}

// index checks the bags, copies what backward needs of them, and numbers the distinct keys
// of each table.
func (l *batch) index(bags []Bags, background bool) error {
	s := l.store
	if err := l.measureBags(bags); err != nil {
		return err
	}
	if l.bagged != nil {
		l.bagged.reset()
	}
	values, offsets, coefs := 0, 0, 0
	for f := range bags {
		b, x := &bags[f], &l.features[f]
		n := l.values(b)
		x.at, x.ids, x.coefs = l.at[values:values+n], l.ids[values:values+n], nil
		values += n
		if x.offsets == nil {
			x.offsets = l.offsets[offsets : offsets+len(b.Offsets)]
			copy(x.offsets, b.Offsets)
			offsets += len(b.Offsets)
		}
		l.tally.KeysPulled += int64(len(b.Values))
		if s.how[b.Table] == Pooled {
			l.bagged.addFeature(f, b)
			continue
		}
		if !x.plain {
			x.coefs = l.coefs[coefs : coefs+n]
			b.coefficients(x.coefs)
			coefs += n
		}
	}
	l.taken = bags
	err := s.workers.all(background, l.onTake)
	l.taken = nil
	return err
}

// prepareTables is the part of index on the tables of a worker.
func (l *batch) prepareTables(worker int) error {
	s := l.store
	for t := range l.sets {
		if s.workers.has(worker, t) {
			l.sets[t].Reset()
		}
	}
	for f := range l.taken {
		if b := &l.taken[f]; s.how[b.Table] != Pooled && s.workers.has(worker, b.Table) {
			l.sets[b.Table].Add(b.Values, l.features[f].ids)
		}
	}
	return nil
}

// measureBags checks the bags, allocates memory for the copies of take, and classifies the
// features.
func (l *batch) measureBags(bags []Bags) error {
	s := l.store
	values, offsets, coefs := 0, 0, 0
	l.features = resize(l.features, len(bags))
	for f := range bags {
		b, x := &bags[f], &l.features[f]
		ones := l.onesOf(len(b.Offsets))
		x.table, x.offsets, x.single = b.Table, nil, b.single(ones)
		if err := b.check(len(s.tables), x.single); err != nil {
			return fmt.Errorf("feature %d%s: %w", f, s.tableName(b.Table), err)
		}
		values += l.values(b)
		pooled := s.how[b.Table] == Pooled
		if x.single && !pooled {
			x.offsets = ones
		} else {
			offsets += len(b.Offsets)
		}
		if x.plain = x.single || pooled || b.plain(); !x.plain {
			coefs += len(b.Values)
		}
		x.single = x.single || pooled // owners pool these bags, which arrive as one value each
	}
	l.offsets, l.at, l.ids, l.coefs = resize(l.offsets, offsets), resize(l.at, values), resize(l.ids, values), resize(l.coefs, coefs)
	return nil
}

// onesOf returns the n offsets of n−1 bags of one value each.
func (l *batch) onesOf(n int) []int32 {
	for i := len(l.ones); i < n; i++ {
		l.ones = append(l.ones, int32(i))
	}
	return l.ones[:n]
}

// values returns the number of values of a feature: keys, or bags if owners pool them.
func (l *batch) values(b *Bags) int {
	if l.store.how[b.Table] == Pooled {
		return max(0, len(b.Offsets)-1)
	}
	return len(b.Values)
}

func (s *Store) tableName(t int) string {
	if t < 0 || t >= len(s.tables) {
		return ""
	}
	return fmt.Sprintf(" (table %q)", s.name(t))
}

// partition puts the unique keys in sections by owner and table, in order of first
// occurrence within each. It replaces the numbers of values by offsets of rows.
func (l *batch) partition(background bool) error {
	s := l.store
	for t := range s.tables {
		l.tally.UniqueKeys += int64(l.sets[t].Len())
		for owner, n := range l.sets[t].Counts() {
			l.want.counts[owner*len(s.tables)+t] = int64(n)
		}
	}
	n := l.want.layout(s)
	l.want.keys = wordsOf(l.send.keys.take(8 * n))
	for r := range s.size {
		if n := l.want.keyBytes[r] / 8; n > s.cfg.MaxKeysPerExchange {
			return fmt.Errorf("the batch has %d keys of rank %d, at most %d are allowed: make the batch smaller or raise MaxKeysPerExchange", n, r, s.cfg.MaxKeysPerExchange)
		}
	}
	if err := l.placeRows(); err != nil {
		return err
	}
	return s.workers.all(background, l.onPlace)
}

// placeTables makes the part of partition on the tables of a worker.
func (l *batch) placeTables(worker int) error {
	s := l.store
	if s.size == 1 {
		l.placeInOrder(worker)
		return nil
	}
	for t, x := range s.tables {
		if !s.workers.has(worker, t) {
			continue
		}
		keys, owners := l.sets[t].Keys(), l.sets[t].Owners()
		for id, key := range keys {
			c := &l.next[int(owners[id])*len(s.tables)+t]
			l.want.keys[c.key] = key
			l.place[t][id] = uint32(c.row)
			c.key++
			c.row += x.Width()
		}
	}
	for f := range l.features {
		x := &l.features[f]
		if s.how[x.table] == Pooled || !s.workers.has(worker, x.table) {
			continue // pooled bags are already placed
		}
		place := l.place[x.table]
		at := x.at[:len(x.ids)]
		for i, id := range x.ids {
			at[i] = place[id]
		}
	}
	return nil
}

// placeInOrder is placeTables for a single rank. It owns all keys, so rows are
// in the order of the numbers of their keys.
func (l *batch) placeInOrder(worker int) {
	s := l.store
	for t, x := range s.tables {
		if !s.workers.has(worker, t) {
			continue
		}
		c, width := l.next[t], uint32(x.Width())
		copy(l.want.keys[c.key:], l.sets[t].Keys())
		at := uint32(c.row)
		for id := range l.place[t] {
			l.place[t][id] = at
			at += width
		}
	}
	for f := range l.features {
		x := &l.features[f]
		if s.how[x.table] == Pooled || !s.workers.has(worker, x.table) {
			continue
		}
		first, width := uint32(l.next[x.table].row), uint32(s.tables[x.table].Width())
		at := x.at[:len(x.ids)]
		for i, id := range x.ids {
			at[i] = first + id*width
		}
	}
}

// placeRows computes where the rows of each section begin and allocates memory for them.
func (l *batch) placeRows() error {
	tables := l.store.tables
	for t, set := range l.sets {
		l.place[t] = resize(l.place[t], set.Len())
	}
	at := 0
	for i, n := range l.want.counts {
		l.next[i] = cursor{l.want.at[i], at}
		l.rowAt[i] = at
		at += int(n) * tables[i%len(tables)].Width()
	}
	l.rowAt[len(l.want.counts)] = at
	if l.bagged != nil {
		at = l.bagged.place(at)
	}
	if at > math.MaxUint32 {
		return fmt.Errorf("the rows of one pull have %d values, at most %d are possible: make the batch smaller", at, uint32(math.MaxUint32))
	}
	l.rows = resize(l.rows, at)
	return nil
}
