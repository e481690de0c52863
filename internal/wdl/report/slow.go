package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/internal/live"
)

// SlowRank is a rank that was slower than the others for a while.
type SlowRank struct {
	Rank   int     `json:"rank"`
	Host   string  `json:"host,omitempty"`
	Cause  string  `json:"cause"`  // input, compute, or host: its machine did not let it compute
	Factor float64 `json:"factor"` // how many times slower than the median of the ranks, while it was
	Share  float64 `json:"share"`  // of the training's time, as far as it was watched
}

// Effort is what a rank has done since training began, of its own: without waiting
// for others.
type Effort struct {
	Input   time.Duration // in steps
	Compute time.Duration
	CPU     time.Duration // that the process got meanwhile
	Batches time.Duration // computed, in units of a microbatch = 1 s: parts of one count
}

func (e Effort) minus(o Effort) Effort {
	return Effort{e.Input - o.Input, e.Compute - o.Compute, e.CPU - o.CPU, e.Batches - o.Batches}
}

// How ranks are found slow: in several windows of at least so long and so many steps,
// one after the other, in each by a factor and by as much as is worth a word. So two
// ranks that share a busy machine, or steps of microseconds, name no rank.
const (
	slowWindow   = time.Second
	slowSteps    = 8
	slowStreak   = 4
	slowFactor   = 1.5
	slowLeast    = time.Millisecond // of a step, and
	slowOfStep   = 0.1              // of its length
	slowAgain    = time.Minute      // before the same is said again
	starvedBelow = 0.6              // of the time in compute is not the rank's own doing
)

// The causes, in the order in which they are looked for.
const (
	slowInput = iota
	slowCompute
	slowHost
	slowCauses
)

var slowNames = [slowCauses]string{"input", "compute", "host"}

// watch finds slow ranks. It has no clock and no I/O.
type watch struct {
	hosts   []string // by rank, nil if they are not known
	streak  [][slowCauses]int
	told    [][slowCauses]time.Duration // when, from the beginning; 0: never
	last    [][slowCauses]float64       // how slow a rank was in the last window; 0: not
	seen    [][slowCauses]seen
	at      time.Duration // the sum of the windows
	ordered []float64
}

// seen sums windows in which a rank was slow.
type seen struct {
	time   time.Duration
	factor float64 // times time
}

func newWatch(size int, hosts []string) *watch {
	return &watch{hosts: hosts, streak: make([][slowCauses]int, size), told: make([][slowCauses]time.Duration, size), last: make([][slowCauses]float64, size), seen: make([][slowCauses]seen, size)}
}

// look takes what each rank did in a window of so many steps, and returns what people
// should know.
func (w *watch) look(length time.Duration, steps int64, by []Effort) (lines []string) {
	w.at += length
	step := length.Seconds() / float64(steps)
	input := func(e Effort) float64 { return e.Input.Seconds() / float64(steps) }
	compute := func(e Effort) float64 {
		if e.Batches == 0 {
			return 0 // nothing was ended: nothing is known
		}
		return e.Compute.Seconds() / e.Batches.Seconds()
	}
	for rank, e := range by {
		var factors [slowCauses]float64
		factors[slowInput] = w.behind(input, by, rank, step)
		factors[slowCompute] = w.behind(compute, by, rank, step)
		if factors[slowCompute] > 0 && e.CPU.Seconds() < starvedBelow*e.Compute.Seconds() {
			factors[slowHost], factors[slowCompute] = factors[slowCompute], 0
		}
		w.last[rank] = factors
		for cause, x := range factors {
			if cause != slowInput && e.Batches == 0 {
				continue // other windows show it: a very slow rank ends nothing in some
			}
			if line := w.count(rank, cause, x, length); line != "" {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// behind is how many times the median a rank's figure is, 0 if that is not slow. Of
// two medians the lower counts: with two ranks, the other's.
func (w *watch) behind(figure func(Effort) float64, by []Effort, rank int, step float64) float64 {
	w.ordered = w.ordered[:0]
	for _, e := range by {
		w.ordered = append(w.ordered, figure(e))
	}
	mine := w.ordered[rank]
	slices.Sort(w.ordered)
	median := w.ordered[(len(by)-1)/2]
	if mine < slowFactor*median || mine-median < max(slowLeast.Seconds(), slowOfStep*step) {
		return 0
	}
	return mine / max(median, mine/999)
}

// count notes that a rank was, or was not, slow in a window.
func (w *watch) count(rank, cause int, factor float64, length time.Duration) string {
	if factor == 0 {
		w.streak[rank][cause] = 0
		return ""
	}
	s := &w.seen[rank][cause]
	s.time += length
	s.factor += float64(factor * length.Seconds())
	told := &w.told[rank][cause]
	if w.streak[rank][cause]++; w.streak[rank][cause] < slowStreak || *told > 0 && w.at-*told < slowAgain {
		return ""
	}
	*told = w.at
	line := fmt.Sprintf("rank %d%s is %.1f× slower in %s than the median of the ranks", rank, w.on(rank), factor, slowNames[min(cause, slowCompute)])
	if cause == slowHost {
		line += ": its host does not let it compute"
	}
	return line
}

func (w *watch) on(rank int) string {
	if rank >= len(w.hosts) || w.hosts[rank] == "" {
		return ""
	}
	return " on host " + w.hosts[rank]
}

// report lists the ranks that were named.
func (w *watch) report() (all []SlowRank) {
	for rank := range w.seen {
		for cause, s := range w.seen[rank] {
			if w.told[rank][cause] == 0 {
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

// now lists the ranks that have been slow for as many windows as it takes to be named.
func (w *watch) now() (all []live.Slow) {
	for rank := range w.last {
		for cause, x := range w.last[rank] {
			if x > 0 && w.streak[rank][cause] >= slowStreak {
				all = append(all, live.Slow{Rank: rank, Cause: slowNames[cause], Factor: x})
			}
		}
	}
	return all
}
