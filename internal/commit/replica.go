package commit

import "slices"

// Each rank of a world of P is the first holder of one share of the shards, share
// r of rank r, and with R replicas the ranks r+1 … r+R−1 (mod P), its buddies,
// hold it too. All holders stage and apply alike, so they are equal bit for bit
// and any of them can serve the share. (The trainer's copies are dealt over the hosts:
// see Ring.)

// Server returns which of the owners (ascending) answers pulls of a share: its
// first living holder, or -1 if none lives.
func Server(owners []int, share, size, replicas int) int {
	for i := range replicas {
		r := (share + i) % size
		if _, ok := slices.BinarySearch(owners, r); ok {
			return r
		}
	}
	return -1
}

// Covers reports whether the owners (ascending) together hold every share.
func Covers(owners []int, size, replicas int) bool {
	for share := range size {
		if Server(owners, share, size, replicas) < 0 {
			return false
		}
	}
	return true
}

func without(ranks []int, rank int) []int {
	return slices.DeleteFunc(slices.Clone(ranks), func(r int) bool { return r == rank })
}
