package timeline

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// align converts the times of all ranks to the clock of the first.
func (t *Timeline) align() {
	groups := t.clocks()
	for _, g := range groups[1:] {
		offsets := t.offsets(groups[0], g)
		if len(offsets) == 0 {
			if len(t.steps) > 0 {
				t.Faults = append(t.Faults, fmt.Sprintf("the clock of %s cannot be aligned: no exchange with rank %d is noted", t.names(g), t.Ranks[0].Rank))
			}
			continue
		}
		worst := int64(0)
		for _, o := range offsets {
			worst = max(worst, o.error)
		}
		for _, i := range g {
			t.Ranks[i].Error = worst
			t.Ranks[i].shift(func(at int64) int64 { return at - offsets.at(at) })
		}
	}
}

// clocks converts the times of ranks with the same clock and returns these ranks as groups
// of indices, the first rank's group first. A rank whose clock has no name forms its own
// group.
func (t *Timeline) clocks() (groups [][]int) {
	of := map[string]int{}
	for i, r := range t.Ranks {
		g, known := of[r.Clock]
		if r.Clock == "" || !known {
			of[r.Clock] = len(groups)
			groups = append(groups, []int{i})
			continue
		}
		by := r.MonotonicNs - t.Ranks[groups[g][0]].MonotonicNs
		r.shift(func(at int64) int64 { return at + by })
		groups[g] = append(groups[g], i)
	}
	return groups
}

func (t *Timeline) names(group []int) string {
	var all []string
	for _, i := range group[:min(len(group), 8)] {
		all = append(all, fmt.Sprintf("rank %d", t.Ranks[i].Rank))
	}
	if more := len(group) - len(all); more > 0 {
		all = append(all, fmt.Sprintf("%d more", more))
	}
	return strings.Join(all, ", ")
}

// shift applies to to all times of a rank.
func (r *Rank) shift(to func(at int64) int64) {
	for i := range r.Spans {
		s := &r.Spans[i]
		s.Start, s.End = to(s.Start), to(s.End)
	}
	for i := range r.Background {
		s := &r.Background[i]
		s.Start, s.End = to(s.Start), to(s.End)
	}
	for i := range r.calls {
		r.calls[i].at = to(r.calls[i].at)
	}
}

// offset is the amount by which a clock is ahead of the reference, near a time on that
// clock.
type offset struct{ around, by, error int64 }

type offsets []offset

// at returns the offset at a time, interpolated.
func (o offsets) at(at int64) int64 {
	i := sort.Search(len(o), func(i int) bool { return o[i].around > at })
	switch {
	case i == 0:
		return o[0].by
	case i == len(o):
		return o[i-1].by
	}
	a, b := o[i-1], o[i]
	share := float64(at-a.around) / float64(b.around-a.around)
	return a.by + int64(float64(share*float64(b.by-a.by)))
}

// bound is the range of an offset that follows from one exchange.
type bound struct{ around, least, most int64 }

const (
	stretchLength = 64 // exchanges per offset, unless there are many more:
	maxStretches  = 256
)

// offsets compares the clock of the ranks in group with the clock of the ranks in ref.
func (t *Timeline) offsets(ref, group []int) (all offsets) {
	var bounds []bound
	t.each(func(x *exchange) {
		if !x.of[group[0]].sure {
			return
		}
		theirs, ours := x.span(group), x.span(ref)
		bounds = append(bounds, bound{theirs.entered, theirs.entered - ours.left, theirs.left - ours.entered})
	})
	slices.SortStableFunc(bounds, func(a, b bound) int { return int(min(1, max(-1, a.around-b.around))) })
	n := min(max(len(bounds)/stretchLength, 1), maxStretches)
	for i := range n {
		part := bounds[i*len(bounds)/n : (i+1)*len(bounds)/n]
		if len(part) == 0 {
			continue
		}
		b := part[0]
		for _, x := range part[1:] {
			b.least, b.most = max(b.least, x.least), min(b.most, x.most)
		}
		o := offset{part[len(part)/2].around, b.least/2 + b.most/2, (b.most - b.least) / 2}
		o.error = max(o.error, -o.error) // negative if the clock drifts within the stretch
		all = append(all, o)
	}
	return all
}

// passage holds the times at which the last of some ranks entered an exchange and the first
// left it.
type passage struct{ entered, left int64 }

func (x *exchange) span(ranks []int) passage {
	p := passage{x.of[ranks[0]].at, x.of[ranks[0]].leave}
	for _, i := range ranks[1:] {
		p.entered, p.left = max(p.entered, x.of[i].at), min(p.left, x.of[i].leave)
	}
	return p
}
