package step

import "sync"

// crew runs phases of work on n goroutines that stay from step to step, the
// caller's own among them: steady state starts none, allocates nothing and
// takes no lock of its own.
type crew struct {
	phases []func(worker int)
	start  []chan int // the phase, one channel for each worker but the caller
	done   sync.WaitGroup
	ended  sync.WaitGroup
}

// newCrew starts n−1 goroutines; close ends them.
func newCrew(n int, phases ...func(worker int)) *crew {
	c := &crew{phases: phases, start: make([]chan int, n-1)}
	for i := range c.start {
		start := make(chan int, 1)
		c.start[i] = start
		c.ended.Go(func() {
			for phase := range start {
				phases[phase](i + 1)
				c.done.Done()
			}
		})
	}
	return c
}

// run has every worker do its part of a phase and returns when all have.
func (c *crew) run(phase int) {
	c.done.Add(len(c.start))
	for _, start := range c.start {
		start <- phase
	}
	c.phases[phase](0)
	c.done.Wait()
}

func (c *crew) close() {
	for _, start := range c.start {
		close(start)
	}
	c.ended.Wait()
}
