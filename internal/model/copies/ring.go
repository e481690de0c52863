package copies

// Ring holds, for each rank, the rank with a copy of its shards: its buddy. The rank is the
// ward of its buddy. Every rank has one buddy and one ward. A ring is made when a training
// begins and does not change, so copies do not move if a lost rank restarts on another
// host.
type Ring []int

// NewRing assigns the buddies of size ranks. hosts holds the host of each rank; if its
// length is not size, all ranks are assumed to share a host. As many buddies as possible
// are on another host: all of them, unless one host has more than half of the ranks.
//
// The ranks are ordered by host, and the buddy is m places further, where m is the number of
// ranks of the largest host. No host has more than m ranks, so the buddy is on another host.
// The exception is a host with more ranks than all others together, which is reached again
// around the end. On one host, or with one rank per host, the buddy is the next rank.
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

// Ward returns the rank whose copy rank holds; -1 if there is none.
func (ring Ring) Ward(rank int) int {
	for r, b := range ring {
		if b == rank {
			return r
		}
	}
	return -1
}
