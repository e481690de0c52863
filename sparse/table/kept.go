package table

import (
	"math"
	"unsafe"
)

// kept holds rows as they were before their first change after the start of a snapshot. It
// holds them until their shards are saved.
type kept struct {
	t       *memory
	set     *Set       // keys that were about to change
	item    []uint32   // by number in set: its record in items, 0 for a key that had no row
	before  []int32    // by number: previous value of last
	last    []int32    // by shard: number of the last kept key plus one, 0 for none
	pending []bool     // by shard: still to be saved
	all     bool       // every row of the pending shards is kept
	items   slabs      // words of a record in its memory format, stamp, score
	used    uint32     // items in use; item 0 means none
	keys    []uint64   // of a step, in pending shards
	rows    []Row      // rows of keys
	ids     []uint32   // numbers of keys
	given   [][]uint64 // by shard: keys removed since the base of the snapshot; nil if there are none
	gave    int        // number of keys in given

	seen map[int]sketch // by shard: occurrence counts at the start, if steps have counted since
	err  error          // why no more is kept, and the rest cannot be saved
}

// givenUp returns the removed keys of a shard after sortGone.
func (k *kept) givenUp(shard int) []uint64 {
	if k.given == nil {
		return nil
	}
	return k.given[shard]
}

// spareBytes is the most memory of a closed snapshot that the table keeps.
const spareBytes = 256 << 10

// bytes returns the memory in use, except for the little that every table has.
func (k *kept) bytes() int64 {
	return k.set.Bytes() + int64(k.used)*int64(k.items.size) + 4*int64(cap(k.item)+cap(k.before)) + 8*int64(k.gave)
}

// reset clears the rows.
func (k *kept) reset() {
	k.set.Reset()
	clear(k.last)
	clear(k.pending)
	k.item, k.before, k.all, k.used, k.gave, k.err = k.item[:0], k.before[:0], false, 0, 0, nil
	for shard := range k.given {
		k.given[shard] = k.given[shard][:0]
	}
}

// free frees the memory; k may be nil.
func (k *kept) free() error {
	if k == nil {
		return nil
	}
	return k.items.free()
}

// end ends the snapshot, so that steps no longer copy rows.
func (k *kept) end(why error) {
	clear(k.pending)
	k.seen = nil
	if k.err == nil {
		k.err = why
	}
}

// copySeen copies the occurrence counts of a shard before a step changes them.
func (k *kept) copySeen(shard int, s *sketch) {
	if !k.pending[shard] {
		return
	}
	if _, has := k.seen[shard]; !has {
		if k.seen == nil {
			k.seen = map[int]sketch{}
		}
		k.seen[shard] = s.clone()
	}
}

// copyRows copies rows in memory before a step changes or inserts them.
func (k *kept) copyRows(keys []uint64, rows []Row) {
	if k.t.dense {
		k.copyAll()
	}
	k.keys, k.rows = k.keys[:0], k.rows[:0]
	for i, key := range keys {
		if k.pending[k.t.ShardOf(key)] {
			k.keys, k.rows = append(k.keys, key), append(k.rows, rows[i])
		}
	}
	n := uint32(k.set.Len())
	k.ids = resize(k.ids, len(k.keys))
	k.set.Add(k.keys, k.ids)
	for i, id := range k.ids {
		if id == n { // numbers are assigned in order, so the key is new
			k.copy(k.keys[i], k.rows[i])
			n++
		}
	}
}

// copyKey copies the row of a key, in memory or on disk, before it is changed or removed.
// row is 0 for a key to be inserted.
func (k *kept) copyKey(key uint64, row Row) {
	if !k.pending[k.t.ShardOf(key)] || k.set.Has(key) {
		return
	}
	var id [1]uint32
	k.set.Add([]uint64{key}, id[:])
	k.copy(key, row)
}

// copyAll keeps every row of the pending shards, once.
func (k *kept) copyAll() {
	if k.all {
		return
	}
	k.all = true
	for shard, pending := range k.pending {
		if pending {
			k.t.index.each(shard, k.copyKey)
		}
	}
}

// copy copies the row of the last key of the set. A disk error ends the snapshot.
func (k *kept) copy(key uint64, row Row) {
	shard, item := k.t.ShardOf(key), uint32(0)
	if row != 0 {
		rec, err := k.t.recordOf(key, row)
		if err != nil {
			k.end(err)
			return
		}
		k.used++
		k.items.reserve(k.used)
		item = k.used
		words := k.words(item)
		copy(words, rec)
		stamp, score := k.t.meta(row)
		words[len(words)-2], words[len(words)-1] = math.Float32frombits(*stamp), value(score)
	}
	k.item, k.before = append(k.item, item), append(k.before, k.last[shard])
	k.last[shard] = int32(len(k.item))
}

// words returns the words of an item.
func (k *kept) words(item uint32) []float32 {
	return unsafe.Slice((*float32)(k.items.at(item)), k.t.words()+2)
}

func (k *kept) stamp(item uint32) uint32 {
	return math.Float32bits(k.words(item)[k.t.words()])
}
