package table

import "slices"

const (
	digitBits = 8 // of a key, by which a pass sorts
	digits    = 64 / digitBits
	fewKeys   = 1 << 6 // below it, comparisons are faster
)

// sortByKey sorts entries by ascending key. It returns the entries and other memory of their number for the next call,
// one of which is spare if that is large enough.
func sortByKey(all, spare []entry) (sorted, rest []entry) {
	if len(all) < fewKeys {
		slices.SortFunc(all, entry.compare)
		return all, spare
	}
	spare = resize(spare, len(all))
	var counts [digits][1 << digitBits]int32
	for _, e := range all {
		for d := range counts {
			counts[d][e.key>>(d*digitBits)&(1<<digitBits-1)]++
		}
	}
	for d := range counts {
		c, shift := &counts[d], d*digitBits
		if c[all[0].key>>shift&(1<<digitBits-1)] == int32(len(all)) {
			continue // all keys have the same digit
		}
		at := int32(0)
		for i, n := range c {
			c[i] = at
			at += n
		}
		for _, e := range all {
			i := &c[e.key>>shift&(1<<digitBits-1)]
			spare[*i] = e
			*i++
		}
		all, spare = spare, all
	}
	return all, spare
}
