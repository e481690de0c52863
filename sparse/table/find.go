package table

import (
	"math"
	"unsafe"
)

// Find writes the row of each key to rows, or 0 if the key has none. It first moves rows on
// disk back to memory, which may change the Epoch. It returns an error only if the disk
// fails.
func (t *tiered) Find(keys []uint64, rows []Row) error {
	if err := t.enforceLimit(); err != nil {
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

// lookup is Find without counting.
func (t *tiered) lookup(keys []uint64, rows []Row) error {
	rows = rows[:len(keys)]
	if cold := t.index.findAll(keys, rows); cold {
		return t.moveToMemory(keys, rows)
	}
	return nil
}

// probes holds where the probing of the keys of a group begins.
type probes struct {
	hashes   [group]uint64
	segments [group]*segment
	starts   [group]*byte
}

// prefetch computes where the probing of keys begins and prefetches that memory. It also
// prefetches the directory entries and segments that lead there, for all keys before it
// reads the first.
func (x *index) prefetch(keys []uint64, p *probes) {
	hashAll(p.hashes[:], keys, x.salt)
	for i, h := range p.hashes[:len(keys)] {
		p.starts[i] = (*byte)(unsafe.Pointer(&x.shards[h>>(64-x.bits)]))
	}
	prefetch(p.starts[:len(keys)], 0)
	for i := range keys {
		s := x.segment(p.hashes[i])
		if s == nil {
			s = &x.none
		}
		p.segments[i], p.starts[i] = s, (*byte)(unsafe.Pointer(s))
	}
	prefetch(p.starts[:len(keys)], 0)
	for i := range keys {
		s := p.segments[i]
		p.starts[i] = (*byte)(unsafe.Pointer(&s.buckets[p.hashes[i]&uint64(len(s.buckets)-1)]))
	}
	prefetch(p.starts[:len(keys)], 0)
}

// findAll finds keys and reports whether any row is on disk.
func (x *index) findAll(keys []uint64, rows []Row) (cold bool) {
	if x.flat != nil {
		return x.findFlat(keys, rows)
	}
	for at := 0; at < len(keys); at += group {
		end := min(at+group, len(keys))
		cold = x.findGroup(keys[at:end], rows[at:end]) || cold
	}
	return cold
}

// findGroup is findAll for the keys of a group. It prefetches the memory of all keys before it
// reads the first.
func (x *index) findGroup(keys []uint64, rows []Row) (cold bool) {
	var p probes
	x.prefetch(keys, &p)
	for i, key := range keys {
		rows[i] = 0
		if r := p.segments[i].find(key, p.hashes[i]); r != nil {
			rows[i] = *r
			cold = cold || r.onDisk()
		}
	}
	return cold
}

// Read writes the values of rows to dst: the values of row i to dst[i·stride : i·stride+V]. For
// a row of 0 it writes the initial values of the key or, if keys is nil, negative zeros.
// They add nothing to a sum, and no trained row consists of them (see [IsUnknown]).
func (t *steps) Read(keys []uint64, rows []Row, dst []float32, stride int) {
	var pointers [chunk + ahead]*byte
	t.catchUp(rows)
	for at := 0; at < len(rows); at += chunk {
		end := min(at+chunk, len(rows))
		if t.used > 0 { // otherwise no memory is allocated, not even for row 0
			coming := rows[at:min(end+ahead, len(rows))]
			t.records.locate(coming, pointers[:])
			t.copyValues(dst[at*stride:], stride, pointers[:len(coming)], end-at)
		}
		if keys != nil {
			t.begin(keys[at:end], rows[at:end], dst[at*stride:], stride)
			continue
		}
		for i := at; i < end; i++ {
			if rows[i] == 0 {
				FillUnknown(dst[i*stride : i*stride+t.width])
			}
		}
	}
}

// minusZero is the bits of -0. Optimizer steps add and subtract, which never turns values
// of which one is not -0 into all -0.
const minusZero = 1 << 31

// FillUnknown writes the values of a key without a row: zeros that [IsUnknown] recognises.
func FillUnknown(values []float32) {
	for i := range values {
		values[i] = math.Float32frombits(minusZero)
	}
}

// IsUnknown reports whether values, written by Read, belong to a key without a row.
func IsUnknown(values []float32) bool {
	for _, v := range values {
		if math.Float32bits(v) != minusZero {
			return false
		}
	}
	return true
}

// copyValues writes the values of the first n records to dst. The other records belong to
// the next call.
func (t *shape) copyValues(dst []float32, stride int, records []*byte, n int) {
	if t.cfg.Values == Float32 {
		gather(dst, stride, records, n, t.width)
		return
	}
	prefetch(records, 0)
	for i, p := range records[:n] {
		expand(dst[i*stride:i*stride+t.width], unsafe.Slice((*float32)(unsafe.Pointer(p)), t.packed))
	}
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

// begins writes the state of a record that holds the initial values.
func (t *shape) begins(rec []float32) {
	copy(rec[t.packed:], t.fresh)
	for i := range t.parts {
		if p := &t.parts[i]; p.stateOfValues {
			p.Rule.InitState(t.values(rec)[p.lo:p.hi], rec[p.stateLo:p.stateHi])
		}
	}
}
