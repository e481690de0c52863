package step

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// TestCrewDoesEachPartOnce: each worker runs each phase once, whether goroutines sleep or
// poll between phases and whether a worker ends before the caller or after it.
func TestCrewDoesEachPartOnce(t *testing.T) {
	for _, looks := range []int{0, 3, maxLooks} {
		const workers = 3
		var did [workers]int
		slow := 0
		c := lookingCrew(workers, looks, func(i int) {
			for range 100 * (slow ^ i&1) {
				runtime.Gosched()
			}
			did[i]++
		})
		each := func() {
			c.run(0)
			slow = 1 - slow
		}
		for n := range 300 {
			each()
			for i, d := range did {
				if d != n+1 {
					t.Fatalf("%d looks: after %d phases worker %d has done %d", looks, n+1, i, d)
				}
			}
		}
		if allocs := testing.AllocsPerRun(20, each); allocs != 0 {
			t.Errorf("%d looks: %v allocations a phase", looks, allocs)
		}
		c.close()
	}
}

// TestLateCallsToWakeWakeNoRank: a goroutine that is delayed between its part of a phase and
// its call of wake wakes no goroutine in a later phase.
func TestLateCallsToWakeWakeNoRank(t *testing.T) {
	var done atomic.Bool
	s, ended := newSleeper(), make(chan struct{})
	go func() {
		s.sleep(done.Load)
		close(ended)
	}()
	for range 3 {
		for !s.asleep.Load() {
			select {
			case <-ended:
				t.Fatal("a call of wake ended a sleep that was not to end")
			default:
				runtime.Gosched()
			}
		}
		s.wake()
	}
	done.Store(true)
	s.wake()
	<-ended
}
