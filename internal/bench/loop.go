package bench

import (
	"bytes"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/collective"
)

const (
	minBatches, maxBatches = 5, 2000
	maxCalls               = 20000 // per batch
	warmCalls              = 200   // most calls for warming up
	warmTime               = 60 * time.Millisecond
)

// loop measures calls on one Comm.
type loop struct {
	c           *collective.Comm
	time, batch time.Duration
	predicts    bool // the costs of c were measured

	samples [maxBatches]float64 // seconds per call, by batch
	word    [2]int64            // decisions that rank 0 sends to all
	seen    int                 // keeps the compiler from removing the reading of results
}

// decide sends rank 0's words to every rank.
func (l *loop) decide(words ...int64) error {
	copy(l.word[:], words)
	return collective.Broadcast(l.c, l.word[:len(words)], 0)
}

// measure returns the median time of a call, in seconds, the same on all ranks.
func (l *loop) measure(x call, use bool) (float64, error) {
	once, err := l.warm(x, use)
	if err != nil {
		return 0, err
	}
	if err := l.decide(l.plan(once, use)); err != nil {
		return 0, err
	}
	if !use { // the estimate for one call, refined by a batch
		if once, err = l.one(x, false, int(l.word[0])); err != nil {
			return 0, err
		}
	}
	calls := l.plan(once, use)
	if err := l.decide(calls, l.batches(once, calls)); err != nil {
		return 0, err
	}
	k, samples := int(l.word[0]), l.samples[:l.word[1]]
	for i := range samples {
		if samples[i], err = l.one(x, use, k); err != nil {
			return 0, err
		}
	}
	if err := collective.AllReduce(l.c, samples, collective.Max); err != nil {
		return 0, err
	}
	return Median(samples), nil
}

// warm repeats a call until caches, connections and the scheduler have settled. It returns
// the least seconds of a call.
func (l *loop) warm(x call, use bool) (float64, error) {
	least, start, enough := 1e9, time.Now(), min(warmTime, l.time/2)
	for i := range warmCalls {
		t, err := l.one(x, use, 1)
		if err != nil {
			return 0, err
		}
		least = min(least, t)
		stop := int64(0)
		if time.Since(start) > enough && i >= 2 {
			stop = 1
		}
		if err := l.decide(stop); err != nil {
			return 0, err
		}
		if l.word[0] == 1 {
			break
		}
	}
	return least, nil
}

// one returns the mean seconds of k calls after a barrier.
func (l *loop) one(x call, use bool, k int) (float64, error) {
	if use {
		clear(x.sent)
	}
	if err := collective.Barrier(l.c); err != nil {
		return 0, err
	}
	start := time.Now()
	for range k {
		if err := x.do(); err != nil {
			return 0, err
		}
	}
	if use {
		l.seen += bytes.Count(x.got, []byte{1}) // reads at the speed of vectors
	}
	return time.Since(start).Seconds() / float64(k), nil
}

// plan returns the calls per batch for calls of the given seconds.
func (l *loop) plan(seconds float64, use bool) int64 {
	if use {
		return 1
	}
	return int64(min(max(l.batch.Seconds()/max(seconds, 2e-8), 1), maxCalls))
}

// batches returns the number of batches to measure.
func (l *loop) batches(seconds float64, calls int64) int64 {
	return int64(min(max(l.time.Seconds()/(float64(calls)*max(seconds, 2e-8)), minBatches), maxBatches))
}

// Median sorts x and returns its median, 0 if it is empty.
func Median(x []float64) float64 {
	slices.Sort(x)
	n := len(x)
	if n == 0 {
		return 0
	}
	return (x[(n-1)/2] + x[n/2]) / 2
}
