package step

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// crew runs phases of work on n goroutines, of which the caller's is the first. The others
// are started once and stay, so in the steady state a phase allocates nothing and takes no
// lock.
type crew struct {
	phases []func(worker int)
	task   func(worker int)
	calls  atomic.Uint64 // phases that have begun
	left   atomic.Int64  // workers that have not finished the phase
	caller sleeper
	others []*sleeper // by worker, without the caller
	over   bool       // the goroutines must end
	looks  int
	ended  sync.WaitGroup
}

// maxLooks is the number of times that a goroutine polls before it sleeps. Polling takes
// about as long as waking a goroutine: 70 µs on a virtual machine whose core has gone to
// sleep. A step has about ten phases, and the gaps between them are short.
const maxLooks = 50_000

// newCrew starts n−1 goroutines. close ends them.
func newCrew(n int, phases ...func(worker int)) *crew {
	looks := 0
	if runtime.GOMAXPROCS(0) >= n {
		looks = maxLooks
	}
	return lookingCrew(n, looks, phases...)
}

// lookingCrew is newCrew whose goroutines poll looks times before they sleep.
func lookingCrew(n, looks int, phases ...func(worker int)) *crew {
	c := &crew{phases: phases, looks: looks, caller: newSleeper()}
	for i := range n - 1 {
		s := newSleeper()
		c.others = append(c.others, &s)
		c.ended.Go(func() { c.work(i+1, &s) })
	}
	return c
}

// work is the loop of worker i's goroutine.
func (c *crew) work(i int, s *sleeper) {
	for call := uint64(1); ; call++ {
		for n := 0; c.calls.Load() < call && n < c.looks; n++ {
		}
		if c.calls.Load() < call {
			s.sleep(func() bool { return c.calls.Load() >= call })
		}
		if c.over {
			return
		}
		c.task(i)
		if c.left.Add(-1) == 0 {
			c.caller.wake()
		}
	}
}

// run executes a phase on every worker and returns when all have finished.
func (c *crew) run(phase int) { c.each(c.phases[phase]) }

// each is run for a function that is not one of the phases.
func (c *crew) each(f func(worker int)) {
	c.begin(f)
	f(0)
	for n := 0; c.left.Load() > 0 && n < c.looks; n++ {
	}
	if c.left.Load() > 0 {
		c.caller.sleep(c.idle)
	}
}

// begin starts f on the other workers.
func (c *crew) begin(f func(worker int)) {
	c.task = f
	c.left.Store(int64(len(c.others)))
	c.calls.Add(1)
	for _, s := range c.others {
		s.wake()
	}
}

func (c *crew) idle() bool { return c.left.Load() == 0 }

func (c *crew) close() {
	if !c.over {
		c.over = true
		c.begin(nil)
		c.ended.Wait()
	}
}

// sleeper is a goroutine that sleeps until another one wakes it.
type sleeper struct {
	asleep atomic.Bool
	woken  chan struct{}
}

func newSleeper() sleeper { return sleeper{woken: make(chan struct{}, 1)} }

// sleep returns when done returns true, which must become true before another goroutine
// calls wake. A call of wake for an earlier condition may arrive late, since its goroutine
// may be delayed between the two; it does not end this sleep.
func (s *sleeper) sleep(done func() bool) {
	for !done() {
		s.asleep.Store(true)
		if done() && s.asleep.CompareAndSwap(true, false) {
			return // before it was seen to sleep
		}
		<-s.woken
	}
}

func (s *sleeper) wake() {
	if s.asleep.CompareAndSwap(true, false) {
		s.woken <- struct{}{}
	}
}
