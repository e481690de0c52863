// Package norm computes the statistics of batch normalisation from sums over the rows of a rank:
//
//	y = scale·(x − mean)/√(variance + 1e-5) + shift.
//
// A layer on the CPU or on a GPU sums over its rows; the rest is here, so that both have the same
// formulas. Mean and variance are computed over the rows of all ranks. A pass reduces three
// times: counts and sums, then squares around the mean, which avoids cancellation, then the sums
// of backward. Every rank calls the same methods; a rank without rows adds zeros.
package norm

import "math"

// Epsilon is the term that is added to a variance. It keeps the standard deviation of a constant
// unit above zero.
const Epsilon = 1e-5

// momentum is the weight of a new batch in the running statistics. The formula is from Ioffe
// and Szegedy 2015. The constants are PyTorch's, because published settings were tuned with them.
const momentum = 0.1

// Statistics are the statistics of one layer. Evaluation uses the running statistics:
//
//	running ← 0.9·running + 0.1·batch
//
// with the unbiased variance n/(n−1), starting at mean 0 and variance 1. They are the same on
// every rank.
type Statistics struct {
	Reduce func([]float32) error // sums over the ranks in place; nil: there is one rank
	Sums   []float32             // 2·width+1: sums over this rank's rows; each method reduces them
	Mean   []float32             // of the last batch
	InvStd []float32             // of the last batch: 1/√(variance + Epsilon)

	total float32 // rows of the last batch on all ranks
}

// New returns the statistics of a layer of width units.
func New(width int) Statistics {
	return Statistics{Sums: make([]float32, 2*width+1), Mean: make([]float32, width), InvStd: make([]float32, width)}
}

// InvStd returns 1/√(variance + Epsilon).
func InvStd(variance float64) float32 { return float32(1 / math.Sqrt(variance+Epsilon)) }

func (s *Statistics) reduce(n int) error {
	if s.Reduce == nil {
		return nil
	}
	return s.Reduce(s.Sums[:n])
}

// Center sets Mean from the sums of the units over this rank's rows.
func (s *Statistics) Center(rows int) error {
	w := len(s.Mean)
	s.Sums[w] = float32(rows)
	if err := s.reduce(w + 1); err != nil {
		return err
	}
	s.total = s.Sums[w]
	for j, x := range s.Sums[:w] {
		s.Mean[j] = float32(float64(x) / max(float64(s.total), 1))
	}
	return nil
}

// Scale sets InvStd from the sums of (x − Mean)², and adds the batch to the running statistics.
// A batch without rows on any rank does not change them.
func (s *Statistics) Scale(runningMean, runningVariance []float32) error {
	w, n := len(s.Mean), max(float64(s.total), 1)
	if err := s.reduce(w); err != nil {
		return err
	}
	for j, x := range s.Sums[:w] {
		s.InvStd[j] = InvStd(float64(x) / n)
		if s.total > 0 {
			unbiased := float32(float64(x) / max(n-1, 1))
			runningMean[j] += float32(momentum * (s.Mean[j] - runningMean[j]))
			runningVariance[j] += float32(momentum * (unbiased - runningVariance[j]))
		}
	}
	return nil
}

// Backward returns the means over the batch of dy and of dy·(x − Mean)·InvStd, from their sums
// over this rank's rows, which are stored in this order.
func (s *Statistics) Backward() (dy, dyx []float32, err error) {
	w := len(s.Mean)
	if err := s.reduce(2 * w); err != nil {
		return nil, nil, err
	}
	for j := range s.Sums[:2*w] {
		s.Sums[j] /= max(s.total, 1)
	}
	return s.Sums[:w], s.Sums[w : 2*w], nil
}
