package pace

import (
	"math"
	"testing"
	"time"
)

// TestRateIsRecent: a rate that changes is followed within the window, whatever was before.
func TestRateIsRecent(t *testing.T) {
	var p Pace
	if p.Rate() != 0 {
		t.Error("a rate without marks")
	}
	at, count := time.Duration(0), int64(0)
	run := func(seconds float64, rate int64) {
		for range int(seconds * 100) {
			at, count = at+10*time.Millisecond, count+rate/100
			p.See(at, count)
		}
	}
	run(1000, 100_000)
	run(11, 1000)
	if r := p.Rate(); math.Abs(r-1000) > 1 {
		t.Errorf("%v per second, want 1000", r)
	}
	if len(p.marks) > slots+3 || cap(p.marks) > 4*slots {
		t.Errorf("%d marks in %d", len(p.marks), cap(p.marks))
	}
	p.See(at+time.Minute, count+60) // one long step
	if r := p.Rate(); math.Abs(r-1) > 0.01 {
		t.Errorf("%v per second, want 1", r)
	}
	p.See(at+time.Minute, 5) // the training restarts
	if n, took := p.Recent(); n != 0 || took != 0 {
		t.Errorf("%d in %v after a restart", n, took)
	}
}
