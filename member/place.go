package member

import "slices"

// place describes the hosts of the ranks.
type place struct {
	hostOf      []int // number of each rank's host, by first occurrence
	hosts       int
	index, size int // local rank and local size of this rank
	least       int // ranks of the smallest host
}

// newPlace determines the hosts of all ranks from their names. If the number of ranks that
// the launcher reports on a host differs from the ranks with its name, two hosts have the
// same name, and no rank is assumed to share its host.
func newPlace(notes []note, rank int) (p place) {
	type host struct {
		name  string
		local int
	}
	number := map[host]int{}
	var counts []int
	for r, o := range notes {
		h, known := number[host{o.Host, o.Local}]
		if !known {
			h = len(counts)
			number[host{o.Host, o.Local}] = h
			counts = append(counts, 0)
		}
		if r == rank {
			p.index = counts[h]
		}
		counts[h]++
		p.hostOf = append(p.hostOf, h)
	}
	p.hosts, p.size, p.least = len(counts), counts[p.hostOf[rank]], slices.Min(counts)
	for r, h := range p.hostOf {
		if local := notes[r].Local; local != 0 && local != counts[h] {
			p.least = 1
		}
	}
	return p
}

// where returns a description of the place for messages.
func (p place) where() string {
	if p.hosts > 1 {
		return "inside their hosts too"
	}
	return "on this host"
}
