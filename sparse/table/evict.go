package table

import (
	"cmp"
	"slices"
)

// sweepEvery is the number of steps in which every shard is searched once for rows to
// remove by age or score. Each step searches a share of the shards.
const sweepEvery = 64

// eviction removes rows.
type eviction struct {
	admission
	victims []victim
	evicted []uint64 // keys that have lost their rows in this step
}

// victim is a row that may be removed.
type victim struct {
	key   uint64
	age   uint32
	score float32 // current score
	row   Row
}

// before orders victims: lowest score, then oldest, then smallest key, so that every run
// removes the same rows.
func (v victim) before(o victim) int {
	return cmp.Or(cmp.Compare(v.score, o.score), cmp.Compare(o.age, v.age), cmp.Compare(v.key, o.key))
}

// evict removes rows as the configuration demands.
func (t *eviction) evict() {
	e := &t.cfg.Evict
	t.evicted = t.evicted[:0]
	for shard := range t.index.shards {
		n := t.index.keys[shard]
		if n == 0 {
			continue
		}
		if (e.Age > 0 || e.MinScore > 0) && (int64(shard)-t.now)%sweepEvery == 0 {
			t.sweep(shard)
		}
		if share := e.Share(shard, len(t.index.shards)); e.MaxRows > 0 && n > share {
			t.trim(shard, share-share/16)
		}
	}
	t.counters.Evicted += int64(len(t.evicted))
	if t.sketches != nil {
		t.forgetSightings(t.evicted)
	}
}

// Share returns how many rows one of shards shards may hold after a step, if MaxRows is
// set: MaxRows divided evenly, with the remainder in the first shards, and at least 1.
// The shares of all shards sum to max(MaxRows, shards).
func (e Evict) Share(shard, shards int) int {
	share := e.MaxRows / shards
	if shard < e.MaxRows%shards {
		share++
	}
	return max(share, 1)
}

// sweep removes the rows of a shard that are too old or score too low.
func (t *eviction) sweep(shard int) {
	e := &t.cfg.Evict
	for _, v := range t.candidates(shard) {
		if e.Age > 0 && v.age > uint32(e.Age) || float64(v.score) < e.MinScore {
			t.removeRow(v.key)
			t.evicted = append(t.evicted, v.key)
		}
	}
}

// trim removes rows of a shard until keep are left.
func (t *eviction) trim(shard, keep int) {
	all := t.candidates(shard)
	if len(all) <= keep {
		return
	}
	slices.SortFunc(all, victim.before)
	for _, v := range all[:len(all)-keep] {
		t.removeRow(v.key)
		t.evicted = append(t.evicted, v.key)
	}
}

// candidates returns the rows of a shard.
func (t *eviction) candidates(shard int) []victim {
	t.victims = t.victims[:0]
	t.index.each(shard, func(key uint64, row Row) {
		if stamp, _ := t.meta(row); *stamp == 0 && t.saving != nil { // it is about to be stamped
			t.saving.copyKey(key, row)
		}
		t.victims = append(t.victims, victim{key, t.age(row), t.score(row), row})
	})
	return t.victims
}

// removeRow removes the row of a key.
func (t *eviction) removeRow(key uint64) {
	h := hash(t.salt, key)
	r := t.index.find(key, h)
	if t.saving != nil {
		t.saving.copyKey(key, r)
	}
	if t.watch != nil {
		t.watch.beforeRemoval(key, r)
	}
	if r.onDisk() {
		t.tier.forget(r)
	} else {
		t.free = append(t.free, r)
	}
	t.index.remove(key, h)
	t.removed.add(key, t.now)
	t.epoch++
}

// Retire removes the rows whose last gradient was at a step or before it, and returns their number.
// Rows that were saved without their step stay. Call it after loading, and before the first step.
func (t *eviction) Retire(step int64) (n int) {
	for shard := range t.index.shards {
		for _, v := range t.candidates(shard) {
			if t.now-int64(v.age) <= step {
				t.removeRow(v.key)
				n++
			}
		}
	}
	t.counters.Evicted += int64(n)
	return n
}

// Delete removes the rows of keys and returns their number. It counts as a change of the
// next step.
func (t *eviction) Delete(keys []uint64) int {
	t.now++
	t.evicted = t.evicted[:0]
	for _, key := range keys {
		if t.index.find(key, hash(t.salt, key)) != 0 {
			t.removeRow(key)
			t.evicted = append(t.evicted, key)
		}
	}
	if t.sketches != nil {
		t.forgetSightings(t.evicted)
	}
	t.now--
	t.counters.Deleted += int64(len(t.evicted))
	return len(t.evicted)
}
