package save

import (
	"testing"
	"time"
)

// TestHeldCounts: the steps during a checkpoint are those from its cut to the one during
// which its file was complete.
func TestHeldCounts(t *testing.T) {
	var h costs
	soFar := time.Duration(0)
	for i, took := range []time.Duration{5, 7, 11, 13, 17} {
		soFar += took
		h.count(soFar)
		h.under = i == 1 || i == 2 // cut after the second, written during the fourth
	}
	if h.during != 11+13 || h.steps != 2 {
		t.Errorf("%d steps that took %d, want 2 that took 24", h.steps, h.during)
	}
}

// TestStopwatchLeavesMeetingsOut: time between stop and start is not counted, and the CPU
// time of a thread does not exceed the elapsed time.
func TestStopwatchLeavesMeetingsOut(t *testing.T) {
	var w stopwatch
	began := time.Now()
	w.start()
	w.stop()
	time.Sleep(50 * time.Millisecond)
	w.start()
	w.stop()
	if all := time.Since(began); w.wall > all-50*time.Millisecond || w.wall < 0 || w.core < 0 || w.core > w.wall {
		t.Errorf("%v, %v with a core, of %v with a pause of 50 ms", w.wall, w.core, all)
	}
}
