package wdl

import (
	"math"

	"github.com/wdlrun/wdlrun/collective"
)

// Metrics are the figures of one evaluation.
type Metrics struct {
	Samples  int64   `json:"samples"`
	AUC      float64 `json:"auc"`
	LogLoss  float64 `json:"logloss"`
	Accuracy float64 `json:"accuracy"`
}

// aucBits is the resolution of the histogram behind the AUC: logits are counted
// by the upper bits of their float32 order, sign and exponent and eleven bits of
// fraction. Two logits that share a bin differ by less than one part in 2,000
// and count as a tie (half a correct pair).
const aucBits = 20

// tally gathers the figures of an evaluation on one rank. The counts are
// integers, so the AUC and the accuracy do not depend on the world size.
type tally struct {
	counts  []int64 // bins of negatives, bins of positives, then right answers
	logLoss []float64
}

func newTally() *tally {
	return &tally{counts: make([]int64, 2<<aucBits+1), logLoss: make([]float64, 1)}
}

func (t *tally) reset() {
	clear(t.counts)
	clear(t.logLoss)
}

// add counts B predictions.
func (t *tally) add(logit, label []float32, lossSum float64) {
	right := 0
	for i, z := range logit {
		positive := label[i] > 0.5
		bin := order(z)
		if positive {
			bin += 1 << aucBits
		}
		t.counts[bin]++
		if positive == (z > 0) {
			right++
		}
	}
	t.counts[2<<aucBits] += int64(right)
	t.logLoss[0] += lossSum
}

// order maps a float32 to the upper aucBits bits of an integer that sorts as
// the floats do.
func order(z float32) int {
	b := math.Float32bits(z)
	if b>>31 == 1 {
		b = ^b
	} else {
		b |= 1 << 31
	}
	return int(b >> (32 - aucBits))
}

// reduce sums the tallies of all ranks and computes the figures.
func (t *tally) reduce(c *collective.Comm) (Metrics, error) {
	if err := collective.AllReduce(c, t.counts, collective.Sum); err != nil {
		return Metrics{}, err
	}
	if err := collective.AllReduce(c, t.logLoss, collective.Sum); err != nil {
		return Metrics{}, err
	}
	return t.metrics(), nil
}

// metrics computes the AUC as the share of pairs of one positive and one
// negative that the logits put in the right order, ties counting half
// (Hanley and McNeil 1982). With one class alone it is ½.
func (t *tally) metrics() Metrics {
	var negatives, positives int64
	var pairs float64
	for i := range 1 << aucBits {
		n, p := t.counts[i], t.counts[1<<aucBits+i]
		pairs += float64(p) * (float64(negatives) + float64(n)/2)
		negatives += n
		positives += p
	}
	m := Metrics{Samples: negatives + positives, AUC: 0.5}
	if negatives > 0 && positives > 0 {
		m.AUC = pairs / (float64(negatives) * float64(positives))
	}
	if m.Samples > 0 {
		m.LogLoss = t.logLoss[0] / float64(m.Samples)
		m.Accuracy = float64(t.counts[2<<aucBits]) / float64(m.Samples)
	}
	return m
}
