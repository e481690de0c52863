package timeline

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/trace"
)

// Analysis is the distribution of the time of training steps. Times are in seconds.
type Analysis struct {
	Steps      int     `json:"steps"` // steps that are in the files of all ranks
	First      int64   `json:"first_step"`
	Last       int64   `json:"last_step"`
	Seconds    float64 `json:"seconds"` // total time of these steps
	MedianStep float64 `json:"median_step_seconds"`
	Exchanges  int     `json:"exchanges"`
	ClockError float64 `json:"clock_error_seconds"` // largest error of any rank's clock

	Missing []int         `json:"missing_ranks,omitempty"` // ranks without a timeline; if there are any, Late is empty
	Late    []Late        `json:"late"`                    // ranks that others waited for, the worst first
	Ranks   []Row         `json:"ranks"`                   // time of each rank
	Slowest []SlowStep    `json:"slowest_steps"`
	Between []PhaseShares `json:"between_steps"` // phases outside of steps, mean over the ranks
	Job     *Job          `json:"job,omitempty"` // nil: the timelines do not have all of it
	Faults  []string      `json:"faults,omitempty"`
	LeftOut string        `json:"left_out,omitempty"` // steps that the timelines do not have
	Rows    []int64       `json:"-"`                  // rows of tables by rank, for Advice; nil: not known
}

// Late is a rank that the others waited for.
type Late struct {
	Rank    int     `json:"rank"`
	Host    string  `json:"host,omitempty"`
	Steps   int     `json:"steps"` // steps that this rank delayed the most, by at least DelayShare of the step
	Share   float64 `json:"share"` // Steps divided by all steps
	Seconds float64 `json:"delay_seconds"`
	Causes  []Cause `json:"causes"`  // by frequency in Steps
	Speedup float64 `json:"speedup"` // speedup of the training if the rank had not been late
}

// Cause is the phase that made a rank late.
type Cause struct {
	Phase string  `json:"phase"`
	Steps int     `json:"steps"`
	Share float64 `json:"share"` // share of all steps
}

// Row is the time of a rank's steps.
type Row struct {
	Rank    int           `json:"rank"`
	Host    string        `json:"host,omitempty"`
	Seconds float64       `json:"seconds"`
	Phases  []PhaseShares `json:"phases"`
	Waited  float64       `json:"waited_seconds"`
	For     int           `json:"waited_for"` // the rank that it waited for longest; -1: none
	ForTime float64       `json:"waited_for_seconds"`
}

// PhaseShares holds the seconds of a phase.
type PhaseShares struct {
	Phase string  `json:"phase"`
	Own   float64 `json:"own_seconds"`    // work, and bytes in transit
	Wait  float64 `json:"waited_seconds"` // waiting for ranks that came later
}

// SlowStep is one of the slowest steps.
type SlowStep struct {
	Step    int64   `json:"step"`
	Seconds float64 `json:"seconds"`
	Factor  float64 `json:"factor"` // multiple of the median step
	Late    int     `json:"late"`   // the rank that delayed it most; -1: no delay of DelayShare
	Cause   string  `json:"cause,omitempty"`
	Delay   float64 `json:"delay_seconds"`
	Longest string  `json:"longest_phase"` // if no rank was late: the phase that exceeds its median most
}

// slowestSteps is the number of slowest steps listed.
const slowestSteps = 10

// analysis is the state of Analyse.
type analysis struct {
	*Timeline
	waits   []map[int]int64               // by rank: time waited for each other rank
	waited  [][trace.Phases]int64         // by rank and phase
	spent   [][trace.Phases]int64         // by rank and phase, in steps
	delays  []int64                       // by rank: total delay
	steps   []int                         // by rank: steps in which it was named
	causes  []map[trace.Phase]int         // by rank
	cursor  []int                         // by rank: the span in which it left the previous exchange
	since   int64                         // when all ranks had left it; 0: unknown
	current map[int]*delayed              // by rank, in the current step
	lasted  map[int64]int64               // by step
	named   map[int64]delayed             // by step: the rank named
	phases  map[int64][trace.Phases]int64 // by step: phases of the first rank
	scratch [][trace.Phases]int64
	column  []int64
	count   int
}

// delayed is a rank's delay of a step.
type delayed struct {
	rank  int
	total int64
	by    [trace.Phases]int64
}

// cause returns the phase with the largest share of the delay.
func (d *delayed) cause() trace.Phase {
	worst := trace.Phase(0)
	for p := range d.by {
		if d.by[p] > d.by[worst] {
			worst = trace.Phase(p)
		}
	}
	return worst
}

// Analyse determines which ranks waited for which.
func (t *Timeline) Analyse() Analysis {
	n := len(t.Ranks)
	a := &analysis{Timeline: t, waits: make([]map[int]int64, n), waited: make([][trace.Phases]int64, n), spent: make([][trace.Phases]int64, n),
		delays: make([]int64, n), steps: make([]int, n), causes: make([]map[trace.Phase]int, n), cursor: make([]int, n),
		current: map[int]*delayed{}, lasted: map[int64]int64{}, named: map[int64]delayed{}, phases: map[int64][trace.Phases]int64{},
		scratch: make([][trace.Phases]int64, n)}
	for r := range n {
		a.waits[r], a.causes[r] = map[int]int64{}, map[trace.Phase]int{}
	}
	a.durations()
	var at *step
	t.each(func(x *exchange) {
		if at != nil && at != x.step {
			a.endStep(at)
			if x.step.number != at.number+1 {
				a.since = 0
			}
		}
		at = x.step
		a.add(x)
	})
	if at != nil {
		a.endStep(at)
	}
	return a.result()
}

// durations measures the steps and their phases.
func (a *analysis) durations() {
	for _, s := range a.Timeline.steps {
		for r, rank := range a.Ranks {
			var phases [trace.Phases]int64
			for _, x := range rank.Spans[s.at[r].lo:s.at[r].hi] {
				phases[x.Phase] += x.End - x.Start
			}
			for p, d := range phases {
				a.spent[r][p] += d
			}
			if r == 0 {
				a.phases[s.number] = phases
				spans := rank.Spans[s.at[r].lo:s.at[r].hi]
				a.lasted[s.number] = spans[len(spans)-1].End - spans[0].Start
			}
		}
	}
}

// add counts one exchange.
func (a *analysis) add(x *exchange) {
	a.count++
	for r := range x.of {
		if w := x.waited(r); w > 0 && r != x.last {
			a.waited[r][x.of[r].phase] += w
			a.waits[r][x.last] += w
		}
	}
	// A rank without a timeline may have entered the exchange even later.
	if x.delay > max(a.Ranks[x.last].Error, rounding) && len(x.of) > 1 && len(a.Missing) == 0 {
		a.delays[x.last] += x.delay
		d := a.current[x.last]
		if d == nil {
			d = &delayed{rank: x.last}
			a.current[x.last] = d
		}
		d.total += x.delay
		d.by[a.why(x)] += x.delay
	}
	a.since = x.enters
}

// why returns the phase in which the last rank spent more time than the others since the
// previous exchange.
func (a *analysis) why(x *exchange) trace.Phase {
	for r := range x.of {
		a.since0(x, r)
	}
	worst, most := x.of[x.last].phase, int64(0)
	for p := range trace.Phases {
		a.column = a.column[:0]
		for r := range x.of {
			if r != x.last {
				a.column = append(a.column, a.scratch[r][p])
			}
		}
		slices.Sort(a.column)
		if excess := a.scratch[x.last][p] - a.column[(len(a.column)-1)/2]; excess > most {
			worst, most = trace.Phase(p), excess
		}
	}
	return worst
}

// since0 returns the time of a rank by phase from the previous exchange to its entry into
// x.
func (a *analysis) since0(x *exchange, r int) {
	sum := &a.scratch[r]
	*sum = [trace.Phases]int64{}
	spans, from, to := a.Ranks[r].Spans, a.since, x.of[r].at
	if from == 0 {
		from = spans[x.step.at[r].lo].Start
	}
	i := a.cursor[r]
	for i > 0 && spans[i].Start > from {
		i--
	}
	for i < len(spans) && spans[i].End <= from {
		i++
	}
	a.cursor[r] = min(i, len(spans)-1)
	for ; i < len(spans) && spans[i].Start < to; i++ {
		sum[spans[i].Phase] += min(spans[i].End, to) - max(spans[i].Start, from)
	}
}

// endStep names the rank that delayed a step most.
func (a *analysis) endStep(s *step) {
	var worst *delayed
	for _, d := range a.current {
		if worst == nil || d.total > worst.total || d.total == worst.total && d.rank < worst.rank {
			worst = d
		}
	}
	if worst != nil && float64(worst.total) >= DelayShare*float64(a.lasted[s.number]) {
		a.steps[worst.rank]++
		a.causes[worst.rank][worst.cause()]++
		a.named[s.number] = *worst
	}
	clear(a.current)
}

func (a *analysis) result() Analysis {
	all := Analysis{Steps: len(a.Timeline.steps), Exchanges: a.count, Faults: a.Faults, Missing: a.Missing, Late: []Late{}, Slowest: []SlowStep{}, Between: a.between(), Job: a.job()}
	for r, rank := range a.Ranks {
		all.ClockError = max(all.ClockError, seconds(rank.Error))
		all.Ranks = append(all.Ranks, a.row(r))
	}
	if all.Steps == 0 {
		return all
	}
	all.First, all.Last = a.Timeline.steps[0].number, a.Timeline.steps[all.Steps-1].number
	if r := slices.MaxFunc(a.Ranks, func(x, y *Rank) int { return cmp.Compare(x.Dropped, y.Dropped) }); r.Dropped > 0 {
		all.LeftOut = fmt.Sprintf("the timelines begin at step %d: ranks keep their last spans, and %d older ones of rank %d are left out", all.First, r.Dropped, r.Rank)
	}
	var total int64
	lengths := make([]int64, 0, all.Steps)
	for _, d := range a.lasted {
		total += d
		lengths = append(lengths, d)
	}
	slices.Sort(lengths)
	all.Seconds, all.MedianStep = seconds(total), seconds(lengths[len(lengths)/2])
	for r := range a.Ranks {
		if a.delays[r] > 0 {
			all.Late = append(all.Late, a.late(r, all.Steps, total))
		}
	}
	slices.SortStableFunc(all.Late, func(x, y Late) int { return cmp.Compare(y.Seconds, x.Seconds) })
	all.Slowest = a.slowest(lengths[len(lengths)/2])
	return all
}

func (a *analysis) late(r, steps int, total int64) Late {
	l := Late{Rank: a.Ranks[r].Rank, Host: a.Ranks[r].Host, Steps: a.steps[r], Share: float64(a.steps[r]) / float64(steps), Seconds: seconds(a.delays[r]),
		Speedup: float64(total) / float64(max(total-a.delays[r], 1)), Causes: []Cause{}}
	for p, n := range a.causes[r] {
		l.Causes = append(l.Causes, Cause{p.String(), n, float64(n) / float64(steps)})
	}
	slices.SortFunc(l.Causes, func(x, y Cause) int { return cmp.Or(cmp.Compare(y.Steps, x.Steps), cmp.Compare(x.Phase, y.Phase)) })
	return l
}

func (a *analysis) row(r int) Row {
	row := Row{Rank: a.Ranks[r].Rank, Host: a.Ranks[r].Host, For: -1}
	for p := trace.Input; p <= trace.Update; p++ {
		own, wait := a.spent[r][p]-a.waited[r][p], a.waited[r][p]
		row.Phases = append(row.Phases, PhaseShares{p.String(), seconds(own), seconds(wait)})
		row.Seconds += seconds(own + wait)
		row.Waited += seconds(wait)
	}
	for other, w := range a.waits[r] {
		if s := seconds(w); s > row.ForTime || s == row.ForTime && a.Ranks[other].Rank < row.For {
			row.For, row.ForTime = a.Ranks[other].Rank, s
		}
	}
	return row
}

// between returns the phases outside of steps, except for the start of the job.
func (a *analysis) between() (all []PhaseShares) {
	var sum [trace.Phases]int64
	for _, r := range a.Ranks {
		trained := false
		for _, s := range r.Spans {
			trained = trained || inStep(s.Phase)
			if trained && !inStep(s.Phase) {
				sum[s.Phase] += s.End - s.Start
			}
		}
	}
	for p, d := range sum {
		if d > 0 {
			all = append(all, PhaseShares{Phase: trace.Phase(p).String(), Own: seconds(d / int64(len(a.Ranks)))})
		}
	}
	return all
}

// slowest returns the slowest steps.
func (a *analysis) slowest(median int64) (all []SlowStep) {
	steps := slices.Clone(a.Timeline.steps)
	slices.SortStableFunc(steps, func(x, y step) int { return cmp.Compare(a.lasted[y.number], a.lasted[x.number]) })
	usual := a.usual()
	for _, s := range steps[:min(len(steps), slowestSteps)] {
		d := a.lasted[s.number]
		x := SlowStep{Step: s.number, Seconds: seconds(d), Factor: float64(d) / float64(max(median, 1)), Late: -1, Longest: a.longest(s.number, usual).String()}
		if by, named := a.named[s.number]; named {
			x.Late, x.Cause, x.Delay = a.Ranks[by.rank].Rank, by.cause().String(), seconds(by.total)
		}
		all = append(all, x)
	}
	return all
}

// usual returns the median of each phase of the first rank.
func (a *analysis) usual() (usual [trace.Phases]int64) {
	for p := range usual {
		a.column = a.column[:0]
		for _, phases := range a.phases {
			a.column = append(a.column, phases[p])
		}
		slices.Sort(a.column)
		if n := len(a.column); n > 0 {
			usual[p] = a.column[n/2]
		}
	}
	return usual
}

func (a *analysis) longest(step int64, usual [trace.Phases]int64) trace.Phase {
	worst, phases := trace.Input, a.phases[step]
	for p := trace.Input; p <= trace.Update; p++ {
		if phases[p]-usual[p] > phases[worst]-usual[worst] {
			worst = p
		}
	}
	return worst
}
