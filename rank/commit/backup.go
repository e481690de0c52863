package commit

import (
	"fmt"
	"slices"
	"time"
)

// gaps measures when the slots of a step become complete, to say when one is
// late and how many backups pay.
//
// Of slots that were cancelled one knows only how far they were (Ready.Done):
// a worker that had done a part f of its work after τ would have arrived at τ/f.
// One that has not answered when the next step commits counts as arriving then.
type gaps struct {
	usual time.Duration // of a lease: a moving mean of complete ones

	now  []float64 // arrivals of the step in work, seconds from its beginning
	last []float64 // of the step before, with estimates of late ones
	end  float64   // when that step was decided
	full int       // slots that it had

	sums  []float64 // by rank of arrival, over steps
	steps int
}

// window is how many steps are measured before b may change: enough for a mean
// of stalls that come once in a few dozen steps.
const window = 64

// arrive notes a complete slot: time since the step began and since its lease.
func (g *gaps) arrive(step, lease time.Duration) {
	g.now = append(g.now, step.Seconds())
	if g.usual == 0 {
		g.usual = lease
	}
	g.usual += (lease - g.usual) / 16
}

// left notes how far a cancelled slot was.
func (g *gaps) left(lease time.Duration, done uint8) {
	if len(g.last) >= g.full {
		return
	}
	at := lease.Seconds()
	if done > 0 {
		at *= maxDone / float64(done)
	}
	g.last = append(g.last, max(at, g.end))
}

// commit ends a step of n slots.
func (g *gaps) commit(step time.Duration, n int) {
	if g.full > 0 {
		for len(g.last) < g.full {
			g.last = append(g.last, g.end+step.Seconds())
		}
		slices.Sort(g.last)
		if len(g.sums) != g.full {
			g.sums, g.steps = make([]float64, g.full), 0
		}
		for i := range g.sums {
			g.sums[i] += g.last[i]
		}
		g.steps++
	}
	g.last, g.now = g.now, g.last[:0]
	g.end, g.full = step.Seconds(), n
	if len(g.last) > n { // arrivals of copies
		g.last = g.last[:n]
	}
}

// late reports whether a lease has taken longer than is usual.
func (g *gaps) late(lease time.Duration, patience float64) bool {
	return g.usual > 0 && lease.Seconds() > patience*g.usual.Seconds()
}

// best returns the b from 0 to most with the most samples a second in the steps
// measured, and what it gains over b = now.
func (g *gaps) best(now, most int) (b int, gain float64) {
	s := len(g.sums)
	speed := func(b int) float64 { return float64(s-b) / g.sums[s-b-1] }
	b = now
	for k := range min(most, s-1) + 1 {
		if speed(k) > speed(b) {
			b = k
		}
	}
	return b, speed(b) / speed(now)
}

// worth is the gain below which b stays: smaller ones are noise.
const worth = 1.02

// adapt changes b after each window of steps, if that pays.
func (c *Coordinator) adapt() {
	g := &c.gaps
	if !c.cfg.Auto || g.steps < window || len(g.sums) != c.cfg.Slots {
		return
	}
	old := c.cfg.Backup
	b, gain := g.best(old, max(1, c.cfg.Slots/4))
	if b != old && gain > worth {
		mean := func(k int) float64 { return 1000 * g.sums[k-1] / float64(g.steps) }
		s := c.cfg.Slots
		c.cfg.Backup = b
		c.note(Note{Event: Adapted, Text: fmt.Sprintf(
			"backups %d → %d: over %d steps slot %d of %d came after %.3g ms on average, slot %d after %.3g ms: %.2f× the samples per second",
			old, b, g.steps, s-old, s, mean(s-old), s-b, mean(s-b), gain)})
	}
	clear(g.sums)
	g.steps = 0
}
