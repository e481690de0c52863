package table

import (
	"math/bits"
	"unsafe"
)

// index maps the keys of a table to rows. It is an extendible hash table (Fagin,
// Nievergelt, Pippenger and Strong 1979) for each shard: a directory of segments, each a
// flat table of buckets with linear probing. A full segment is doubled if it is small, and
// split otherwise, which moves some thousand keys. No operation moves all keys.
//
// The bits of a hash, from the top: shard, index in the shard's directory, …, bucket of the
// segment.
type index struct {
	salt   uint64
	bits   uint // log2 of the number of shards
	shards []directory
	flat   []*bucket // by the first depth bits of a hash: first bucket of its segment, or of none; nil if a segment is deeper
	masks  []uint16  // by the same bits: the segment's buckets minus one. Two slices need 10 bytes per entry, one of slices 24
	depth  uint      // number of hash bits that index flat: the bits of a shard plus the depth of its deepest segment
	keys   []int     // by shard: number of keys, kept together because they are summed often
	large  slabs     // segments with maxSegment buckets
	used   uint32    // items of large in use
	free   []uint32
	bytes  int64 // of all segments and directories, and of the growth of flat
	moving []bucket
	none   segment // segment of a shard without keys
}

// directory finds the segments of one shard by the next depth bits of a hash.
type directory struct {
	segments []*segment  // 2^depth; nil for a shard without keys
	one      [1]*segment // a segment of depth 0, kept here to save a cache miss
	shift    uint        // 64 − bits − depth
}

// segment is a part of a shard: a power of two of buckets, at least one of them with room.
type segment struct {
	buckets []bucket
	n       int // keys
	limit   int // at this number of keys the segment grows before the next insert
	depth   uint
	number  uint32 // index in large, if it has maxSegment buckets
}

// bucket is a cache line with up to five keys and their rows. Used places come first. Row 0
// marks a free place, so that every key can be stored; the key of a free place is 0. A key is
// inserted in the first bucket with room, starting from the bucket that its hash selects. It
// is counted and marked in the full buckets before that one. Find therefore reads one line
// for almost all keys, present or absent.
type bucket struct {
	keys   [bucketKeys]uint64
	rows   [bucketKeys]Row
	passed uint16 // number of keys that are in a later bucket because this one was full
	marks  uint16 // one bit for each such key, chosen by its hash; 0 if passed is 0
}

// passedBy reports whether a key with hash h may be in a later bucket.
func (b *bucket) passedBy(h uint64) bool { return b.marks&mark16(h) != 0 }

func mark16(h uint64) uint16 { return 1 << (h >> 16 & 15) }

// flatBytes is the size of an entry of flat. The initial entries, one per shard, are not
// counted.
const flatBytes = 10

const (
	lineBytes    = 64 // size of a cache line
	bucketKeys   = 5
	bucketBytes  = lineBytes
	maxSegment   = 1024
	fullest      = 58 // largest limit, of 64 places
	segmentBytes = int64(unsafe.Sizeof(segment{}))
	shardBytes   = int64(unsafe.Sizeof(directory{}) + unsafe.Sizeof(int(0))) // a directory with its first entry, and its number of keys
)

func newIndex(salt uint64, shards int) index {
	x := index{salt: salt, bits: uint(bits.TrailingZeros(uint(shards))), shards: make([]directory, shards), keys: make([]int, shards), large: newSlabs(bucketBytes * maxSegment), none: segment{buckets: make([]bucket, 1)}}
	x.flat, x.masks, x.depth = make([]*bucket, shards), make([]uint16, shards), x.bits
	for i := range x.shards {
		x.shards[i].shift, x.flat[i] = 64-x.bits, &x.none.buckets[0]
	}
	return x
}

func (x *index) shardOf(h uint64) int { return int(h >> (64 - x.bits)) }

// segment returns the segment of a hash, or nil if the shard has no keys.
func (x *index) segment(h uint64) *segment {
	d := &x.shards[h>>(64-x.bits)]
	if len(d.segments) == 0 {
		return nil
	}
	return d.segments[h>>d.shift&uint64(len(d.segments)-1)]
}

// find returns the place of a key's row, or nil if the segment does not have the key.
func (s *segment) find(key, h uint64) *Row { return find(s.buckets, key, h) }

func find(buckets []bucket, key, h uint64) *Row {
	mask := uint64(len(buckets) - 1)
	for i := range mask + 1 { // keys may have passed every bucket
		b := &buckets[(h+i)&mask]
		if at := b.at(key); at >= 0 {
			return &b.rows[at]
		}
		if !b.passedBy(h) {
			break
		}
	}
	return nil
}

// add stores a key that is not in the segment, which must have room.
func (s *segment) add(key, h uint64, row Row) {
	mask, i := uint64(len(s.buckets)-1), h
	b := &s.buckets[i&mask]
	for b.rows[bucketKeys-1] != 0 {
		b.passed++
		b.marks |= mark16(h)
		i++
		b = &s.buckets[i&mask]
	}
	at := b.used()
	b.keys[at], b.rows[at] = key, row
	s.n++
}

// used returns the number of keys in a bucket that is not full.
func (b *bucket) used() int {
	n := 0
	for _, r := range b.rows[:bucketKeys-1] {
		n += int((r | -r) >> 31)
	}
	return n
}

// find returns the row of a key, or 0 if the index does not have it.
func (x *index) find(key, h uint64) Row {
	if s := x.segment(h); s != nil {
		if r := s.find(key, h); r != nil {
			return *r
		}
	}
	return 0
}

// insert adds a key that is not in the index.
func (x *index) insert(key, h uint64, row Row) {
	s := x.segment(h)
	for s == nil || s.n >= s.limit {
		x.grow(h, s)
		s = x.segment(h)
	}
	s.add(key, h, row)
	x.keys[x.shardOf(h)]++
}

// grow enlarges or splits the segment of a hash.
func (x *index) grow(h uint64, s *segment) {
	d := &x.shards[x.shardOf(h)]
	switch {
	case s == nil:
		d.one[0] = x.newSegment(1, 0, h)
		d.segments = d.one[:]
		x.flatten(h, d.one[0])
		x.bytes += segmentBytes + shardBytes
	case len(s.buckets) < maxSegment:
		x.double(s, h)
	default:
		x.split(d, s, h)
	}
}

// newSegment returns an empty segment of n buckets for the keys that share the
// first bits of h.
func (x *index) newSegment(n int, depth uint, h uint64) *segment {
	s := &segment{depth: depth, limit: x.limit(n, depth, h)}
	if n < maxSegment {
		s.buckets = make([]bucket, n)
	} else {
		s.number = x.allocate()
		s.buckets = unsafe.Slice((*bucket)(x.large.at(s.number)), n)
	}
	x.bytes += bucketBytes * int64(n)
	return s
}

// limit returns the number of keys at which a segment of n buckets grows. All segments fill
// at the same rate. To make them grow one after the other and not in the same step, the
// limits of the segments of one depth are spread evenly from fullest/64 of the places down
// to half of it, in the order of their bit-reversed indices (van der Corput 1935). While
// segments grow, those with higher limits have not grown yet. The ratio of places to keys
// therefore stays 128 to fullest.
func (x *index) limit(n int, depth uint, h uint64) int {
	place := h >> 1 >> (63 - x.bits - depth)
	below := bits.Reverse64(place) >> 32
	most := uint64(n) * bucketKeys * fullest
	return int((most<<32 - most/2*below) / 64 >> 32)
}

func (x *index) allocate() uint32 {
	if last := len(x.free) - 1; last >= 0 {
		n := x.free[last]
		x.free = x.free[:last]
		return n
	}
	n := x.used
	x.used++
	x.large.reserve(n)
	return n
}

// double doubles the buckets of a small segment.
func (x *index) double(s *segment, h uint64) {
	old := s.buckets
	x.bytes -= bucketBytes * int64(len(old))
	*s = *x.newSegment(2*len(old), s.depth, h)
	x.flatten(h, s)
	each(old, func(key uint64, row Row) { s.add(key, hash(x.salt, key), row) })
}

// maxFlat bounds the depth of flat. A table of two thousand million rows has segments of
// that depth. Without a bound, hashes that share many bits could demand any depth.
const maxFlat = 21

// flatten enters the buckets of a segment of hash h in flat, which find reads first.
func (x *index) flatten(h uint64, s *segment) { x.note(h, x.bits+s.depth, s) }

// note maps all hashes that share the first bits of h to the buckets of a segment.
func (x *index) note(h uint64, first uint, s *segment) {
	if x.flat == nil {
		return
	}
	run := 1 << (x.depth - first)
	lo := int(h>>(64-x.depth)) &^ (run - 1)
	for i := lo; i < lo+run; i++ {
		x.flat[i], x.masks[i] = &s.buckets[0], uint16(len(s.buckets)-1)
	}
}

// deepen doubles flat for segments that are deeper by one.
func (x *index) deepen() {
	flat, masks := x.flat, x.masks
	if x.depth >= maxFlat {
		x.flat, x.masks = nil, nil
		x.bytes -= flatBytes * int64(len(flat)-len(x.shards))
		return
	}
	x.flat, x.masks, x.depth = make([]*bucket, 2*len(flat)), make([]uint16, 2*len(masks)), x.depth+1
	for i := range x.flat {
		x.flat[i], x.masks[i] = flat[i/2], masks[i/2]
	}
	x.bytes += flatBytes * int64(len(flat))
}

// split moves the keys of a large segment whose next bit is 1 to a new segment.
func (x *index) split(d *directory, s *segment, h uint64) {
	if len(d.segments) == 1<<s.depth {
		x.bytes += 8 * int64(len(d.segments))
		wide := make([]*segment, 2*len(d.segments))
		for i := range wide {
			wide[i] = d.segments[i/2]
		}
		d.segments, d.shift = wide, d.shift-1
	}
	if x.flat != nil && x.bits+s.depth == x.depth {
		x.deepen()
	}
	bit := uint64(1) << (63 - x.bits - s.depth)
	high := x.newSegment(maxSegment, s.depth+1, h|bit)
	x.bytes += segmentBytes
	run := len(d.segments) >> s.depth // entries of s; the second half now belongs to high
	first := int(h>>d.shift) & (len(d.segments) - 1) &^ (run - 1)
	for i := first + run/2; i < first+run; i++ {
		d.segments[i] = high
	}
	s.depth, s.n, s.limit = s.depth+1, 0, x.limit(maxSegment, s.depth+1, h&^bit)
	x.flatten(h|bit, high) // s keeps its buckets
	x.moving = append(x.moving[:0], s.buckets...)
	clear(s.buckets)
	each(x.moving, func(key uint64, row Row) {
		to, h := s, hash(x.salt, key)
		if h&bit != 0 {
			to = high
		}
		to.add(key, h, row)
	})
}

// remove removes a key that is in the index. The last key of its bucket takes its place.
func (x *index) remove(key, h uint64) {
	s := x.segment(h)
	x.keys[x.shardOf(h)]--
	mask := uint64(len(s.buckets) - 1)
	b := &s.buckets[h&mask]
	at := b.at(key)
	for ; at < 0; at = b.at(key) {
		if b.passed--; b.passed == 0 {
			b.marks = 0
		}
		h++
		b = &s.buckets[h&mask]
	}
	last := bucketKeys - 1
	for b.rows[last] == 0 {
		last--
	}
	b.keys[at], b.rows[at] = b.keys[last], b.rows[last]
	b.keys[last], b.rows[last] = 0, 0
	s.n--

}

// at returns the place of a key in a bucket, or −1.
func (b *bucket) at(key uint64) int {
	for i, k := range b.keys {
		if k == key && b.rows[i] != 0 {
			return i
		}
	}
	return -1
}

// each calls f with the keys of a shard and their rows, in no particular order. f may not
// insert or remove keys.
func (x *index) each(shard int, f func(key uint64, row Row)) {
	d := &x.shards[shard]
	for i := 0; i < len(d.segments); i += len(d.segments) >> d.segments[i].depth {
		each(d.segments[i].buckets, f)
	}
}

// each calls f with the keys of buckets and their rows.
func each(buckets []bucket, f func(key uint64, row Row)) {
	for i := range buckets {
		b := &buckets[i]
		for j, row := range b.rows {
			if row == 0 {
				break
			}
			f(b.keys[j], row)
		}
	}
}

// drop removes all keys of a shard.
func (x *index) drop(shard int) {
	d := &x.shards[shard]
	for i := 0; i < len(d.segments); {
		s := d.segments[i]
		i += len(d.segments) >> s.depth
		x.bytes -= bucketBytes*int64(len(s.buckets)) + segmentBytes
		if len(s.buckets) == maxSegment {
			clear(s.buckets)
			x.free = append(x.free, s.number)
		}
	}
	if n := int64(len(d.segments)); n > 0 {
		x.bytes -= shardBytes + 8*(n-1)
	}
	*d, x.keys[shard] = directory{shift: 64 - x.bits}, 0
	x.note(uint64(shard)<<(64-x.bits), x.bits, &x.none)
}
