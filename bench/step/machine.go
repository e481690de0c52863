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
	peakRounds = 1 << 16 // of f32.PeakFLOP: under a millisecond
	copyBytes  = 64 << 20
	tries      = 5 // the best counts: a neighbour slows, nothing speeds up
)

// measureMachine takes some tens of milliseconds.
func measureMachine() (m Machine) {
	from, to := make([]byte, copyBytes), make([]byte, copyBytes)
	for i := 0; i < copyBytes; i += 1 << 12 { // pages of their own
		from[i], to[i] = 1, 1
	}
	for range tries {
		start := time.Now()
		flop := f32.PeakFLOP(peakRounds)
		m.PeakFLOPS = max(m.PeakFLOPS, float64(flop)/time.Since(start).Seconds())
		start = time.Now()
		copy(to, from)
		m.Bandwidth = max(m.Bandwidth, 2*copyBytes/time.Since(start).Seconds())
	}
	return m
}
