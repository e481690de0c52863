package slots

import (
	"slices"
	"time"
)

// gaps measures when the slots of a step become complete. It determines when a slot is late
// and how many backups improve the speed.
//
// For cancelled slots only the progress is known (Report.Done): a rank that had done a part f
// of its work after τ would have arrived at τ/f, and not before it answered. A slot that no
// rank was free for would have arrived one lease after the end of the step.
type gaps struct {
	usual    time.Duration // usual time of a lease: moving mean of complete ones
	arrivals []float64     // arrivals in the current step, seconds from its beginning
	rows     []row         // earlier steps that wait for answers, oldest first

	sums  []float64 // sums of arrival times over steps, by order of arrival
	steps int

	weighed bool // b was evaluated at least once
}

// row holds the arrivals of one step.
type row struct {
	step     int64
	begun    time.Duration
	end      float64
	arrivals []float64
	open     int // cancelled slots whose ranks have not answered
}

const (
	// window is the number of steps measured before b may change: enough to average stalls that
	// occur once in a few dozen steps.
	window = 64
	// patience is the number of steps after which an answer is no longer awaited.
	patience = 16
)

// arrive records a complete slot: the time since the step began and the time of its lease.
func (g *gaps) arrive(step, lease time.Duration) {
	g.arrivals = append(g.arrivals, step.Seconds())
	if g.usual == 0 {
		g.usual = lease
	}
	g.usual += (lease - g.usual) / 16
}

// left records the progress of a cancelled slot.
func (g *gaps) left(now, lease time.Duration, step int64, done uint8) {
	for i := range g.rows {
		r := &g.rows[i]
		if r.step != step || r.open == 0 {
			continue
		}
		at := lease.Seconds()
		if done > 0 {
			at *= maxDone / float64(done)
		}
		r.arrivals = append(r.arrivals, max(at, r.end))
		r.open--
		g.add(now)
		return
	}
}

// commit ends a step of n slots, of which open were cancelled.
func (g *gaps) commit(now, begun time.Duration, step int64, n, open int) {
	r := row{step: step, begun: begun, end: (now - begun).Seconds(), open: open, arrivals: g.arrivals}
	for len(r.arrivals)+open < n {
		r.arrivals = append(r.arrivals, r.end+g.usual.Seconds())
	}
	if len(r.arrivals)+open > n { // if slots had copies
		r.arrivals = r.arrivals[:n-open]
	}
	g.rows = append(g.rows, r)
	g.arrivals = make([]float64, 0, n)
	g.add(now)
}

// add adds the oldest rows that are complete or have waited long enough to the sums.
func (g *gaps) add(now time.Duration) {
	for len(g.rows) > 0 && (g.rows[0].open == 0 || len(g.rows) > patience) {
		r := g.rows[0]
		g.rows = append(g.rows[:0], g.rows[1:]...)
		for ; r.open > 0; r.open-- {
			r.arrivals = append(r.arrivals, (now - r.begun).Seconds())
		}
		slices.Sort(r.arrivals)
		if len(g.sums) != len(r.arrivals) {
			g.sums, g.steps = make([]float64, len(r.arrivals)), 0
		}
		for i, at := range r.arrivals {
			g.sums[i] += at
		}
		g.steps++
	}
}

// late reports whether a lease has taken longer than patience times the usual time.
func (g *gaps) late(lease time.Duration, patience float64) bool {
	return g.usual > 0 && lease.Seconds() > patience*g.usual.Seconds()
}

// best returns the b in [0, most] with the highest speed in the measured steps, and its gain
// over b = now.
func (g *gaps) best(now, most int) (b int, gain float64) {
	b = now
	for k := range min(most, len(g.sums)-1) + 1 {
		if g.speed(k) > g.speed(b) {
			b = k
		}
	}
	return b, g.speed(b) / g.speed(now)
}

// speed returns a value proportional to the samples per second with b backups. On two ranks,
// one backup is half of a step's samples, and pays only if one rank takes twice as long.
func (g *gaps) speed(b int) float64 {
	s := len(g.sums)
	return float64(s-b) / g.sums[s-b-1]
}

// Gains below these do not change b. Fewer backups need a clear gain: arrivals that no rank
// waited for are estimates, which are too low for rare long stalls.
const (
	worthMore  = 1.02
	worthFewer = 1.1
)
