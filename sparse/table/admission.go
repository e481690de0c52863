package table

// admission decides which keys get a row.
type admission struct {
	observed
	sketches []sketch // by shard; nil: every key is admitted
	before   []uint8  // by key of a step without a row: earlier occurrences
	places   []uint64 // indices of counters, by evicted key
}

// sight counts an occurrence, in step t.now, of each key without a row in found. It writes
// the number of earlier occurrences to t.before.
func (t *admission) sight(keys []uint64, found []Row) {
	t.before = resize(t.before, len(keys))
	for i, r := range found {
		if r != 0 {
			continue
		}
		s, h := t.sketchOf(keys[i])
		if t.saving != nil {
			t.saving.copySeen(t.index.shardOf(h), s)
		}
		if s.counts == nil {
			*s = newSketch(t.cfg.Admit.Counters / len(t.sketches))
		}
		t.before[i] = s.times(h)
	}
	for i, r := range found {
		if r == 0 {
			s, h := t.sketchOf(keys[i])
			s.count(h, t.before[i])
			s.last = t.now
		}
	}
	for i, r := range found {
		if r == 0 {
			s, _ := t.sketchOf(keys[i])
			s.fade()
		}
	}
}

// forgetSightings resets the counts of keys that have lost their rows. As in sight, all
// keys are looked up before the first is reset.
func (t *admission) forgetSightings(keys []uint64) {
	t.places = resize(t.places, len(keys))
	for i, key := range keys {
		if s, h := t.sketchOf(key); s.counts != nil {
			t.places[i] = s.least(h)
		}
	}
	for i, key := range keys {
		s, h := t.sketchOf(key)
		if s.counts == nil {
			continue
		}
		if t.saving != nil {
			t.saving.copySeen(t.index.shardOf(h), s)
		}
		s.counts[t.places[i]], s.last = 0, t.now
	}
}

// sketchOf returns the sketch of a key's shard and the key's hash.
func (t *admission) sketchOf(key uint64) (*sketch, uint64) {
	h := hash(t.salt, key)
	return &t.sketches[t.index.shardOf(h)], h
}

// admits reports whether key i of a step, which has no row, is admitted.
func (t *admission) admits(i int) bool { return t.sketches == nil || t.enough(t.before[i]) }

// admitsNext reports whether a key without a row would be admitted in the next step.
func (t *admission) admitsNext(key uint64) bool {
	if t.sketches == nil {
		return true
	}
	s, h := t.sketchOf(key)
	return t.enough(s.times(h))
}

// enough reports whether a key with that many earlier occurrences is admitted.
func (t *admission) enough(before uint8) bool { return int(before)+1 >= t.cfg.Admit.After }
