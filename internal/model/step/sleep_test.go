package step

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestSleepCatchesUp: a late timer shortens later sleeps.
func TestSleepCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, began := new(model), time.Now()
		m.overslept = 3 * time.Millisecond
		for i, want := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond} {
			m.sleep(2 * time.Millisecond)
			if got := time.Since(began); got != want {
				t.Errorf("after %d sleeps: %s, want %s", i+1, got, want)
			}
		}
	})
}
