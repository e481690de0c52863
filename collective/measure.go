package collective

import (
	"math"
	"time"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

const (
	// measureTries is the number of tries of each measurement. The fastest counts, which
	// excludes delays of a busy machine. Measurements take turns, so that the tries of each
	// are spread over the whole time.
	measureTries = 5
	// measureFirst is the number of tries after which the ranks stop if they took any rank
	// longer than measureTime. They then wait for cores, or for a slow link, whose bandwidth
	// hardly varies.
	measureFirst = 2
	measureTime  = 50 * time.Millisecond
	// measureRounds is the number of rounds in a try. The last rank to enter a round finds
	// the messages of all others already there, as it does if ranks outnumber cores. A
	// single round would then take almost no time.
	measureRounds = 4
	// measureBytes are sent per rank and round to measure the bandwidth. This exceeds
	// buffers. In all it takes 26 ms of a 10 Gbit/s link with 8 ranks, 0.8 ms in memory.
	measureBytes = 128 << 10
	// measureMoves is the number of such rounds in a try.
	measureMoves = 2
)

// Measure measures the costs. It takes a few milliseconds on one host and a few tens of
// milliseconds between hosts. Every rank calls it, in the order of calls, and gets the same
// result: the costs of the slowest rank. Pass it to SetCosts.
func Measure(c *Comm) (Costs, error) {
	k := c.Costs()
	if c.size == 1 {
		return k, c.Err()
	}
	near, far := newGauge(), newGauge()
	found := make([]float64, 9)
	for begin, tries := time.Now(), measureFirst; ; tries = measureTries - measureFirst {
		if err := measureLevels(c, tries, near, far); err != nil {
			return k, err
		}
		local, links := near.level, far.level
		copy(found, []float64{local.Alpha, local.Beta, local.Gamma, local.Post, links.Alpha, links.Beta, links.Gamma, links.Post, time.Since(begin).Seconds()})
		if err := AllReduce(c, found, Max); err != nil {
			return k, err
		}
		if tries != measureFirst || found[8] > measureTime.Seconds() {
			break
		}
	}
	if found[0] > 0 {
		k.Local = Level{found[0], found[1], found[2], found[3]}
	}
	if found[4] > 0 {
		k.Links = Level{found[4], found[5], found[6], found[7]}
	}
	return k, nil
}

// gauge holds the measurements of one level. The level is zero if this rank is not on it.
type gauge struct {
	a, b, g, p float64 // least seconds of a try: rounds, moves, reductions, posts
	level      Level
}

func newGauge() *gauge {
	inf := math.Inf(1)
	return &gauge{a: inf, b: inf, g: inf, p: inf}
}

// measureLevels makes some tries on every level.
func measureLevels(c *Comm, tries int, near, far *gauge) error {
	tag, err := c.begin(callMeasure, Sum, typeNone, 0, 0)
	if err != nil {
		return err
	}
	switch h := c.hosts; {
	case h != nil:
		if h.local.size > 1 {
			err = near.measure(h.local, tag, h.local.shares(), tries)
		}
		if err == nil && h.rail != nil && h.rail.size > 1 {
			err = far.measure(h.rail, tag, false, tries)
			far.level.Beta /= float64(h.rails)
		}
	case c.shares():
		err = near.measure(c, tag, true, tries)
	default:
		err = far.measure(c, tag, false, tries)
	}
	return c.recordError(err)
}

// measure makes some tries on the level of c, all of whose ranks call it.
func (m *gauge) measure(c *Comm, tag Tag, windows bool, tries int) error {
	x := make([]float32, measureBytes/4)
	y := make([]float32, measureBytes/4)
	rounds := log2(c.size)
	round, move := func() error {
		c.steps = barrierDissemination(c.steps[:0], c.rank, c.size)
		return run[uint8](c, &tag, nil, nil)
	}, func() error {
		all := span{0, len(x)}
		c.steps = append(c.steps[:0], exchange{to: (c.rank + 1) % c.size, from: (c.rank - 1 + c.size) % c.size, send: all, recv: all})
		return run(c, &tag, x, y)
	}
	if windows {
		defer c.sh.Leave(c.channel)
		rounds = 1
		round = func() error { return c.meet(&tag, Note{}) }
		move = func() error { // reads what the neighbour has just written
			copy(c.half(c.rank), raw.Bytes(x))
			if err := c.meet(&tag, Note{}); err != nil {
				return err
			}
			copy(raw.Bytes(y), c.half((c.rank+1)%c.size))
			c.turn++
			return nil
		}
	}
	post := c.posting(&tag)
	for range tries {
		for _, x := range []struct {
			least *float64
			try   func() error
		}{
			{&m.a, repeated(measureRounds, round, nil)},
			{&m.b, repeated(measureMoves, move, round)},
			{&m.g, func() error { reduce(Sum, Float32, x, y, x); return nil }},
			{&m.p, post},
		} {
			if x.try == nil {
				continue
			}
			t, err := seconds(x.try)
			if err != nil {
				return err
			}
			*x.least = min(*x.least, t)
		}
	}
	l := Level{Alpha: m.a / measureRounds / rounds, Gamma: m.g / measureBytes}
	l.Beta = max(m.b/measureMoves-float64(l.Alpha*(1+rounds/measureMoves)), 0) / measureBytes
	if windows { // the time includes the write
		l.Beta /= 2
		m.level = l
		return nil
	}
	// The difference of two times may be near 0 if both were disturbed. Sending a byte
	// copies it twice, which is not faster than summing it.
	l.Beta = max(l.Beta, l.Gamma)
	if post != nil {
		l.Post = min(l.Alpha, max((m.p/measureRounds-l.Alpha)/float64(c.size-2), minPost))
	}
	m.level = l
	return nil
}

// posting returns a try of posted messages, or nil if the transport does not post.
func (c *Comm) posting(tag *Tag) func() error {
	if c.poster == nil || c.size <= 2 {
		return nil
	}
	one, all := make([]uint64, c.size), make([]uint64, c.size)
	for i := range c.at {
		c.at[i] = i
	}
	return repeated(measureRounds, func() error {
		c.steps = allToAllPairwise(c.steps[:0], c.rank, c.size, c.at, c.at)
		return runPairwise(c, tag, one, all)
	}, nil)
}

// repeated returns a function that calls f times times, then last unless it is nil.
func repeated(times int, f, last func() error) func() error {
	return func() error {
		for range times {
			if err := f(); err != nil {
				return err
			}
		}
		if last == nil {
			return nil
		}
		return last()
	}
}

// minPost replaces a measured post of 0 seconds.
const minPost = 1e-9

// seconds runs f and returns its duration in seconds.
func seconds(f func() error) (float64, error) {
	begin := time.Now()
	err := f()
	return time.Since(begin).Seconds(), err
}
