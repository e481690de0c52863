package table

import "unsafe"

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

// findFlat is findAll if two steps, instead of three, lead to a bucket. Each turn takes one
// step of each of four groups: prefetch the entries of flat, prefetch the buckets, probe
// them, probe the later buckets.
func (x *index) findFlat(keys []uint64, rows []Row) (cold bool) {
	var groups [4]flatGroup
	union, n := Row(0), len(keys)
	for lo := 0; lo < n+3*group; lo += group {
		turn := lo / group
		if g := &groups[turn%4]; lo < n {
			some := keys[lo:min(lo+group, n)]
			hashAll(g.hashes[:], some, x.salt)
			x.prefetchFlat(g.hashes[:len(some)])
		}
		if lo := lo - group; lo >= 0 && lo < n {
			x.prefetchBuckets(&groups[(turn+3)%4], min(group, n-lo))
		}
		if lo := lo - 2*group; lo >= 0 && lo < n {
			hi := min(lo+group, n)
			union |= groups[(turn+2)%4].probe(keys[lo:hi], rows[lo:hi])
		}
		if lo := lo - 3*group; lo >= 0 {
			union |= x.probeOthers(keys[lo:], rows[lo:], &groups[(turn+1)%4])
		}
	}
	return union.onDisk()
}

// probe finds the keys of a group that are in their first buckets. It prefetches the next
// bucket of keys that may be in a later one. It returns the bitwise or of all rows.
func (g *flatGroup) probe(keys []uint64, rows []Row) (union Row) {
	g.others, union = g.match(keys, rows, &g.missed)
	var starts [group]*byte
	for i, other := range g.missed[:g.others] {
		starts[i] = (*byte)(unsafe.Pointer(g.starts[other]))
	}
	prefetch(starts[:g.others], bucketBytes)
	return union
}

// probeOthers finds the keys of a group that are in later buckets. It returns the bitwise or
// of their rows.
func (x *index) probeOthers(keys []uint64, rows []Row, g *flatGroup) (union Row) {
	for _, i := range g.missed[:g.others] {
		h := g.hashes[i]
		piece := h >> (64 - x.depth)
		if row := find(unsafe.Slice(x.flat[piece], int(x.masks[piece])+1), keys[i], h); row != nil {
			rows[i] = *row
			union |= *row
		}
	}
	return union
}
