package table

import "unsafe"

// Find writes the row of each key to rows, 0 for a key that is not held. Rows on
// disk come back to memory first, which may change the Epoch and, if the disk
// fails, is the one cause of an error.
func (t *Table) Find(keys []uint64, rows []Row) error {
	if err := t.makeRoom(); err != nil {
		return err
	}
	if err := t.lookup(keys, rows); err != nil {
		return err
	}
	hits := 0
	for _, r := range rows[:len(keys)] {
		if r != 0 {
			hits++
		}
	}
	t.counters.Hits += int64(hits)
	t.counters.Misses += int64(len(keys) - hits)
	return nil
}

// lookup is Find without its accounts.
func (t *Table) lookup(keys []uint64, rows []Row) error {
	rows = rows[:len(keys)]
	cold := false
	for at := 0; at < len(keys); at += chunk {
		end := min(at+chunk, len(keys))
		cold = t.index.findChunk(keys[at:end], rows[at:end]) || cold
	}
	if cold {
		return t.thaw(keys, rows)
	}
	return nil
}

// probes says where the probing of up to chunk keys begins.
type probes struct {
	hashes   [chunk]uint64
	segments [chunk]*segment
	starts   [chunk]*byte
}

// ask finds where the probing of keys begins and asks for that memory.
func (x *index) ask(keys []uint64, p *probes) {
	for i, key := range keys {
		h := hash(x.salt, key)
		s := x.segment(h)
		if s == nil {
			s = &x.none
		}
		p.hashes[i], p.segments[i] = h, s
		p.starts[i] = (*byte)(unsafe.Pointer(&s.slots[h&uint64(len(s.slots)-1)]))
	}
	prefetch(p.starts[:len(keys)], 0)
}

// findChunk finds up to chunk keys and reports whether some row is on disk. The
// memory of all of them is on its way before the first is looked at.
func (x *index) findChunk(keys []uint64, rows []Row) (cold bool) {
	var p probes
	x.ask(keys, &p)
	for i, key := range keys {
		r := p.segments[i].find(key, p.hashes[i]).row
		rows[i] = r
		cold = cold || r.onDisk()
	}
	return cold
}

// Read writes the values of rows, the initial values of their keys where the row
// is 0, to dst: those of row i to dst[i·stride : i·stride+V].
func (t *Table) Read(keys []uint64, rows []Row, dst []float32, stride int) {
	// starts says where rows from at on lie, ahead more of them than are copied
	// at a time.
	var starts [chunk + ahead]*byte
	first := t.starts(rows, starts[:ahead])
	for at := 0; at < len(rows); at += chunk {
		end := min(at+chunk, len(rows))
		n := end - at
		first = t.starts(first, starts[ahead:n+ahead])
		t.copyValues(dst[at*stride:], stride, starts[:n+ahead])
		copy(starts[:ahead], starts[n:n+ahead])
		for i := at; i < end; i++ {
			if rows[i] == 0 {
				t.Initial(keys[i], dst[i*stride:i*stride+t.width])
			}
		}
	}
}

// starts says where the first of rows lie, filled up with a record of zeros, and
// returns the rest of rows.
func (t *Table) starts(rows []Row, starts []*byte) []Row {
	n := min(len(rows), len(starts))
	for i, r := range rows[:n] {
		starts[i] = t.start(r)
	}
	for i := n; i < len(starts); i++ {
		starts[i] = t.start(0)
	}
	return rows[n:]
}

// copyValues writes the values of records but the last ahead to dst.
func (t *Table) copyValues(dst []float32, stride int, starts []*byte) {
	if t.cfg.Values == Float32 {
		gather(dst, stride, starts, t.width)
		return
	}
	prefetch(starts[ahead:], 0)
	for i, p := range starts[:len(starts)-ahead] {
		expand(dst[i*stride:i*stride+t.width], unsafe.Slice((*float32)(unsafe.Pointer(p)), t.packed))
	}
}

// start returns the record of a row, one of zeros for row 0.
func (t *Table) start(r Row) *byte {
	if r == 0 {
		return (*byte)(unsafe.Pointer(&t.none[0]))
	}
	return (*byte)(t.records.at(uint32(r)))
}

// Insert writes the row of each key to rows, inserting those that are not held
// with their initial values, past any admission: the way to fill a table.
func (t *Table) Insert(keys []uint64, rows []Row) error {
	if err := t.makeRoom(); err != nil {
		return err
	}
	if err := t.room(len(keys)); err != nil {
		return err
	}
	for at := 0; at < len(keys); at += chunk {
		end := min(at+chunk, len(keys))
		if err := t.lookup(keys[at:end], rows[at:end]); err != nil {
			return err
		}
		for i := at; i < end; i++ {
			if rows[i] == 0 {
				rows[i] = t.insertOnce(keys[i])
			}
		}
	}
	return nil
}

// insertOnce inserts a key with its initial record unless it is held by now.
func (t *Table) insertOnce(key uint64) Row {
	h := hash(t.salt, key)
	if r := t.index.find(key, h); r != 0 {
		return r
	}
	r := t.take()
	t.index.insert(key, h, r)
	t.fill(r, key)
	t.stamp(r, uint32(t.now+1), 1)
	return r
}

// fill writes the initial record of a key.
func (t *Table) fill(r Row, key uint64) {
	rec := t.at(r)
	if t.cfg.Values == Float32 {
		t.Initial(key, rec)
	} else {
		t.Initial(key, t.record[:t.width])
		nearest(rec, t.record[:t.width])
	}
	copy(rec[t.packed:], t.fresh)
}
