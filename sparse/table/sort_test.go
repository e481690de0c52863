package table

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSortByKey: any number of keys is sorted, with what belongs to them.
func TestSortByKey(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var spare []entry
	for _, n := range []int{0, 1, 2, fewKeys - 1, fewKeys, 5000, 700} {
		for _, mask := range []uint64{0, 0xff, 0xff << 40, 1<<63 | 1, ^uint64(0)} {
			all := make([]entry, n)
			for i := range all {
				all[i] = entry{key: rng.Uint64() & mask, row: Row(i), item: uint32(i)}
			}
			want := slices.Clone(all)
			slices.SortStableFunc(want, entry.compare)
			var got []entry
			got, spare = sortByKey(all, spare)
			sorted := slices.IsSortedFunc(got, entry.compare)
			slices.SortFunc(got, func(a, b entry) int { return cmp.Or(a.compare(b), cmp.Compare(a.item, b.item)) }) // equal ones have any order
			if !sorted || !slices.Equal(got, want) {
				t.Errorf("%d keys within %x are not sorted", n, mask)
			}
			if n > 0 && cap(spare) > 0 && &got[0] == &spare[:1][0] {
				t.Errorf("%d keys: the spare memory is that of the entries", n)
			}
		}
	}
}
