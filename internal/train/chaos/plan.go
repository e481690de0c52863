package chaos

import (
	"math/rand/v2"
	"slices"
	"time"
)

// firstSteps is the number of steps in which a stop without a time happens.
const firstSteps = 100

// longestStop is the maximum duration of stops that random draws.
const longestStop = 2 * time.Second

// Plan draws the ranks and times that a spec leaves out, for a world of size ranks. Faults are in the order
// of the spec, with the faults of random in its place; a fault is identified by its index. The
// same spec, seed and size give the same plan. The spec must be valid for the size.
func (s Spec) Plan(seed uint64, size int) []Fault {
	rng := rand.New(rand.NewPCG(seed, 0x63686173))
	var plan []Fault
	for _, f := range s {
		n := 1
		if f.Kind == Random {
			n = f.Count
		}
		for range n {
			x := f
			if f.Kind == Random {
				x = draw(rng, f.When.Step, size)
			}
			plan = append(plan, complete(rng, x, size))
		}
	}
	return plan
}

// draw returns one random fault within the first steps.
func draw(rng *rand.Rand, steps int64, size int) Fault {
	f := Fault{Kind: Kill, Rank: Any, Peer: Any, When: When{Step: 1 + rng.Int64N(steps), set: true}}
	switch k := rng.IntN(3); {
	case k == 0:
		f.Kind, f.Duration = Stop, time.Duration(1+rng.Int64N(int64(longestStop)))
	case k == 1 && size > 1:
		f.Kind = Cut
	}
	return f
}

// complete draws what a fault leaves open.
func complete(rng *rand.Rand, f Fault, size int) Fault {
	if f.Kind == Stop && !f.When.set {
		f.When = When{Step: 1 + rng.Int64N(firstSteps), set: true}
	}
	if f.Kind == DiskFull {
		return f
	}
	if f.Kind != Cut {
		f.Peer = 0
		if f.Rank == Any {
			f.Rank = rng.IntN(size)
		}
		return f
	}
	for size > 1 && (f.Rank == Any || f.Peer == Any || f.Rank == f.Peer) {
		a, b := rng.IntN(size), rng.IntN(size)
		if f.Rank == Any && a != f.Peer {
			f.Rank = a
		}
		if (f.Peer == Any || f.Peer == f.Rank) && b != f.Rank {
			f.Peer = b
		}
	}
	return f
}

// due reports whether the time of a fault has been reached.
func (w When) due(step int64, at time.Duration) bool {
	if w.set && w.Step < 0 {
		return at >= w.At
	}
	return step >= w.Step
}

// Missed returns the faults of a plan that had not happened when a job ended, after a step
// and at a time. been lists the faults that happened once.
func Missed(plan []Fault, been []int, step int64, at time.Duration) (missed Spec) {
	for n, f := range plan {
		if f.Kind == Slow && f.When.due(step, at) || slices.Contains(been, n) {
			continue
		}
		missed = append(missed, f)
	}
	return missed
}

// Injector answers, for one rank, which faults happen now. The zero value and nil inject
// nothing, at the cost of a comparison. It is not safe for concurrent use: use one each,
// of the same plan, in the trainer, the transport and the checkpoint writer.
type Injector struct {
	plan []Fault
	rank int
	done []bool
}

// NewInjector returns the injector of a rank.
func NewInjector(plan []Fault, rank int) *Injector {
	return &Injector{plan: plan, rank: rank, done: make([]bool, len(plan))}
}

// Skip marks faults, by their index in the plan, as having happened.
func (in *Injector) Skip(numbers ...int) {
	for _, n := range numbers {
		if n >= 0 && n < len(in.done) {
			in.done[n] = true
		}
	}
}

// once returns the index of a fault of a kind that happens to the rank now for the first
// time, or -1.
func (in *Injector) once(k Kind, step int64, at time.Duration, of func(Fault) bool) int {
	if in == nil {
		return -1
	}
	for i, f := range in.plan {
		if f.Kind == k && !in.done[i] && of(f) && f.When.due(step, at) {
			in.done[i] = true
			return i
		}
	}
	return -1
}

// Slow returns the factor by which the rank is slowed down now: 1, or the product of the
// current faults.
func (in *Injector) Slow(step int64, at time.Duration) float64 {
	factor := 1.0
	if in == nil {
		return factor
	}
	for _, f := range in.plan {
		if f.Kind == Slow && f.Rank == in.rank && f.When.due(step, at) {
			factor *= f.Factor
		}
	}
	return factor
}

// Stop returns for how long the rank has to pause now, and the index of the fault, or 0
// and -1.
func (in *Injector) Stop(step int64, at time.Duration) (time.Duration, int) {
	n := in.once(Stop, step, at, func(f Fault) bool { return f.Rank == in.rank })
	if n < 0 {
		return 0, n
	}
	return in.plan[n].Duration, n
}

// Kill returns the index of the fault that kills the rank now, or -1. Report it to the
// launcher before dying, so that it can be skipped after a restart.
func (in *Injector) Kill(step int64, at time.Duration) int {
	return in.once(Kill, step, at, func(f Fault) bool { return f.Rank == in.rank })
}

// Cut returns the peer whose link breaks now and the index of the fault, or -1 and -1.
func (in *Injector) Cut(step int64, at time.Duration) (peer, number int) {
	n := in.once(Cut, step, at, func(f Fault) bool { return f.Rank == in.rank || f.Peer == in.rank })
	if n < 0 {
		return -1, n
	}
	if f := in.plan[n]; f.Rank != in.rank {
		return f.Rank, n
	}
	return in.plan[n].Peer, n
}

// DiskFull returns the index of the fault by which a checkpoint written now finds no
// space, or -1.
func (in *Injector) DiskFull(step int64, at time.Duration) int {
	return in.once(DiskFull, step, at, func(f Fault) bool { return f.Rank == Any || f.Rank == in.rank })
}
