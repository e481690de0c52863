package step

import (
	"time"

	"github.com/wdlrun/wdlrun/internal/f32"
)

// Machine is what one thread of this machine can do, measured while every rank
// measures, as in a step.
type Machine struct {
	PeakFLOPS float64 `json:"peak_flops"` // multiply-adds on registers count two
	Bandwidth float64 `json:"bandwidth"`  // bytes a second, read and written by a copy
}

const (
	peakEvery = 4 // steps
	copyBytes = 64 << 20
	tries     = 5 // the best counts: a neighbour slows, nothing speeds up
)

// peak measures this thread's multiply-adds a second over as many of them as a
// step has, since a core lowers its clock once wide vectors go on for long. On a
// shared machine it changes from one moment to the next, as the steps do; so it is
// measured between them, and the medians of both are compared. It is 0 for the
// portable kernels, which have no such loop.
func peak(flop int64) float64 {
	round := f32.PeakFLOP(1)
	if round == 0 {
		return 0
	}
	start := time.Now()
	done := f32.PeakFLOP(int(flop/int64(round)) + 1)
	return float64(done) / time.Since(start).Seconds()
}

// bandwidth takes some tens of milliseconds.
func bandwidth() (best float64) {
	from, to := make([]byte, copyBytes), make([]byte, copyBytes)
	for i := 0; i < copyBytes; i += 1 << 12 { // pages of their own
		from[i], to[i] = 1, 1
	}
	for range tries {
		start := time.Now()
		copy(to, from)
		best = max(best, 2*copyBytes/time.Since(start).Seconds())
	}
	return best
}
