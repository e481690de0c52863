package commit

import "testing"

// TestPlacement compares Covers and Server with plain searches over all
// sets of owners of small worlds.
func TestPlacement(t *testing.T) {
	for size := 1; size <= 6; size++ {
		for replicas := 1; replicas <= min(size, 3); replicas++ {
			for set := range 1 << size {
				var owners []int
				for r := range size {
					if set>>r&1 == 1 {
						owners = append(owners, r)
					}
				}
				checkPlacement(t, owners, size, replicas)
			}
		}
	}
}

func checkPlacement(t *testing.T, owners []int, size, replicas int) {
	t.Helper()
	holders := map[int][]int{} // of each share, alive, by a plain search over ranks
	for _, r := range owners {
		for i := range replicas {
			s := (r - i + size) % size
			holders[s] = append(holders[s], r)
		}
	}
	all := true
	for s := range size {
		all = all && len(holders[s]) > 0
		r := Server(owners, s, size, replicas)
		if (r >= 0) != (len(holders[s]) > 0) {
			t.Fatalf("owners %v of %d: share %d is served by %d, held by %v", owners, size, s, r, holders[s])
		}
		found := r < 0
		for _, h := range holders[s] {
			found = found || h == r
		}
		if !found {
			t.Fatalf("owners %v of %d: share %d is served by %d, which does not hold it", owners, size, s, r)
		}
	}
	if Covers(owners, size, replicas) != all {
		t.Fatalf("owners %v of %d, %d replicas: covers %v, want %v", owners, size, replicas, !all, all)
	}
}
