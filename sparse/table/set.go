package table

import "slices"

// Set numbers distinct keys from 0 in the order of their first Add, and determines which
// rank owns each. A Set, together with all sets that share its slots, is for one goroutine.
type Set struct {
	salt   uint64
	owner  []int32 // by shard; nil: one rank owns all
	shift  uint
	keys   []uint64 // by number
	owners []int32  // by number, if owner is set
	counts []int    // by rank
	*places
	placed int // number of keys that are in places
}

// places holds the slots in which the keys of a set are found.
type places struct {
	setSlots
	of *Set // the set whose keys are in the slots
}

const (
	minSetSlots = 512
	// nearSetSlots fit in the second-level cache and need no prefetch.
	nearSetSlots = 16 << 10
)

// NewSet returns an empty set for keys of the table with that salt. owner[shard] is the
// rank, from 0 to ranks−1, that owns a shard; the number of shards is a power of two. Every
// Add reads owner, which may change between a Reset and the next Add. With one rank it may
// be nil, and the set then records no owners.
func NewSet(salt uint64, owner []int32, ranks int) *Set {
	if ranks <= 1 {
		owner = nil
	}
	s := &Set{salt: salt, owner: owner, counts: make([]int, max(1, ranks)), places: &places{setSlots: setSlots{epoch: 1}}}
	s.of = s
	if owner != nil {
		s.shift = shardShift(len(owner))
	}
	return s
}

// Share makes s, which must be empty, use the slots of another set. The slots stay in
// the cache while many sets are filled one after the other. When two such sets
// alternate, their keys are placed again each time.
func (s *Set) Share(with *Set) { s.places = with.places }

// Reset empties the set.
func (s *Set) Reset() {
	s.keys, s.owners = s.keys[:0], s.owners[:0]
	clear(s.counts)
	if s.placed = 0; s.of == s {
		s.empty()
	}
}

// Append adds keys without looking them up. The caller guarantees that they are
// distinct and not in the set. The next lookup places them in slots.
func (s *Set) Append(keys []uint64) {
	s.keys = append(s.keys, keys...)
	s.assign(keys)
}

// place fills the slots with all keys of this set.
func (s *Set) place() {
	if s.of != s {
		s.of, s.placed = s, 0
		s.empty()
	}
	for 2*len(s.keys) > len(s.slots) {
		s.grow()
	}
	mask := uint64(len(s.slots) - 1)
	for ; s.placed < len(s.keys); s.placed++ {
		key := s.keys[s.placed]
		j := hash(s.salt, key) & mask
		for s.slots[j].tag>>32 == s.epoch {
			j = (j + 1) & mask
		}
		s.slots[j] = setSlot{key, s.epoch<<32 | uint64(s.placed)}
	}
}

// Len returns the number of keys in the set.
func (s *Set) Len() int { return len(s.keys) }

// Keys returns the keys by number. The set owns the slice.
func (s *Set) Keys() []uint64 { return s.keys }

// Owners returns the owner of each key by number, or nil for a set of one rank. The set
// owns the slice.
func (s *Set) Owners() []int32 { return s.owners }

// Counts returns the number of keys that each rank owns. The set owns the slice.
func (s *Set) Counts() []int { return s.counts }

// Add adds keys and writes the number of each to ids. If the slots exceed the second-level
// cache, Add prefetches the slots of later keys.
func (s *Set) Add(keys []uint64, ids []uint32) {
	ids = ids[:len(keys)]
	var hashes [2][setChunk]uint64
	var missed [setChunk]uint8
	s.place()
	s.reserve(min(len(keys), setChunk))
	s.prefetch(keys, &hashes[0])
	for now := 0; len(keys) > 0; now = 1 - now {
		n := min(len(keys), setChunk)
		s.reserve(n)
		s.prefetch(keys[n:], &hashes[1-now])
		s.insert(s.match(keys[:n], &hashes[now], ids, &missed), keys[:n], &hashes[now], ids)
		keys, ids = keys[n:], ids[n:]
	}
}

// reserve allocates slots for n more keys.
func (s *Set) reserve(n int) {
	for 2*(len(s.keys)+n) > len(s.slots) {
		s.grow()
		s.place()
	}
	s.keys = slices.Grow(s.keys, n)
	if s.owner != nil {
		s.owners = slices.Grow(s.owners, n)
	}
}

// prefetch hashes the first chunk of keys. It prefetches their slots unless these are in the
// cache.
func (s *Set) prefetch(keys []uint64, hashes *[setChunk]uint64) {
	keys = keys[:min(len(keys), setChunk)]
	hashAll(hashes[:], keys, s.salt)
	if len(s.slots) > nearSetSlots {
		prefetchSet(s.slots, hashes[:len(keys)])
	}
}

// insert numbers the keys with the given indices. reserve has been called. Most of the keys
// are new; some occur twice in the chunk. Only collisions with other keys cause a branch.
func (s *Set) insert(missed []uint8, keys []uint64, hashes *[setChunk]uint64, ids []uint32) {
	slots, mask, epoch := s.slots, uint64(len(s.slots)-1), s.epoch
	known := len(s.keys)
	all, n := s.keys[:cap(s.keys)], known
	for _, i := range missed {
		key, j := keys[i], hashes[i&(setChunk-1)]&mask
		slot := &slots[j]
		tag := slot.tag
		for tag>>32 == epoch && slot.key != key {
			j = (j + 1) & mask
			slot = &slots[j]
			tag = slot.tag
		}
		all[n] = key
		fresh, next := epoch<<32|uint64(n), n
		if tag>>32 != epoch {
			tag, next = fresh, n+1
		}
		slot.key, slot.tag = key, tag
		ids[i], n = uint32(tag), next
	}
	s.keys, s.placed = all[:n], n
	s.assign(s.keys[known:])
}

// assign determines the owners of new keys and counts them.
func (s *Set) assign(keys []uint64) {
	if s.owner == nil {
		s.counts[0] += len(keys)
		return
	}
	var hashes [setChunk]uint64
	for len(keys) > 0 {
		n := min(len(keys), setChunk)
		hashAll(hashes[:n], keys[:n], s.salt)
		for _, h := range hashes[:n] {
			rank := s.owner[h>>s.shift]
			s.owners = append(s.owners, rank)
			s.counts[rank]++
		}
		keys = keys[n:]
	}
}

// Has reports whether a key is in the set.
func (s *Set) Has(key uint64) bool {
	_, ok := s.Number(key)
	return ok
}

// Number returns the number of a key and whether it is in the set.
func (s *Set) Number(key uint64) (id uint32, ok bool) {
	if len(s.keys) == 0 {
		return 0, false
	}
	s.place()
	mask := uint64(len(s.slots) - 1)
	for j := hash(s.salt, key) & mask; s.slots[j].tag>>32 == s.epoch; j = (j + 1) & mask {
		if s.slots[j].key == key {
			return uint32(s.slots[j].tag), true
		}
	}
	return 0, false
}

// grow doubles the number of slots; place fills them.
func (s *Set) grow() {
	s.slots = make([]setSlot, max(minSetSlots, 2*len(s.slots)))
	s.epoch, s.placed = 1, 0
}

// Bytes returns the memory of the set, including slots that it shares.
func (s *Set) Bytes() int64 {
	return 16*int64(len(s.slots)) + 8*int64(cap(s.keys)) + 4*int64(cap(s.owners))
}
