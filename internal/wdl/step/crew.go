package step

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// crew runs phases of work on n goroutines that stay from step to step, the
// caller's own among them: steady state starts none, allocates nothing and
// takes no lock.
type crew struct {
	phases []func(worker int)
	task   func(worker int)
	calls  atomic.Uint64 // how often there was work
	left   atomic.Int64  // workers that have not done theirs
	caller sleeper
	others []*sleeper // by worker, but for the caller
	over   bool       // what there is to do is to end
	looks  int
	ended  sync.WaitGroup
}

// maxLooks is how often a goroutine looks for what it waits for before it sleeps: for
// about as long as it takes to be woken, 70 µs on a virtual machine whose core has gone
// to sleep, too. A step has some ten phases, and the gaps between them are short.
const maxLooks = 50_000

// newCrew starts n−1 goroutines; close ends them.
func newCrew(n int, phases ...func(worker int)) *crew {
	looks := 0
	if runtime.GOMAXPROCS(0) >= n {
		looks = maxLooks
	}
	return lookingCrew(n, looks, phases...)
}

// lookingCrew is newCrew of goroutines that look so often before they sleep.
func lookingCrew(n, looks int, phases ...func(worker int)) *crew {
	c := &crew{phases: phases, looks: looks, caller: newSleeper()}
	for i := range n - 1 {
		s := newSleeper()
		c.others = append(c.others, &s)
		c.ended.Go(func() { c.work(i+1, &s) })
	}
	return c
}

// work is the goroutine of a worker.
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

// run has every worker do its part of a phase and returns when all have.
func (c *crew) run(phase int) { c.each(c.phases[phase]) }

// each is run of what is no phase.
func (c *crew) each(f func(worker int)) {
	c.begin(f)
	f(0)
	for n := 0; c.left.Load() > 0 && n < c.looks; n++ {
	}
	if c.left.Load() > 0 {
		c.caller.sleep(c.idle)
	}
}

// begin has the others do their part.
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

// sleep returns when done says so, which becomes true before somebody calls wake. A call
// of wake for what came before may reach it late and does not end it: who calls may be
// held up for any time between the two.
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
