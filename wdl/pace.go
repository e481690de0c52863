package wdl

import (
	"fmt"
	"slices"
	"time"
)

// pace finds ranks that compute slower than the others.
type pace struct {
	mean  []time.Duration // by rank: of its microbatches, moving
	order []time.Duration
	told  time.Duration
}

const (
	paceWindow = 8   // microbatches
	paceSlow   = 1.5 // times the median is worth telling
	paceEvery  = 5 * time.Second
)

func (p *pace) init(size int) {
	p.mean, p.order = make([]time.Duration, size), make([]time.Duration, size)
}

// note takes the time of a rank's microbatch.
func (p *pace) note(rank int, took time.Duration) {
	if p.mean[rank] == 0 {
		p.mean[rank] = took
	}
	p.mean[rank] += (took - p.mean[rank]) / paceWindow
}

// slow says, every few seconds at most, which rank is the slowest if it is slow.
func (p *pace) slow(now time.Duration) string {
	if now-p.told < paceEvery {
		return ""
	}
	copy(p.order, p.mean)
	slices.Sort(p.order)
	median, worst := p.order[(len(p.order)-1)/2], p.order[len(p.order)-1]
	if median == 0 || float64(worst) < paceSlow*float64(median) {
		return ""
	}
	p.told = now
	return fmt.Sprintf("rank %d is %.1f× slower in compute than the median of the ranks", slices.Index(p.mean, worst), float64(worst)/float64(median))
}
