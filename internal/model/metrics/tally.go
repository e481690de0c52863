package metrics

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// maxBins limits the bins of a Tally. There is one bin for each distinct logit, until there are more.
// Then all logits lose as many low bits of their float32 order as it takes: bins become twice as wide
// each time. So the precision follows the logits that occur, however narrow their range is and however
// far from 0. The bins depend only on the samples, not on their order or their division among ranks.
const maxBins = 1 << 17

// bin holds the weights of the negatives and the positives with one logit, or with neighbouring ones,
// in units. It is empty if both are 0.
type bin struct {
	key   uint32 // ordered, without the bits that are dropped
	class [2]int64
}

func (b *bin) empty() bool { return b.class[0]|b.class[1] == 0 }

// One is the integer that represents a weight of 1. Weights are rounded to multiples of
// 1/One.
const One = 1 << 20

// unitsOf returns a weight in multiples of 1/One.
func unitsOf(weight float32) int64 { return int64(math.Round(float64(weight) * One)) }

// Tally counts the predictions of an evaluation on one rank.
type Tally struct {
	limit  int   // of bins
	drop   uint  // lower bits of logits that bins ignore
	table  []bin // hash table with open addressing; a power of 2
	used   int   // bins that are not empty; at most half of the table
	order  []bin // the bins in the order of logits; nil: not sorted since the last change
	totals totals
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
func NewTally() *Tally { return newTally(maxBins) }

// NewSmallTally returns an empty Tally for one of many evaluations, which takes at most 400 KiB.
func NewSmallTally() *Tally { return newTally(maxBins / 16) }

func newTally(limit int) *Tally { return &Tally{limit: limit, table: make([]bin, 64)} }

// Reset removes all counts.
func (t *Tally) Reset() {
	clear(t.table)
	t.drop, t.used, t.order, t.totals = 0, 0, nil, totals{}
}

// count adds units of a class to the bin of an ordered logit.
func (t *Tally) count(key uint32, class int, units int64) {
	if units == 0 {
		return
	}
	b := t.find(key >> t.drop)
	b.class[class] += units
	t.order = nil
	if t.used > t.limit || 2*t.used > len(t.table) {
		t.rebuild(t.drop)
	}
}

// find returns the bin of a key. The caller adds to it if it is new.
func (t *Tally) find(key uint32) *bin {
	mask := uint32(len(t.table) - 1)
	for i := key * 0x9e3779b1 >> bits.LeadingZeros32(mask); ; i = (i + 1) & mask {
		b := &t.table[i]
		if b.empty() {
			b.key = key
			t.used++
			return b
		}
		if b.key == key {
			return b
		}
	}
}

// rebuild makes room for more bins, or drops bits until there are at most as many as the limit.
func (t *Tally) rebuild(drop uint) {
	old, was, size := t.table, t.drop, len(t.table)
	t.order = nil
	if size < 2*t.limit && 2*t.used > size {
		size *= 2
	}
	for ; ; drop++ {
		t.table, t.drop, t.used = make([]bin, size), drop, 0
		for _, b := range old {
			if !b.empty() {
				to := t.find(b.key >> (drop - was))
				to.class[0] += b.class[0]
				to.class[1] += b.class[1]
			}
		}
		if t.used <= t.limit {
			return
		}
	}
}

// sorted returns the bins that are not empty in the order of logits.
func (t *Tally) sorted() []bin {
	if t.order != nil {
		return t.order
	}
	t.order = make([]bin, 0, t.used)
	for _, b := range t.table {
		if !b.empty() {
			t.order = append(t.order, b)
		}
	}
	slices.SortFunc(t.order, func(a, b bin) int { return cmp.Compare(a.key, b.key) })
	return t.order
}

// Add counts B predictions. A nil weight means weights of 1. Weights are from 0 to 2^20.
func (t *Tally) Add(logit, label, weight []float32) {
	units, w := int64(One), 1.0
	for i, z := range logit {
		if weight != nil {
			units = unitsOf(weight[i])
			w = float64(units) / One
		}
		class := 0
		if label[i] > 0.5 {
			class = 1
		}
		t.count(ordered(z), class, units)
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

// ordered maps a float32 to an integer that sorts as the floats do.
func ordered(z float32) uint32 {
	b := math.Float32bits(z + 0) // no -0
	if b>>31 == 1 {
		return ^b
	}
	return b | 1<<31
}

// Reduce sums the tallies of all ranks and returns the same metrics on each rank. The bins are merged
// in pairs of ranks, then in pairs of pairs, and so on, and the result goes to all.
func (t *Tally) Reduce(c *collective.Comm) (Metrics, error) {
	sums := make([]int64, totalsWidth)
	t.totals.put(sums)
	if err := collective.AllReduce(c, sums, collective.Sum); err != nil {
		return Metrics{}, err
	}
	t.totals = totalsFrom(sums)
	for gap := 1; gap < c.Size(); gap *= 2 {
		var words []int64
		counts := make([]int64, c.Size())
		if c.Rank()&(2*gap-1) == gap {
			words = t.words()
			counts[c.Rank()-gap] = int64(len(words))
		}
		got, err := exchange(c, words, counts)
		if err != nil {
			return Metrics{}, err
		}
		t.merge(got)
	}
	if c.Size() > 1 {
		if err := t.broadcastBins(c); err != nil {
			return Metrics{}, err
		}
	}
	return t.metrics(), nil
}

const binWords = 3

// words returns the number of dropped bits and the bins, in the order of logits, as integers.
func (t *Tally) words() []int64 {
	words := append(make([]int64, 0, 1+binWords*t.used), int64(t.drop))
	for _, b := range t.sorted() {
		words = append(words, int64(b.key), b.class[0], b.class[1])
	}
	return words
}

// merge adds the words of another tally; none if words is empty.
func (t *Tally) merge(words []int64) {
	if len(words) == 0 {
		return
	}
	drop := uint(words[0])
	if drop > t.drop {
		t.rebuild(drop)
	}
	for w := words[1:]; len(w) > 0; w = w[binWords:] {
		t.count(uint32(w[0])<<drop, 0, w[1])
		t.count(uint32(w[0])<<drop, 1, w[2])
	}
}

// broadcastBins replaces the bins of every rank by the bins of rank 0.
func (t *Tally) broadcastBins(c *collective.Comm) error {
	var words []int64
	if c.Rank() == 0 {
		words = t.words()
	}
	n := []int64{int64(len(words))}
	if err := collective.Broadcast(c, n, 0); err != nil {
		return err
	}
	if c.Rank() > 0 {
		words = make([]int64, n[0])
	}
	if err := collective.Broadcast(c, words, 0); err != nil || c.Rank() == 0 {
		return err
	}
	t.replace(words)
	return nil
}

// replace replaces the bins by the words of another tally.
func (t *Tally) replace(words []int64) {
	n, size := len(words)/binWords, len(t.table)
	for size < 2*n {
		size *= 2
	}
	if size > len(t.table) {
		t.table = make([]bin, size)
	} else {
		clear(t.table)
	}
	t.drop, t.used, t.order = uint(words[0]), 0, make([]bin, 0, n)
	for w := words[1:]; len(w) > 0; w = w[binWords:] {
		b := bin{uint32(w[0]), [2]int64{w[1], w[2]}}
		*t.find(b.key) = b
		t.order = append(t.order, b)
	}
}

// Local returns the metrics of this rank's samples.
func (t *Tally) Local() Metrics { return t.metrics() }

// metrics computes the metrics from the counts.
func (t *Tally) metrics() Metrics {
	m := Metrics{Samples: t.totals.samples, Positives: t.totals.positives}
	bins := t.sorted()
	negatives, positives, pairs := ranking(bins)
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
	auc, pr := pairs/(float64(negatives)*float64(positives)), averagePrecision(bins, positives)
	entropy, calibration := m.LogLoss/m.BaseLogLoss, t.totals.prediction.value()/weight/m.BaseRate
	m.AUC, m.PRAUC, m.NormalisedEntropy, m.Calibration = &auc, &pr, &entropy, &calibration
	return m
}

// ranking sums the weights of both classes, and the weights of the pairs of one positive and
// one negative whose logits are in the right order. Ties count half (Hanley and McNeil 1982).
// The AUC is the share of the right pairs.
func ranking(bins []bin) (negatives, positives int64, pairs float64) {
	for _, b := range bins {
		pairs += float64(float64(b.class[1]) * (float64(negatives) + float64(b.class[0])/2))
		negatives += b.class[0]
		positives += b.class[1]
	}
	return negatives, positives, pairs
}

// averagePrecision computes the average precision from the highest threshold to the lowest.
func averagePrecision(bins []bin, positives int64) (area float64) {
	var found, all int64
	for _, b := range slices.Backward(bins) {
		n := b.class[1]
		if found, all = found+n, all+n+b.class[0]; n > 0 {
			area += float64(n) / float64(positives) * float64(found) / float64(all)
		}
	}
	return area
}

// exchange sends to each rank its number of the words, which follow each other by rank, and returns
// what the others have sent to this rank.
func exchange(c *collective.Comm, words, counts []int64) ([]int64, error) {
	theirs := make([]int64, c.Size())
	if err := collective.AllToAll(c, counts, theirs); err != nil {
		return nil, err
	}
	send, receive, total := make([]int, c.Size()), make([]int, c.Size()), 0
	for r := range send {
		send[r], receive[r] = int(counts[r]), int(theirs[r])
		total += receive[r]
	}
	mine := make([]int64, total)
	return mine, collective.AllToAllV(c, words, send, mine, receive)
}
