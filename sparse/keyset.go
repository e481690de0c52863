package sparse

// keySet numbers distinct keys from 0 in order of first sight. It is emptied in
// constant time: a slot belongs to the set only if it carries the current epoch.
type keySet struct {
	slots []keySlot // a power of two, at most half of them in use
	keys  []uint64  // by number
	epoch uint32
}

type keySlot struct {
	key   uint64
	epoch uint32
	id    uint32
}

const minKeySlots = 64

func (s *keySet) reset() {
	s.keys = s.keys[:0]
	s.epoch++
	if s.epoch == 0 { // every 2³² batches old epochs would come to life again
		clear(s.slots)
		s.epoch = 1
	}
}

// addAll adds keys and writes the number of each to ids.
func (s *keySet) addAll(salt uint64, keys []uint64, ids []uint32) {
	ids = ids[:len(keys)]
	for i, key := range keys {
		if 2*len(s.keys) >= len(s.slots) {
			s.grow(salt)
		}
		slots, mask := s.slots, uint64(len(s.slots)-1)
		for j := hashKey(salt, key) & mask; ; j = (j + 1) & mask {
			slot := &slots[j]
			if slot.epoch != s.epoch {
				*slot = keySlot{key, s.epoch, uint32(len(s.keys))}
				s.keys = append(s.keys, key)
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

func (s *keySet) grow(salt uint64) {
	s.slots = make([]keySlot, max(minKeySlots, 2*len(s.slots)))
	s.epoch = 1
	mask := uint64(len(s.slots) - 1)
	for id, key := range s.keys {
		j := hashKey(salt, key) & mask
		for s.slots[j].epoch == s.epoch {
			j = (j + 1) & mask
		}
		s.slots[j] = keySlot{key, s.epoch, uint32(id)}
	}
}

func (s *keySet) bytes() int64 { return 16*int64(len(s.slots)) + 8*int64(cap(s.keys)) }
