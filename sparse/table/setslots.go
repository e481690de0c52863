package table

// setSlots is emptied in constant time: a slot is in use only if it has the current epoch.
type setSlots struct {
	slots []setSlot // a power of two, at most half of them in use
	epoch uint64    // from 1 to 2³²−1
}

func (s *setSlots) empty() {
	s.epoch++
	if s.epoch == 1<<32 { // slots of old epochs would become valid again
		clear(s.slots)
		s.epoch = 1
	}
}

type setSlot struct {
	key uint64
	tag uint64 // epoch in the high half, number in the low half
}

// setChunk is the number of slots that are prefetched before the slots of the previous
// chunk are read: a few times the number that a core can wait for at once. Twice as
// many were a tenth slower if slots exceed the second-level cache.
const setChunk = 64

// matchPlain is the specification of match, which writes to ids the numbers of the keys
// that are in their first slots, and returns the indices of the other keys. It has no
// branch per key, because whether a key is new cannot be predicted.
func (s *setSlots) matchPlain(keys []uint64, hashes *[setChunk]uint64, ids []uint32, missed *[setChunk]uint8) []uint8 {
	slots, mask, epoch, n := s.slots, uint64(len(s.slots)-1), s.epoch, uint64(0)
	ids = ids[:len(keys)]
	for i, key := range keys {
		slot := &slots[hashes[i&(setChunk-1)]&mask]
		tag := slot.tag
		ids[i] = uint32(tag)
		missed[n&(setChunk-1)] = uint8(i)
		differ := slot.key ^ key | (tag>>32 ^ epoch)
		n += (differ | -differ) >> 63
	}
	return missed[:n]
}
