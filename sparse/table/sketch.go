package table

// sketch counts sightings of the keys of one shard in bounded memory: a count-min
// sketch (Cormode and Muthukrishnan 2005) of sketchRows rows of bytes. Only the
// smallest counters of a key are raised (conservative update, Estan and Varghese
// 2002), which overcounts less. After as many sightings as it has counters all
// are halved, so that keys seen once long ago make room (Einziger, Friedman and
// Manes 2017).
type sketch struct {
	counts []uint8 // sketchRows · a power of two
	seen   int     // sightings since the last halving
}

const sketchRows = 4

// newSketch returns a sketch of about n counters, at least 64.
func newSketch(n int) sketch {
	row := 16
	for row*2*sketchRows <= n {
		row *= 2
	}
	return sketch{counts: make([]uint8, sketchRows*row)}
}

// see counts a sighting of the key with that hash and returns how many there
// were, perhaps overestimated.
func (s *sketch) see(h uint64) int {
	row := uint64(len(s.counts) / sketchRows)
	var at [sketchRows]uint64
	least := uint8(255)
	for i := range at {
		h = mix(h + stride)
		at[i] = uint64(i)*row + h&(row-1)
		least = min(least, s.counts[at[i]])
	}
	if least == 255 {
		return 255
	}
	for _, j := range at {
		if s.counts[j] == least {
			s.counts[j]++
		}
	}
	if s.seen++; s.seen == len(s.counts) {
		s.seen = 0
		for i := range s.counts {
			s.counts[i] /= 2
		}
	}
	return int(least) + 1
}

// admit counts a sighting of a key that is not held and reports whether it gets
// a row.
func (t *Table) admit(key uint64) bool {
	if t.sketches == nil {
		return true
	}
	h := hash(t.salt, key)
	s := &t.sketches[t.index.shardOf(h)]
	if s.counts == nil {
		*s = newSketch(t.cfg.Admit.Counters / len(t.sketches))
	}
	return s.see(h) >= t.cfg.Admit.After
}
