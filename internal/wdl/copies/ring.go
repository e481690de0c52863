package copies

import "fmt"

// Ring says, by rank, who has the copy of a rank's shards: its buddy, whose ward it is.
// Every rank has one buddy and one ward. It is dealt once, when a training begins, and
// kept: copies do not move where a rank that was lost is started again elsewhere.
type Ring []int

// NewRing deals the buddies of ranks of which the hosts are known, by rank, or not
// (then all are taken to share one). A buddy is on another host for as many ranks as
// can be: for all, unless a host has more than half of them.
//
// Ranks stand in a row, host by host, and the buddy is m places further, where m is the
// number of ranks of the largest host: no host is m+1 long, and only the largest can
// be reached again around the end, where it is longer than all others together. On one
// host, and where each host has one rank, the buddy is the next rank.
func NewRing(size int, hosts []string) Ring {
	at := func(r int) string {
		if len(hosts) != size {
			return ""
		}
		return hosts[r]
	}
	var names []string
	by := map[string][]int{}
	for r := range size {
		if by[at(r)] == nil {
			names = append(names, at(r))
		}
		by[at(r)] = append(by[at(r)], r)
	}
	row, further := make([]int, 0, size), 0
	for _, name := range names {
		row, further = append(row, by[name]...), max(further, len(by[name]))
	}
	if len(names) == 1 {
		further = 1
	}
	ring := make(Ring, size)
	for i, r := range row {
		ring[r] = row[(i+further)%size]
	}
	return ring
}

// Validate reports whether each of so many ranks has one buddy, another, and one ward.
func (ring Ring) Validate(size int) error {
	if len(ring) != size {
		return fmt.Errorf("copies: ring: buddies of %d ranks, there are %d", len(ring), size)
	}
	ward := make([]bool, size)
	for r, b := range ring {
		if b < 0 || b >= size || b == r || ward[b] {
			return fmt.Errorf("copies: ring %v: the buddy of rank %d is %d: want another rank within 0 … %d, for each rank a different one", []int(ring), r, b, size-1)
		}
		ward[b] = true
	}
	return nil
}

// Ward is the rank whose copy a rank has.
func (ring Ring) Ward(rank int) int {
	for r, b := range ring {
		if b == rank {
			return r
		}
	}
	return -1
}
