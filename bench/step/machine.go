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
	peakRounds = 1 << 15 // of f32.PeakFLOP: a fraction of a millisecond
	peakEvery  = 4       // steps
	copyBytes  = 64 << 20
	tries      = 5 // the best counts: a neighbour slows, nothing speeds up
)

// peak measures this thread's multiply-adds a second. On a shared machine it
// changes from one moment to the next, as the steps do; so it is measured between
// them, and the medians of both are compared.
func peak() float64 {
	start := time.Now()
	flop := f32.PeakFLOP(peakRounds)
	return float64(flop) / time.Since(start).Seconds()
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
