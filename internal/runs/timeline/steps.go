package timeline

import (
	"slices"

	"github.com/wdlrun/wdlrun/trace"
)

// Timeline holds the ranks of a run on one clock.
type Timeline struct {
	Ranks   []*Rank // by number
	Missing []int   // ranks of the job without a usable file
	Faults  []string
	steps   []step
}

// step is a training step that every rank has recorded.
type step struct {
	number int64
	at     []spanRange // by index of the rank
}

// spanRange is the range of a step's spans within a rank's: Spans[lo:hi].
type spanRange struct{ lo, hi int }

// inStep reports whether a phase is part of a training step.
func inStep(p trace.Phase) bool { return p >= trace.Input && p <= trace.Update }

// stepRanges finds the completed steps of a rank. If a step was repeated after a
// failure, the last one counts.
func (r *Rank) stepRanges() map[int64]spanRange {
	all := map[int64]spanRange{}
	for i := 0; i < len(r.Spans); {
		s := r.Spans[i]
		if !inStep(s.Phase) || s.Step == 0 {
			i++
			continue
		}
		lo, ended := i, false
		for ; i < len(r.Spans) && r.Spans[i].Step == s.Step && inStep(r.Spans[i].Phase); i++ {
			ended = ended || r.Spans[i].Phase == trace.Update
		}
		if ended {
			all[s.Step] = spanRange{lo, i}
		}
	}
	return all
}

// commonSteps returns the steps that all ranks have, in order.
func commonSteps(ranks []*Rank) (steps []step) {
	by := make([]map[int64]spanRange, len(ranks))
	for i, r := range ranks {
		by[i] = r.stepRanges()
	}
	numbers := make([]int64, 0, len(by[0]))
next:
	for n := range by[0] {
		for _, other := range by[1:] {
			if _, has := other[n]; !has {
				continue next
			}
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		s := step{n, make([]spanRange, len(ranks))}
		for i := range ranks {
			s.at[i] = by[i][n]
		}
		steps = append(steps, s)
	}
	return steps
}

// entry is a rank's entry into an exchange.
type entry struct {
	key       uint64
	at, leave int64 // leave: latest time of leaving
	phase     trace.Phase
	sure      bool // no rank leaves before all have entered
}

// guessed marks the key of an exchange that was not recorded but derived from its phase.
const guessed = 1 << 63

// entries appends the exchanges of a step to dst, in their order.
func (r *Rank) entries(dst []entry, in spanRange) []entry {
	var nth [trace.Phases]uint64
	for i := in.lo; i < in.hi; i++ {
		s := &r.Spans[i]
		calls := r.calls[s.from:s.to]
		for k, c := range calls {
			leave := s.End
			if k+1 < len(calls) {
				leave = calls[k+1].at
			}
			dst = append(dst, entry{c.seq, c.at, leave, s.Phase, true})
		}
		if len(calls) == 0 && s.Phase.Waits() {
			nth[s.Phase]++
			key := guessed | uint64(s.Phase)<<32 | nth[s.Phase]
			dst = append(dst, entry{key, s.Start, s.End, s.Phase, len(r.calls) == 0 && s.Phase == trace.Sync})
		}
	}
	return dst
}

// exchange is one exchange of all ranks, by index of the rank.
type exchange struct {
	step   *step
	of     []entry
	last   int   // the rank that entered it last
	enters int64 // time of that entry
	delay  int64 // time since the previous rank's entry
}

// each calls visit with the exchanges of all steps in order. visit must not keep x.
func (t *Timeline) each(visit func(x *exchange)) {
	n := len(t.Ranks)
	by, at := make([][]entry, n), make([]int, n)
	x := exchange{of: make([]entry, n)}
	for i := range t.steps {
		x.step = &t.steps[i]
		for r, rank := range t.Ranks {
			by[r], at[r] = rank.entries(by[r][:0], x.step.at[r]), 0
		}
	next:
		for _, e := range by[0] {
			for r := range by {
				k := at[r]
				for k < len(by[r]) && by[r][k].key != e.key {
					k++
				}
				if k == len(by[r]) {
					continue next // some ranks lack it
				}
				x.of[r], at[r] = by[r][k], k+1
			}
			x.rate()
			visit(&x)
		}
	}
}

// rate determines the last rank.
func (x *exchange) rate() {
	x.last, x.delay = 0, 0
	for r := range x.of {
		if x.of[r].at > x.of[x.last].at {
			x.last = r
		}
	}
	x.enters = x.of[x.last].at
	if len(x.of) == 1 {
		return
	}
	before := int64(-1 << 62)
	for r := range x.of {
		if r != x.last {
			before = max(before, x.of[r].at)
		}
	}
	x.delay = x.enters - before
}

// waited returns how long a rank waited in the exchange for the last one.
func (x *exchange) waited(r int) int64 {
	return max(0, min(x.enters, x.of[r].leave)-x.of[r].at)
}

// DelayShare is the least delay, as a share of the step, for which a rank is named.
const DelayShare = 0.05
