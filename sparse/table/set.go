package table

// Set numbers distinct keys from 0 in order of first sight, and in the same pass
// says which rank owns each. It is emptied in constant time: a slot belongs to
// the set only if it carries the current epoch. A Set belongs to one goroutine.
type Set struct {
	salt   uint64
	owner  []int32 // by shard; nil: one rank owns all
	shift  uint
	slots  []setSlot // a power of two, at most half of them in use
	keys   []uint64  // by number
	owners []int32   // by number, if owner is set
	counts []int     // by rank
	epoch  uint32
}

type setSlot struct {
	key   uint64
	epoch uint32
	id    uint32
}

const minSetSlots = 4 * chunk

// NewSet returns an empty set for keys of the table with that salt. owner gives
// the rank, of 0 to ranks−1, of each shard, a power of two of them; it is read
// with every Add and may change between a Reset and the next Add. nil stands for
// rank 0 of 1.
func NewSet(salt uint64, owner []int32, ranks int) *Set {
	s := &Set{salt: salt, owner: owner, counts: make([]int, max(1, ranks)), epoch: 1}
	if owner != nil {
		s.shift = shardShift(len(owner))
	}
	return s
}

// Reset empties the set.
func (s *Set) Reset() {
	s.keys, s.owners = s.keys[:0], s.owners[:0]
	clear(s.counts)
	s.epoch++
	if s.epoch == 0 { // every 2³² batches old epochs would come to life again
		clear(s.slots)
		s.epoch = 1
	}
}

// Len returns how many keys the set holds.
func (s *Set) Len() int { return len(s.keys) }

// Keys returns the keys by number. The slice is the set's own.
func (s *Set) Keys() []uint64 { return s.keys }

// Owners returns the rank of each key by number, nil for a set without owners.
// The slice is the set's own.
func (s *Set) Owners() []int32 { return s.owners }

// Counts returns how many keys each rank owns. The slice is the set's own.
func (s *Set) Counts() []int { return s.counts }

// Add adds keys and writes the number of each to ids.
func (s *Set) Add(keys []uint64, ids []uint32) {
	ids = ids[:len(keys)]
	var hashes [chunk]uint64
	for len(keys) > 0 {
		n := min(len(keys), chunk)
		for 2*(len(s.keys)+n) > len(s.slots) {
			s.grow()
		}
		for i, key := range keys[:n] {
			hashes[i] = hash(s.salt, key)
		}
		prefetchSet(s.slots, hashes[:n])
		s.add(keys[:n], hashes[:n], ids)
		keys, ids = keys[n:], ids[n:]
	}
}

// add adds keys that the slots have room for.
func (s *Set) add(keys, hashes []uint64, ids []uint32) {
	slots, mask := s.slots, uint64(len(s.slots)-1)
	for i, key := range keys {
		h := hashes[i]
		for j := h & mask; ; j = (j + 1) & mask {
			slot := &slots[j]
			if slot.epoch != s.epoch {
				*slot = setSlot{key, s.epoch, uint32(len(s.keys))}
				s.admit(key, h)
				ids[i] = slot.id
				break
			}
			if slot.key == key {
				ids[i] = slot.id
				break
			}
		}
	}
}

// admit appends a key that is new.
func (s *Set) admit(key, h uint64) {
	s.keys = append(s.keys, key)
	rank := int32(0)
	if s.owner != nil {
		rank = s.owner[h>>s.shift]
		s.owners = append(s.owners, rank)
	}
	s.counts[rank]++
}

// Has reports whether the set holds a key.
func (s *Set) Has(key uint64) bool {
	_, ok := s.Number(key)
	return ok
}

// Number returns the number of a key, and whether the set holds it.
func (s *Set) Number(key uint64) (id uint32, ok bool) {
	if len(s.keys) == 0 {
		return 0, false
	}
	mask := uint64(len(s.slots) - 1)
	for j := hash(s.salt, key) & mask; s.slots[j].epoch == s.epoch; j = (j + 1) & mask {
		if s.slots[j].key == key {
			return s.slots[j].id, true
		}
	}
	return 0, false
}

func (s *Set) grow() {
	s.slots = make([]setSlot, max(minSetSlots, 2*len(s.slots)))
	s.epoch = 1
	mask := uint64(len(s.slots) - 1)
	for id, key := range s.keys {
		j := hash(s.salt, key) & mask
		for s.slots[j].epoch == s.epoch {
			j = (j + 1) & mask
		}
		s.slots[j] = setSlot{key, s.epoch, uint32(id)}
	}
}

// Bytes returns the memory the set takes.
func (s *Set) Bytes() int64 {
	return 16*int64(len(s.slots)) + 8*int64(cap(s.keys)) + 4*int64(cap(s.owners))
}
