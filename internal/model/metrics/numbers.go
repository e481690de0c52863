package metrics

import (
	"math"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/kernel/exact"
)

// Numbers counts the predictions of a label that is a number, on one rank. Sums are exact, so
// the results do not depend on how samples are divided among the ranks.
type Numbers struct {
	poisson bool
	samples int64
	sums    [numberSums]exact.Sum
	flat    []int64
}

// The sums. Each term is multiplied by the weight of its sample.
const (
	sumWeight = iota
	sumLoss
	sumPrediction
	sumLabel
	sumLabelSquare
	sumError
	sumErrorSquare
	numberSums
)

// NewNumbers returns an empty Numbers. With poisson, predictions are the exponentials of
// logits.
func NewNumbers(poisson bool) *Numbers {
	return &Numbers{poisson: poisson, flat: make([]int64, 1+numberSums*exact.Limbs)}
}

// Reset removes all counts.
func (n *Numbers) Reset() { n.samples, n.sums = 0, [numberSums]exact.Sum{} }

// Add counts B predictions. A nil weight means weights of 1.
func (n *Numbers) Add(logit, label, weight []float32) {
	w := 1.0
	for i, z := range logit {
		if weight != nil {
			w = float64(weight[i])
		}
		y, prediction := float64(label[i]), float64(z)
		loss := (prediction - y) * (prediction - y) / 2
		if n.poisson {
			prediction = math.Exp(prediction)
			loss = prediction - float64(y*float64(z))
		}
		d := prediction - y
		for k, x := range [numberSums]float64{1, loss, prediction, y, y * y, math.Abs(d), d * d} {
			n.sums[k].Add(w * x)
		}
	}
	n.samples += int64(len(logit))
}

// Reduce sums the counts of all ranks and returns the same metrics on each rank.
func (n *Numbers) Reduce(c *collective.Comm) (Metrics, error) {
	n.flat = append(n.flat[:0], n.samples)
	for k := range n.sums {
		n.sums[k].Carry()
		n.flat = append(n.flat, n.sums[k].Limb[:]...)
	}
	if err := collective.AllReduce(c, n.flat, collective.Sum); err != nil {
		return Metrics{}, err
	}
	n.samples = n.flat[0]
	for k := range n.sums {
		copy(n.sums[k].Limb[:], n.flat[1+k*exact.Limbs:])
	}
	return n.metrics(), nil
}

func (n *Numbers) metrics() Metrics {
	m := Metrics{Samples: n.samples}
	weight := n.sums[sumWeight].Float64()
	if weight == 0 {
		return m
	}
	mean := func(k int) float64 { return n.sums[k].Float64() / weight }
	m.BaseRate, m.LogLoss = mean(sumLabel), mean(sumLoss)
	spread := max(mean(sumLabelSquare)-float64(m.BaseRate*m.BaseRate), 0)
	m.BaseLogLoss = spread / 2
	if n.poisson && m.BaseRate > 0 {
		m.BaseLogLoss = m.BaseRate - float64(m.BaseRate*math.Log(m.BaseRate))
	}
	rmse, mae, base := math.Sqrt(mean(sumErrorSquare)), mean(sumError), math.Sqrt(spread)
	m.RMSE, m.MAE, m.BaseRMSE = &rmse, &mae, &base
	if m.BaseRate > 0 {
		calibration := mean(sumPrediction) / m.BaseRate
		m.Calibration = &calibration
	}
	return m
}
