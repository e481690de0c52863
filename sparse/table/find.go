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

// findChunk finds up to chunk keys and reports whether some row is on disk. The
// first loop only says where each probe begins, so that the memory of all of them
// is on its way before the first is looked at.
func (x *index) findChunk(keys []uint64, rows []Row) (cold bool) {
	var (
		hashes   [chunk]uint64
		segments [chunk]*segment
		starts   [chunk]*byte
	)
	for i, key := range keys {
		h := hash(x.salt, key)
		s := x.segment(h)
		if s == nil {
			s = &x.none
		}
		hashes[i], segments[i] = h, s
		starts[i] = (*byte)(unsafe.Pointer(&s.slots[h&uint64(len(s.slots)-1)]))
	}
	prefetch(starts[:len(keys)], 0)
	for i, key := range keys {
		r := segments[i].find(key, hashes[i]).row
		rows[i] = r
		cold = cold || r.onDisk()
	}
	return cold
}

// Read writes the values of rows, the initial values of their keys where the row
// is 0, to dst: those of row i to dst[i·stride : i·stride+V].
func (t *Table) Read(keys []uint64, rows []Row, dst []float32, stride int) {
	var starts [chunk]*byte
	for len(rows) > 0 {
		n := min(len(rows), chunk)
		for i, r := range rows[:n] {
			starts[i] = t.start(r)
		}
		prefetchRecords(starts[:n], 4*t.packed)
		if t.cfg.Values == Float32 {
			gather(dst, stride, starts[:n], t.width)
		} else {
			for i, p := range starts[:n] {
				expand(dst[i*stride:i*stride+t.width], unsafe.Slice((*float32)(unsafe.Pointer(p)), t.packed))
			}
		}
		for i, r := range rows[:n] {
			if r == 0 {
				t.Initial(keys[i], dst[i*stride:i*stride+t.width])
			}
		}
		rows, keys = rows[n:], keys[n:]
		dst = dst[min(n*stride, len(dst)):]
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
	if err := t.Find(keys, rows); err != nil {
		return err
	}
	if err := t.room(len(keys)); err != nil {
		return err
	}
	for i, key := range keys {
		if rows[i] != 0 {
			continue
		}
		h := hash(t.salt, key)
		if r := t.index.find(key, h); r != 0 { // the same key twice
			rows[i] = r
			continue
		}
		rows[i] = t.take()
		t.index.insert(key, h, rows[i])
		t.fill(rows[i], key)
		t.stamp(rows[i], uint32(t.now+1), 1)
	}
	return nil
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
