package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/internal/runs/live"
)

// SlowRank is a rank that was slower than the others for a while.
type SlowRank struct {
	Rank   int     `json:"rank"`
	Host   string  `json:"host,omitempty"`
	Cause  string  `json:"cause"`  // input, compute, or host: the process got too little CPU time
	Factor float64 `json:"factor"` // time divided by the median of the ranks, mean over the slow windows
	Share  float64 `json:"share"`  // share of the watched time
}

// Effort is the work of a rank since training began, without the time it waited for other
// ranks.
type Effort struct {
	Input   time.Duration // time waiting for input, in steps
	Compute time.Duration
	CPU     time.Duration // CPU time of the process in the same period
	Batches time.Duration // microbatches computed, one counting as 1 s; partial ones count
}

func (e Effort) minus(o Effort) Effort {
	return Effort{e.Input - o.Input, e.Compute - o.Compute, e.CPU - o.CPU, e.Batches - o.Batches}
}

// A rank is slow if it exceeds the median by slowFactor and by a least time, in several
// consecutive windows of a least duration and number of steps. So two ranks on a busy
// machine, or steps of microseconds, do not cause reports. It is probably slow if it exceeds the
// median by probableFactor in more windows. Either ends after slowStreak consecutive windows below
// probableFactor.
const (
	slowWindow     = time.Second
	slowSteps      = 8
	slowStreak     = 4
	slowFactor     = 1.5
	probableFactor = 1.2
	probableStreak = 8
	slowLeast      = time.Millisecond // least excess per step, and
	slowOfStep     = 0.1              // least excess as a share of the step
	slowAgain      = time.Minute      // least time between two reports of the same rank and cause
	starvedBelow   = 0.6              // CPU time below this share of the compute time: the host is the cause
)

// The causes, in the order in which they are checked.
const (
	slowInput = iota
	slowCompute
	slowHost
	slowCauses
)

var slowNames = [slowCauses]string{"input", "compute", "host"}

// watch finds slow ranks. It has no clock and no I/O.
type watch struct {
	hosts   []string // host of each rank; nil: unknown
	states  [][slowCauses]slowness
	named   [][slowCauses]time.Duration // watched time at the last report; 0: never reported
	seen    [][slowCauses]seen
	at      time.Duration // watched time: sum of the windows
	ordered []float64
}

// slowness is the state of a rank and a cause.
type slowness struct {
	slow, probable     bool
	strong, weak, calm int     // consecutive windows with at least slowFactor, at least probableFactor, and less
	factor             float64 // in the last window with at least probableFactor
}

// add adds a window with a factor, which is 0 below probableFactor.
func (s *slowness) add(factor float64) {
	if factor == 0 {
		s.strong, s.weak = 0, 0
		if s.calm++; s.calm >= slowStreak {
			s.slow, s.probable = false, false
		}
		return
	}
	s.factor, s.calm = factor, 0
	if s.weak++; s.weak >= probableStreak {
		s.probable = true
	}
	if factor < slowFactor {
		s.strong = 0
	} else if s.strong++; s.strong >= slowStreak {
		s.slow = true
	}
}

// seen sums windows in which a rank was slow.
type seen struct {
	time   time.Duration
	factor float64 // sum of factor × time
}

func newWatch(size int, hosts []string) *watch {
	return &watch{hosts: hosts, states: make([][slowCauses]slowness, size), named: make([][slowCauses]time.Duration, size), seen: make([][slowCauses]seen, size)}
}

// addWindow adds a window of the given steps with the effort of each rank. It returns messages
// about slow ranks.
func (w *watch) addWindow(length time.Duration, steps int64, by []Effort) (lines []string) {
	w.at += length
	step := length.Seconds() / float64(steps)
	input := func(e Effort) float64 { return e.Input.Seconds() / float64(steps) }
	compute := func(e Effort) float64 {
		if e.Batches == 0 {
			return 0 // no microbatch has ended: unknown
		}
		return e.Compute.Seconds() / e.Batches.Seconds()
	}
	for rank, e := range by {
		var factors [slowCauses]float64
		factors[slowInput] = w.slowdown(input, by, rank, step)
		factors[slowCompute] = w.slowdown(compute, by, rank, step)
		if factors[slowCompute] > 0 && e.CPU.Seconds() < starvedBelow*e.Compute.Seconds() {
			factors[slowHost], factors[slowCompute] = factors[slowCompute], 0
		}
		for cause, x := range factors {
			if cause != slowInput && e.Batches == 0 {
				continue // unknown in this window: a very slow rank may end no microbatch in it
			}
			if line := w.count(rank, cause, x, length); line != "" {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// slowdown returns a rank's value divided by the median of all ranks; 0 if it is below
// probableFactor. For an even number of ranks it uses the lower median: with two ranks, the other
// rank's value.
func (w *watch) slowdown(figure func(Effort) float64, by []Effort, rank int, step float64) float64 {
	w.ordered = w.ordered[:0]
	for _, e := range by {
		w.ordered = append(w.ordered, figure(e))
	}
	mine := w.ordered[rank]
	slices.Sort(w.ordered)
	median := w.ordered[(len(by)-1)/2]
	if mine < probableFactor*median || mine-median < max(slowLeast.Seconds(), slowOfStep*step) {
		return 0
	}
	return mine / max(median, mine/999)
}

// count records whether a rank was slow in a window and returns a message if it is to be
// reported.
func (w *watch) count(rank, cause int, factor float64, length time.Duration) string {
	state := &w.states[rank][cause]
	if state.add(factor); factor < slowFactor {
		return ""
	}
	s := &w.seen[rank][cause]
	s.time += length
	s.factor += float64(factor * length.Seconds())
	named := &w.named[rank][cause]
	if state.strong < slowStreak || *named > 0 && w.at-*named < slowAgain {
		return ""
	}
	*named = w.at
	line := fmt.Sprintf("rank %d%s is %.1f× slower in %s than the median of the ranks", rank, w.describeRank(rank), factor, slowNames[min(cause, slowCompute)])
	if cause == slowHost {
		line += ": its host does not let it compute"
	}
	return line
}

func (w *watch) describeRank(rank int) string {
	if rank >= len(w.hosts) || w.hosts[rank] == "" {
		return ""
	}
	return " on host " + w.hosts[rank]
}

// report returns the ranks that were reported as slow.
func (w *watch) report() (all []SlowRank) {
	for rank := range w.seen {
		for cause, s := range w.seen[rank] {
			if w.named[rank][cause] == 0 {
				continue
			}
			x := SlowRank{Rank: rank, Cause: slowNames[cause], Factor: s.factor / s.time.Seconds(), Share: s.time.Seconds() / w.at.Seconds()}
			if rank < len(w.hosts) {
				x.Host = w.hosts[rank]
			}
			all = append(all, x)
		}
	}
	return all
}

// now returns the ranks that are slow, and those that probably are.
func (w *watch) now() (all []live.Slow) {
	for rank := range w.states {
		for cause := range w.states[rank] {
			if s := &w.states[rank][cause]; s.slow || s.probable {
				all = append(all, live.Slow{Rank: rank, Cause: slowNames[cause], Factor: s.factor, Probable: !s.slow})
			}
		}
	}
	return all
}
