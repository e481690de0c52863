package dense

import (
	"math"
	"testing"
)

// TestLosses: each gradient is the slope of its loss, and a sample of weight w counts as w
// samples.
func TestLosses(t *testing.T) {
	logit, label, ones := []float32{-2, 0.5, 1.25, 3}, []float32{0, 1, 1, 0}, []float32{1, 1, 1, 1}
	weight := []float32{2, 0, 0.5, 1}
	for name, loss := range map[string]func(grad, logit, label, weight []float32) float64{
		"log": WeightedLogLoss, "squared": SquaredLoss, "poisson": PoissonLoss,
	} {
		grad := make([]float32, 4)
		loss(grad, logit, label, weight)
		var sum float64
		for i := range logit {
			one := func(z float32) float64 { return loss(make([]float32, 1), []float32{z}, label[i:i+1], ones[:1]) }
			const h = 1.0 / 128
			slope := float64(weight[i]) * (one(logit[i]+h) - one(logit[i]-h)) / (2 * h)
			if math.Abs(float64(grad[i])-slope) > 1e-3*(1+math.Abs(slope)) {
				t.Errorf("%s: gradient %d is %v, central differences give %v", name, i, grad[i], slope)
			}
			sum += float64(weight[i]) * one(logit[i])
		}
		if got := loss(grad, logit, label, weight); math.Abs(got-sum) > 1e-12 {
			t.Errorf("%s: the loss is %v, want the sum over the samples %v", name, got, sum)
		}
	}
	plain, weighted := make([]float32, 4), make([]float32, 4)
	a, b := LogLoss(plain, logit, label), WeightedLogLoss(weighted, logit, label, ones)
	if math.Abs(a-b) > 1e-5 {
		t.Errorf("log-loss %v, with weights of 1 %v", a, b)
	}
	for i := range plain {
		if math.Abs(float64(plain[i]-weighted[i])) > 1e-6 {
			t.Errorf("gradient %d: %v, with weights of 1 %v", i, plain[i], weighted[i])
		}
	}
}
