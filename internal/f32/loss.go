package f32

import "math"

// SigmoidLoss returns the sum over the batch of the binary cross entropy of
// labels y in [0, 1] and the probabilities sigmoid(z) of logits z,
//
//	max(z, 0) − z·y + log(1 + exp(−|z|)),
//
// which overflows for no finite z, and stores its gradient sigmoid(z) − y in
// grad: that of the sum, not of the mean. A nil grad is left out; grad may be
// logit itself. It panics if the lengths differ. An infinite logit gives a loss
// of Inf or NaN.
//
// The backends compute in float32, each loss within 3e-7·(1 + loss) and each
// gradient within 2e-7, and add in float64: eight interleaved sums, the same bits
// with AVX2 and AVX-512. The portable code computes in float64.
func SigmoidLoss(grad, logit, label []float32) float64 {
	check("SigmoidLoss", "label", len(label), 1, len(logit))
	if grad != nil {
		check("SigmoidLoss", "grad", len(grad), 1, len(logit))
	}
	var s [8]float64
	if len(logit) > 0 && sigmoidLossFast(&s, grad, logit, label) {
		return sum8(&s)
	}
	var sum float64
	for i, v := range logit {
		z, y := float64(v), float64(label[i])
		e := math.Exp(-math.Abs(z))
		sum += max(z, 0) - float64(z*y) + math.Log1p(e)
		if grad != nil {
			grad[i] = float32(sigmoid(z, e) - y)
		}
	}
	return sum
}

// Sigmoid stores 1/(1 + exp(−z)) of each logit in p, which may be logit
// itself: within 2e-7. It panics if the lengths differ.
func Sigmoid(p, logit []float32) {
	check("Sigmoid", "p", len(p), 1, len(logit))
	if active != nil && len(p) > 0 {
		active.sigmoid(&p[0], &logit[0], len(p))
		return
	}
	for i, v := range logit {
		z := float64(v)
		p[i] = float32(sigmoid(z, math.Exp(-math.Abs(z))))
	}
}

// sigmoid is the logistic function of z, given e = exp(−|z|).
func sigmoid(z, e float64) float64 {
	if z < 0 {
		return e / (1 + e)
	}
	return 1 / (1 + e)
}
