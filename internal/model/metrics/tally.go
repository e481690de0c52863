package metrics

import (
	"math"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// aucBits is the resolution of the histogram behind the AUC. Logits are counted by the upper
// bits of their float32 order: sign, exponent and eleven bits of fraction. Two logits in the
// same bin differ by less than one part in 2,000 and count as a tie (half a correct pair).
const aucBits = 20

// pageBits is the number of these bits that select a bin within a page. A page covers half a
// power of two of logits. One model needs a few dozen of the 1,024 pages.
const pageBits = 10

// page holds the weights of the negatives and the positives of neighbouring bins.
type page [2][1 << pageBits]int64

// One is the integer that represents a weight of 1. Weights are rounded to multiples of
// 1/One.
const One = 1 << 20

// unitsOf returns a weight in multiples of 1/One.
func unitsOf(weight float32) int64 { return int64(math.Round(float64(weight) * One)) }

// Tally counts the predictions of an evaluation on one rank.
type Tally struct {
	pages  [1 << (aucBits - pageBits)]*page // nil: the page is empty
	totals totals
	sums   []int64 // over all ranks: the number of ranks with each page, then totals
	flat   []int64 // buffer for the sum of the pages that some rank has
}

// totals are the counts of a Tally that need no histogram.
type totals struct {
	samples, positives int64
	right              int64 // weight of samples predicted on the right side of 1/2
	loss, prediction   sum   // multiplied by weight
}

const totalsWidth = 7

func (t *totals) put(to []int64) {
	copy(to, []int64{t.samples, t.positives, t.right, t.loss.whole, t.loss.part, t.prediction.whole, t.prediction.part})
}

func totalsFrom(from []int64) totals {
	return totals{from[0], from[1], from[2], sum{from[3], from[4]}, sum{from[5], from[6]}}
}

// Counter counts the predictions of one label: a Tally or Numbers.
type Counter interface {
	Reset()
	Add(logit, label, weight []float32)
	Reduce(c *collective.Comm) (Metrics, error)
}

// NewCounter returns an empty counter of the predictions of a label.
func NewCounter(l schema.Label) Counter {
	if l.IsNumber() {
		return NewNumbers(l.IsPoisson())
	}
	return NewTally()
}

// NewTally returns an empty Tally.
func NewTally() *Tally {
	t := new(Tally)
	t.sums = make([]int64, len(t.pages)+totalsWidth)
	return t
}

// Reset removes all counts.
func (t *Tally) Reset() {
	for _, p := range t.pages {
		if p != nil {
			*p = page{}
		}
	}
	t.totals = totals{}
}

// page returns page i and allocates it if it does not exist.
func (t *Tally) page(i int) *page {
	if t.pages[i] == nil {
		t.pages[i] = new(page)
	}
	return t.pages[i]
}

// Add counts B predictions. A nil weight means weights of 1. Weights are from 0 to 2^20.
func (t *Tally) Add(logit, label, weight []float32) {
	units, w := int64(One), 1.0
	for i, z := range logit {
		if weight != nil {
			units = unitsOf(weight[i])
			w = float64(units) / One
		}
		class, bin := 0, order(z)
		if label[i] > 0.5 {
			class = 1
		}
		t.page(bin >> pageBits)[class][bin&(1<<pageBits-1)] += units
		if (class == 1) == (z > 0) {
			t.totals.right += units
		}
		t.totals.positives += int64(class)
		loss, prediction := lossOf(float64(z), class)
		t.totals.loss.add(w * loss)
		t.totals.prediction.add(w * prediction)
	}
	t.totals.samples += int64(len(logit))
}

// Probability returns the probability that a logit represents.
func Probability(z float64) float64 {
	_, p := lossOf(z, 0)
	return p
}

// lossOf returns the log-loss of a logit and the probability that it represents.
func lossOf(z float64, class int) (loss, p float64) {
	e := math.Exp(-math.Abs(z))
	p = 1 / (1 + e)
	if z < 0 {
		p = e / (1 + e)
	}
	return max(z, 0) - float64(z*float64(class)) + math.Log(1+e), p // exact to 2^-52
}

// order maps a float32 to the upper aucBits bits of ordered.
func order(z float32) int { return int(ordered(z) >> (32 - aucBits)) }

// ordered maps a float32 to an integer that sorts as the floats do.
func ordered(z float32) uint32 {
	b := math.Float32bits(z + 0) // no -0
	if b>>31 == 1 {
		return ^b
	}
	return b | 1<<31
}

// Reduce sums the tallies of all ranks and returns the same metrics on each rank. It first
// sums the number of ranks with each page and the totals, then the pages that some rank has.
func (t *Tally) Reduce(c *collective.Comm) (Metrics, error) {
	clear(t.sums)
	for i, p := range t.pages {
		if p != nil {
			t.sums[i] = 1
		}
	}
	t.totals.put(t.sums[len(t.pages):])
	if err := collective.AllReduce(c, t.sums, collective.Sum); err != nil {
		return Metrics{}, err
	}
	t.flat = t.flat[:0]
	for i, ranks := range t.sums[:len(t.pages)] {
		if ranks > 0 {
			t.flat = append(append(t.flat, t.page(i)[0][:]...), t.page(i)[1][:]...)
		}
	}
	if err := collective.AllReduce(c, t.flat, collective.Sum); err != nil {
		return Metrics{}, err
	}
	from := t.flat
	for i, ranks := range t.sums[:len(t.pages)] {
		if ranks > 0 {
			from = from[copy(t.pages[i][0][:], from):]
			from = from[copy(t.pages[i][1][:], from):]
		}
	}
	t.totals = totalsFrom(t.sums[len(t.pages):])
	return t.metrics(), nil
}

// Local returns the metrics of this rank's samples.
func (t *Tally) Local() Metrics { return t.metrics() }

// metrics computes the metrics from the counts.
func (t *Tally) metrics() Metrics {
	m := Metrics{Samples: t.totals.samples, Positives: t.totals.positives}
	negatives, positives, pairs := t.ranking()
	all := negatives + positives
	if all == 0 {
		return m
	}
	weight := float64(all) / One
	m.LogLoss = t.totals.loss.value() / weight
	m.Accuracy = float64(t.totals.right) / float64(all)
	m.BaseRate = float64(positives) / float64(all)
	m.BaseLogLoss = entropy(m.BaseRate)
	if negatives == 0 || positives == 0 {
		return m
	}
	auc, pr := pairs/(float64(negatives)*float64(positives)), t.averagePrecision(positives)
	entropy, calibration := m.LogLoss/m.BaseLogLoss, t.totals.prediction.value()/weight/m.BaseRate
	m.AUC, m.PRAUC, m.NormalisedEntropy, m.Calibration = &auc, &pr, &entropy, &calibration
	return m
}

// ranking sums the weights of both classes, and the weights of the pairs of one positive and
// one negative whose logits are in the right order. Ties count half (Hanley and McNeil 1982).
// The AUC is the share of the right pairs.
func (t *Tally) ranking() (negatives, positives int64, pairs float64) {
	for _, p := range t.pages {
		if p == nil {
			continue
		}
		for i, n := range p[0] {
			pairs += float64(float64(p[1][i]) * (float64(negatives) + float64(n)/2))
			negatives += n
			positives += p[1][i]
		}
	}
	return negatives, positives, pairs
}

// averagePrecision computes the average precision from the highest threshold to the lowest.
func (t *Tally) averagePrecision(positives int64) (area float64) {
	var found, all int64
	for k := len(t.pages) - 1; k >= 0; k-- {
		p := t.pages[k]
		if p == nil {
			continue
		}
		for i := len(p[1]) - 1; i >= 0; i-- {
			n := p[1][i]
			if found, all = found+n, all+n+p[0][i]; n > 0 {
				area += float64(n) / float64(positives) * float64(found) / float64(all)
			}
		}
	}
	return area
}
