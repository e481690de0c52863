package table

import (
	"cmp"
	"slices"
)

// index maps the keys of one shard of one table to row numbers, by open
// addressing with linear probing. The zero value is empty and takes no memory
// but itself.
type index struct {
	slots []indexSlot
	n     int // slots in use
	limit int // at this many the index doubles before the next insert
}

// indexSlot is 12 bytes: halves of the key spare the padding that a uint64
// would bring, and one probe reads one cache line. Row 0 marks a free slot, so
// that every key can be stored.
type indexSlot struct {
	lo, hi, row uint32
}

const (
	indexSlotBytes = 12
	minIndexSlots  = 8
)

// find returns the row of a key, 0 if the index does not hold it.
func (x *index) find(key, hash uint64) uint32 {
	if x.n == 0 {
		return 0
	}
	lo, hi, mask := uint32(key), uint32(key>>32), uint64(len(x.slots)-1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &x.slots[i]
		if s.row == 0 || s.lo == lo && s.hi == hi {
			return s.row
		}
	}
}

// insert adds a key that find does not know. salt gives the hash of the keys
// that move when the index grows; shard staggers when it does.
func (x *index) insert(key uint64, row uint32, salt uint64, shard int) {
	if x.n >= x.limit {
		x.grow(salt, shard)
	}
	x.put(key, hash(salt, key), row)
	x.n++
}

func (x *index) put(key, hash uint64, row uint32) {
	mask := uint64(len(x.slots) - 1)
	i := hash & mask
	for x.slots[i].row != 0 {
		i = (i + 1) & mask
	}
	x.slots[i] = indexSlot{uint32(key), uint32(key >> 32), row}
}

// grow doubles the slots. Shards of a table fill at the same pace, so each has
// its own threshold between 39/64 and 51/64: they do not all double in the same
// step, a key never costs more than 24·64/39 < 40 bytes, and probes stay short.
func (x *index) grow(salt uint64, shard int) {
	old := x.slots
	x.slots = make([]indexSlot, max(minIndexSlots, 2*len(old)))
	x.limit = len(x.slots) * (39 + shard*7%13) / 64
	for _, s := range old {
		if s.row != 0 {
			key := s.key()
			x.put(key, hash(salt, key), s.row)
		}
	}
}

// sorted returns the slots in use by ascending key.
func (x *index) sorted() []indexSlot {
	used := make([]indexSlot, 0, x.n)
	for _, slot := range x.slots {
		if slot.row != 0 {
			used = append(used, slot)
		}
	}
	slices.SortFunc(used, func(a, b indexSlot) int { return cmp.Compare(a.key(), b.key()) })
	return used
}

func (s indexSlot) key() uint64 { return uint64(s.hi)<<32 | uint64(s.lo) }
