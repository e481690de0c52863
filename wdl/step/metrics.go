package step

import (
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/collective"
)

// Metrics are the figures of one evaluation.
type Metrics struct {
	Samples   int64    `json:"samples"`
	Positives int64    `json:"positives"` // of the samples
	AUC       *float64 `json:"auc"`       // null where the samples are of one class alone
	LogLoss   float64  `json:"logloss"`
	Accuracy  float64  `json:"accuracy"`
}

// AUCText is the AUC for people, or why there is none.
func (m Metrics) AUCText() string {
	switch {
	case m.AUC != nil:
		return fmt.Sprintf("AUC %.4f", *m.AUC)
	case m.Positives == 0:
		return "AUC undefined (no positive samples)"
	}
	return "AUC undefined (no negative samples)"
}

// aucBits is the resolution of the histogram behind the AUC: logits are counted
// by the upper bits of their float32 order, sign and exponent and eleven bits of
// fraction. Two logits that share a bin differ by less than one part in 2,000
// and count as a tie (half a correct pair).
const aucBits = 20

// pageBits is how many of them choose a bin within a page, half a power of two of
// logits. Those of one model need a few dozen of the 1,024 pages.
const pageBits = 10

// page counts the negatives and the positives of neighbouring bins.
type page [2][1 << pageBits]int64

// tally gathers the figures of an evaluation on one rank. The counts are
// integers, so the AUC and the accuracy do not depend on the world size.
type tally struct {
	pages   [1 << (aucBits - pageBits)]*page // nil: nothing was ever counted there
	right   int64                            // answers
	logLoss []float64
	used    []int64 // by page: ranks that have it; then right
	flat    []int64 // the pages that some rank has, on their way
}

func newTally() *tally {
	t := &tally{logLoss: make([]float64, 1)}
	t.used = make([]int64, len(t.pages)+1)
	return t
}

func (t *tally) reset() {
	for _, p := range t.pages {
		if p != nil {
			*p = page{}
		}
	}
	t.right = 0
	clear(t.logLoss)
}

// page returns page i, which then is there.
func (t *tally) page(i int) *page {
	if t.pages[i] == nil {
		t.pages[i] = new(page)
	}
	return t.pages[i]
}

// add counts B predictions.
func (t *tally) add(logit, label []float32, lossSum float64) {
	for i, z := range logit {
		positive, bin := label[i] > 0.5, order(z)
		counts := t.page(bin >> pageBits)
		if positive {
			counts[1][bin&(1<<pageBits-1)]++
		} else {
			counts[0][bin&(1<<pageBits-1)]++
		}
		if positive == (z > 0) {
			t.right++
		}
	}
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

// reduce sums the tallies of all ranks and computes the figures. What travels is the
// list of pages, then those that some rank has.
func (t *tally) reduce(c *collective.Comm) (Metrics, error) {
	clear(t.used)
	for i, p := range t.pages {
		if p != nil {
			t.used[i] = 1
		}
	}
	t.used[len(t.pages)] = t.right
	if err := collective.AllReduce(c, t.used, collective.Sum); err != nil {
		return Metrics{}, err
	}
	t.flat = t.flat[:0]
	for i, ranks := range t.used[:len(t.pages)] {
		if ranks > 0 {
			t.flat = append(append(t.flat, t.page(i)[0][:]...), t.page(i)[1][:]...)
		}
	}
	if err := collective.AllReduce(c, t.flat, collective.Sum); err != nil {
		return Metrics{}, err
	}
	if err := collective.AllReduce(c, t.logLoss, collective.Sum); err != nil {
		return Metrics{}, err
	}
	from := t.flat
	for i, ranks := range t.used[:len(t.pages)] {
		if ranks > 0 {
			from = from[copy(t.pages[i][0][:], from):]
			from = from[copy(t.pages[i][1][:], from):]
		}
	}
	t.right = t.used[len(t.pages)]
	return t.metrics(), nil
}

// metrics computes the AUC as the share of pairs of one positive and one
// negative that the logits put in the right order, ties counting half
// (Hanley and McNeil 1982). With one class alone there are no pairs, and no AUC.
func (t *tally) metrics() Metrics {
	var negatives, positives int64
	var pairs float64
	for _, counts := range t.pages {
		if counts == nil {
			continue
		}
		for i, n := range counts[0] {
			p := counts[1][i]
			pairs += float64(p) * (float64(negatives) + float64(n)/2)
			negatives += n
			positives += p
		}
	}
	m := Metrics{Samples: negatives + positives, Positives: positives}
	if negatives > 0 && positives > 0 {
		auc := pairs / (float64(negatives) * float64(positives))
		m.AUC = &auc
	}
	if m.Samples > 0 {
		m.LogLoss = t.logLoss[0] / float64(m.Samples)
		m.Accuracy = float64(t.right) / float64(m.Samples)
	}
	return m
}
