package serve

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPace: opening a model pauses after each piece of work, and not earlier.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		rested := func() time.Duration {
			start := time.Now()
			p.pause()
			return time.Since(start)
		}
		for range 3 {
			time.Sleep(paceWork - 1)
			if d := rested(); d != 0 {
				t.Errorf("it pauses for %v after too little work", d)
			}
			time.Sleep(1)
			if d := rested(); d != paceRest {
				t.Errorf("it pauses for %v, want %v", d, paceRest)
			}
		}
	})
}
