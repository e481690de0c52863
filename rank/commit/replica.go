package commit

import "slices"

// Each rank of a world of P is the first holder of one share of the shards, share
// r of rank r, and with R replicas the ranks r+1 … r+R−1 (mod P), its buddies,
// hold it too. All holders stage and apply alike, so they are equal bit for bit
// and any of them can serve the share. (The trainer's copies are dealt over the hosts:
// see Ring.)

// Holders returns the ranks that hold a share, its first holder first.
func Holders(share, size, replicas int) []int {
	h := make([]int, replicas)
	for i := range h {
		h[i] = (share + i) % size
	}
	return h
}

// Shares returns the shares that a rank holds, its own first.
func Shares(rank, size, replicas int) []int {
	s := make([]int, replicas)
	for i := range s {
		s[i] = (rank - i + size) % size
	}
	return s
}

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

// Copy is one share to be copied between ranks at a step boundary.
type Copy struct{ Share, From, To int }

// Heal returns what a rank that comes back, empty, must copy before it is an
// owner again: each of its shares from the share's server. ok is false if some
// share is held by nobody: then all restore the last checkpoint.
func Heal(owners []int, rank, size, replicas int) (copies []Copy, ok bool) {
	for _, share := range Shares(rank, size, replicas) {
		from := Server(without(owners, rank), share, size, replicas)
		if from < 0 {
			return nil, false
		}
		copies = append(copies, Copy{share, from, rank})
	}
	return copies, true
}

func without(ranks []int, rank int) []int {
	return slices.DeleteFunc(slices.Clone(ranks), func(r int) bool { return r == rank })
}
