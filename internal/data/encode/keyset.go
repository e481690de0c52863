package encode

import "bytes"

// keySet holds the keys of a vocabulary's words. They are hashes, so the low bits of a key
// are its slot; collisions are resolved by linear probing.
type keySet struct {
	slots []uint64 // length is a power of two, some empty; 0: empty
	n     int
	zero  bool // the set contains key 0, which no slot can hold

	rare  rareWords // strings that the vocabulary leaves out
	forms forms     // of the words; 0: none
}

// fewKeys is the number of keys up to which each has four slots, so that most are found in
// the first; more keys have two to four.
const fewKeys = 1 << 12

// noKeys is empty and must not be changed.
var noKeys = newKeySet(0)

// newKeySet returns a keySet with capacity for n keys.
func newKeySet(n int) *keySet {
	slots := 2 * n
	if n <= fewKeys {
		slots = 4 * n
	}
	size := 2
	for size < slots {
		size *= 2
	}
	return &keySet{slots: make([]uint64, size)}
}

// add adds a key. The capacity must not be exceeded.
func (s *keySet) add(key uint64) {
	if s.has(key) {
		return
	}
	s.n++
	if key == 0 {
		s.zero = true
		return
	}
	mask := uint64(len(s.slots) - 1)
	i := key & mask
	for s.slots[i] != 0 {
		i = (i + 1) & mask
	}
	s.slots[i] = key
}

// has reports whether a key was added.
func (s *keySet) has(key uint64) bool {
	slots := s.slots
	mask := uint64(len(slots) - 1)
	for i := key & mask; i < uint64(len(slots)); i = (i + 1) & mask {
		switch slots[i] {
		case key:
			return key != 0 || s.zero
		case 0:
			return false
		}
	}
	return false
}

// find returns the key of a value with the given hash. If the vocabulary lacks the value, find
// returns the key of another spelling of it, without blanks at its ends. If it lacks all spellings,
// it returns KeyUnknown, or the key of a reason.
func (s *keySet) find(hash uint64, value []byte) uint64 {
	if s.has(hash) {
		return hash
	}
	if bare := bytes.Trim(value, blanks); len(bare) < len(value) && len(bare) > 0 {
		return s.find(keyOf(bare), bare)
	}
	for _, other := range truthsLike(value) {
		if key := keyOf(other); s.has(key) {
			return key
		}
	}
	var buf [maxSpelled]byte
	for n := range respellings {
		if other := respelled(value, buf[:0], n); other != nil {
			if key := keyOf(other); s.has(key) {
				return key
			}
		}
	}
	return s.reasonOf(hash, value)
}

// reasonOf returns the key of a value that the vocabulary does not have, without blanks at its ends.
func (s *keySet) reasonOf(hash uint64, value []byte) uint64 {
	switch {
	case s.rare.has(hash):
		return keyRare
	case s.forms != 0 && s.forms&max(formOf(value), formText) == 0:
		return keyOtherFormat
	}
	return KeyUnknown
}
