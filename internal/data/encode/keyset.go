package encode

// keySet holds the keys of a vocabulary's words. They are hashes already, so a key's
// low bits say where it is, or is looked for from there on.
type keySet struct {
	slots []uint64 // a power of two, with empty ones among them; 0: empty
	n     int
	zero  bool // the key 0, which no slot can hold
}

// fewKeys is how many keys have four slots each, so that most are found at the first
// look; more have two to four.
const fewKeys = 1 << 12

// noKeys is empty, and stays so.
var noKeys = newKeySet(0)

// newKeySet has room for n keys.
func newKeySet(n int) *keySet {
	room := 2 * n
	if n <= fewKeys {
		room = 4 * n
	}
	size := 2
	for size < room {
		size *= 2
	}
	return &keySet{slots: make([]uint64, size)}
}

// add takes in a key. No more than there is room for may come.
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
