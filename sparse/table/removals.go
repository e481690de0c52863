package table

import "slices"

// maxRemoved bounds the number of removals that are kept, 12 bytes each.
const maxRemoved = 1 << 22

// removals lists the keys whose rows were removed, oldest first.
type removals struct {
	keys  []uint64
	steps []uint32
	lost  int64 // removals up to this step may be missing
}

func (r *removals) add(key uint64, step int64) {
	if len(r.keys) == maxRemoved {
		half := maxRemoved / 2
		r.forget(int64(r.steps[half-1]), half)
	}
	r.keys, r.steps = append(r.keys, key), append(r.steps, uint32(step))
}

// forget drops the first n removals, which are from steps up to lost. It copies the rest, because
// a snapshot may still read the old slice.
func (r *removals) forget(lost int64, n int) {
	r.lost = lost
	r.keys, r.steps = slices.Clone(r.keys[n:]), slices.Clone(r.steps[n:])
}

func (r *removals) bytes() int64 { return 8*int64(cap(r.keys)) + 4*int64(cap(r.steps)) }

// since returns the keys removed after a step, and whether all of them are still listed.
func (r *removals) since(step int64) (keys []uint64, all bool) {
	if step < r.lost {
		return nil, false
	}
	i := slices.IndexFunc(r.steps, func(s uint32) bool { return int64(s) > step })
	if i < 0 {
		return nil, true
	}
	return r.keys[i:], true
}
