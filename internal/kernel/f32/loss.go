package f32

import "math"

// SigmoidLoss returns the sum over the batch of the binary cross entropy of
// labels y in [0, 1] and the probabilities sigmoid(z) of logits z,
//
//	max(z, 0) − z·y + log(1 + exp(−|z|)),
//
// which overflows for no finite z. It stores the gradient of the sum, sigmoid(z) − y, in
// grad unless grad is nil; grad may be logit. It panics if the lengths differ. The loss of
// an infinite logit is Inf or NaN.
//
// It computes in float32, each loss within 3e-7·(1 + loss) and each gradient within 2e-7,
// and adds in float64 with eight interleaved sums. Every machine computes the same bits.
func SigmoidLoss(grad, logit, label []float32) float64 {
	check("SigmoidLoss", "label", len(label), 1, len(logit))
	if grad != nil {
		check("SigmoidLoss", "grad", len(grad), 1, len(logit))
	}
	var s [8]float64
	for i := sigmoidLossFast(&s, grad, logit, label); i < len(logit); i++ {
		z, y := logit[i], label[i]
		e := expPlain(z)
		loss := z
		if z < 0 {
			loss = 0
		}
		loss = float32(loss-float32(z*y)) + float32(horner(e, logOver[:]...)*e)
		s[i%8] += float64(loss)
		if grad != nil {
			grad[i] = probability(z, e) - y
		}
	}
	return sum8(&s)
}

// Sigmoid stores 1/(1 + exp(−z)) of each logit in p, which may be logit, with an error of
// at most 2e-7. It panics if the lengths differ.
func Sigmoid(p, logit []float32) {
	check("Sigmoid", "p", len(p), 1, len(logit))
	if active != nil && len(p) > 0 {
		active.sigmoid(&p[0], &logit[0], len(p))
		return
	}
	for i, v := range logit {
		p[i] = probability(v, expPlain(v))
	}
}

// logOver is a polynomial that interpolates log(1+e)/e for e in [0, 1] at ten Chebyshev
// nodes. expRest is the polynomial of Cephes' expf. internal/kernel/gen/f32 uses the same numbers.
var (
	logOver = [...]float32{-0.0031760570197993236, 0.01954252726557928, -0.056373612835331974, 0.10543623795567428,
		-0.15269667074195603, 0.19663274257045404, -0.24951616262817936, 0.33329710498909615, -0.4999989264806279, 0.9999999946562919}
	expRest = [...]float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1}
)

// horner returns c[0]·xⁿ + … + c[n].
func horner(x float32, c ...float32) float32 {
	p := c[0]
	for _, c := range c[1:] {
		p = fused(x, p, c)
	}
	return p
}

// expPlain returns exp(−|z|) with an error of at most 2 units in the last place, or 0 if
// the result would be subnormal. It is 2ⁿ times a polynomial in the rest.
func expPlain(z float32) float32 {
	const smallest, log2e, ln2High, ln2Low = -87.33, 1.44269504088896341, 0.693359375, -2.12194440e-4
	x := -float32(math.Abs(float64(z)))
	if x != x {
		return x
	}
	if x < smallest {
		return 0
	}
	n := float32(math.RoundToEven(float64(float32(x * log2e))))
	x = fused(-n, ln2Low, fused(-n, ln2High, x))
	p := 1 + fused(float32(x*x), horner(x, expRest[:]...), x)
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(n))<<23)
}

// probability returns the logistic function of z, given e = exp(−|z|).
func probability(z, e float32) float32 {
	if math.Signbit(float64(z)) {
		return e / (1 + e)
	}
	return 1 / (1 + e)
}
