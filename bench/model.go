package bench

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/wdlrun/wdlrun/collective"
)

// Model is the cost of an exchange round, in which every rank sends and receives
// b bytes at once: Alpha + b·Beta seconds, and b·Gamma more where what arrives is
// summed. (Hockney, "The communication challenge for MPP", 1994, with the
// reduction added as in Thakur, Rabenseifner and Gropp, "Optimization of
// collective communication operations in MPICH", 2005.)
//
// The predictions add up the rounds of package collective's schedules for np
// ranks and return seconds. They are rough where memory is shared instead of
// sent, and where a size fits into a cache that the measured one did not fit.
type Model struct {
	Alpha float64 // seconds a round
	Beta  float64 // seconds a byte exchanged
	Gamma float64 // seconds a byte reduced
}

func (m Model) String() string {
	return fmt.Sprintf("round %.2f µs, exchange %.2f GB/s, reduction %.2f GB/s", m.Alpha*1e6, rate(m.Beta), rate(m.Gamma))
}

// rate returns 1e9 bytes a second, or 0 where nothing was measured.
func rate(secondsPerByte float64) float64 {
	if secondsPerByte <= 0 {
		return 0
	}
	return 1e-9 / secondsPerByte
}

// log2 returns ⌈log2 np⌉.
func log2(np int) float64 { return float64(bits.Len(uint(np - 1))) }

// rounds is the cost of np−1 rounds of an np-th of the bytes each.
func (m Model) rounds(np, bytes int, secondsPerByte float64) float64 {
	return float64(np-1) * (m.Alpha + float64(bytes)/float64(np)*secondsPerByte)
}

// Barrier predicts a dissemination barrier: ⌈log2 P⌉ rounds.
func (m Model) Barrier(np int) float64 { return log2(np) * m.Alpha }

// AllReduce predicts a ring allreduce: a reduce-scatter and an all-gather.
func (m Model) AllReduce(np, bytes int) float64 {
	return m.ReduceScatter(np, bytes) + m.AllGather(np, bytes)
}

// ReduceScatter predicts a ring reduce-scatter: P−1 rounds that reduce.
func (m Model) ReduceScatter(np, bytes int) float64 {
	return m.rounds(np, bytes, m.Beta+m.Gamma)
}

// AllGather predicts a ring all-gather: P−1 rounds.
func (m Model) AllGather(np, bytes int) float64 { return m.rounds(np, bytes, m.Beta) }

// AllToAll predicts a pairwise all-to-all: P−1 rounds.
func (m Model) AllToAll(np, bytes int) float64 { return m.rounds(np, bytes, m.Beta) }

// Broadcast predicts a binomial tree: ⌈log2 P⌉ rounds of all bytes.
func (m Model) Broadcast(np, bytes int) float64 {
	return log2(np) * (m.Alpha + float64(bytes)*m.Beta)
}

// modelBytes is the buffer on which the bandwidths are measured: past the caches
// of a core, short enough to measure at the start of a job.
const modelBytes = 4 << 20

// Measure takes the figures of c's transport in about a tenth of a second. All
// ranks call it and get the same.
func Measure(c *collective.Comm) (Model, error) {
	b, err := newBuffers(c, modelBytes, true)
	if err != nil {
		return Model{}, fmt.Errorf("bench: %w", err)
	}
	m, err := measureModel(&loop{c: c, time: modelTime, batch: DefaultBatch}, b)
	if err != nil {
		return Model{}, fmt.Errorf("bench: measure the cost model: %w", err)
	}
	return m, nil
}

// modelTime is spent on each figure.
const modelTime = 20 * time.Millisecond

// measureModel takes Alpha from a barrier, Beta from an all-gather and Gamma from
// what a reduce-scatter of the same bytes takes longer.
func measureModel(l *loop, b *buffers) (Model, error) {
	np := l.c.Size()
	if np == 1 {
		return Model{}, nil
	}
	short := &loop{c: l.c, time: min(l.time, modelTime), batch: l.batch}
	var seconds [3]float64
	for i, x := range []call{barrier(b, 0), allGather(b, modelBytes), reduceScatter(b, modelBytes)} {
		clear(x.sent)
		t, err := short.measure(x, false)
		if err != nil {
			return Model{}, err
		}
		seconds[i] = t
	}
	return fit(np, modelBytes, seconds[0], seconds[1], seconds[2]), nil
}

// fit solves for the figures of a model in which a barrier, an all-gather and a
// reduce-scatter of bytes take these seconds. A figure below what can be told is 0.
func fit(np, bytes int, barrier, gather, reduce float64) Model {
	sent := float64(np-1) * float64(bytes) / float64(np)
	m := Model{Alpha: barrier / log2(np)}
	m.Beta = max(gather-float64(np-1)*m.Alpha, 0) / sent
	m.Gamma = max(reduce-gather, 0) / sent
	return m
}
