// Package dense holds the layers of a multi-layer perceptron, their gradients
// and their parameters in one flat arena.
//
// Shapes. A batch is rows×width float32, row-major. Letters: P ranks, B batch
// (rows of one rank), D inputs, H hidden width. A Linear layer maps B×in to
// B×out with weights in×out and out biases.
//
// Use. Declare layers, then build the arena, then step:
//
//	a := new(dense.Arena)
//	m, err := dense.NewMLP(a, "deep", dense.Spec{In: D, Hidden: []int{128, 64}, Out: 1})
//	err = a.Build(dense.Config{Seed: 1, Tail: 2, Groups: []dense.Group{{Rule: optim.Rule{Kind: "adam"}}}})
//	for step := int64(1); ; step++ {
//		a.ZeroGrad()
//		m.SetStep(step, rowIDs)                    // only dropout reads it
//		logit, err := m.Forward(x, B, true)
//		loss := dense.LogLoss(grad, logit, label)  // sums, not means
//		dx, err := m.Backward(grad, B)
//		a.Tail()[0] = float32(B)
//		sum over ranks of a.Grads()                // tail included; parts of it earlier, see Arena.Final
//		n := a.Tail()[0]                           // samples of all ranks
//		a.Apply(optim.Step{N: step, Rate: rate, Scale: 1 / n, Samples: float64(n)})
//	}
//
// Several pairs of Forward and Backward may precede one Apply: gradients are summed.
//
// If keys repeat within a batch, the first layer of an MLP can be computed once per distinct
// row of each embedding: see Distinct.
//
// Same bits. Initial values are a function of (seed, parameter name, index), and dropout
// masks of (seed, layer, step, global row, unit). Neither depends on the world size, and a
// resumed run repeats both. With the same split of the batch, a whole step repeats bit by
// bit.
//
// Errors and panics. Wrong configurations and files cause errors, as does a failed
// reduction of batch norm, the only way in which Forward and Backward can fail. A slice of
// the wrong length is an error in the program and causes a panic. NaN and infinities
// propagate; NonFinite finds them.
//
// Cost. Per Linear layer, Forward takes 2·B·in·out operations and Backward twice as many. A
// step allocates nothing unless its batch is the largest so far. Memory is two floats per
// parameter, the state of the rule, and one or two B×H buffers per layer.
//
// Concurrency. A layer keeps the last batch between Forward and Backward. A model may be
// used by one goroutine at a time, and must not be evaluated between the two calls.
// Returned slices belong to the layer and are valid until its next call.
//
// Sources: Glorot and Bengio 2010 and He et al. 2015 (initial values), Ioffe and
// Szegedy 2015 (batch norm), Srivastava et al. 2014 (dropout), Cheng et al. 2016
// (the deep part of Wide & Deep).
package dense

import (
	"math"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// Layer maps a batch forward and its gradient back.
type Layer interface {
	// Name is unique in the model: its parameters' names begin with it.
	Name() string
	// Forward computes the layer's output for rows rows of x. If Backward follows, train
	// must be set and x must not change until then.
	Forward(x []float32, rows int, train bool) ([]float32, error)
	// Backward adds the gradients of the layer's parameters for the batch of the last
	// Forward and returns the gradient of its input. It may overwrite dy.
	Backward(dy []float32, rows int) ([]float32, error)
}

// LogLoss returns the sum over the batch of the binary cross entropy of logits and labels.
// It stores the gradients by the logits in grad, unless grad is nil. They are not divided
// by the batch size.
func LogLoss(grad, logit, label []float32) float64 {
	return f32.SigmoidLoss(grad, logit, label)
}

// WeightedLogLoss is LogLoss with each sample's loss and gradient times its weight.
func WeightedLogLoss(grad, logit, label, weight []float32) (sum float64) {
	for i, z := range logit {
		e := math.Exp(-math.Abs(float64(z)))
		p := 1 / (1 + e)
		if z < 0 {
			p = e / (1 + e)
		}
		y, w := float64(label[i]), float64(weight[i])
		sum += float64(w * (max(float64(z), 0) - float64(float64(z)*y) + math.Log1p(e)))
		grad[i] = float32(w * (p - y))
	}
	return sum
}

// FakeNegativeLoss is WeightedLogLoss for samples that are negatives first, and are repeated as positives when
// their feedback arrives. The weights are importance weights from the predictions p: (1 + p)(1 − p) for
// negatives and 1 + p for positives, so that the expected gradient is zero where p is the rate of feedback, not
// the share of positives among the samples. The gradient does not pass through the weights. See Ktena et al.
// (2019), "Addressing Delayed Feedback for Continuous Training with Neural Networks in CTR Prediction", §3.2. A nil weight is
// 1.
func FakeNegativeLoss(grad, logit, label, weight []float32) (sum float64) {
	for i, z := range logit {
		e := math.Exp(-math.Abs(float64(z)))
		p := 1 / (1 + e)
		if z < 0 {
			p = e / (1 + e)
		}
		y, w := float64(label[i]), 1+p
		if y < .5 {
			w *= 1 - p
		}
		if weight != nil {
			w *= float64(weight[i])
		}
		sum += float64(w * (max(float64(z), 0) - float64(float64(z)*y) + math.Log1p(e)))
		grad[i] = float32(w * (p - y))
	}
	return sum
}

// SquaredLoss returns the sum over the batch of ½·(logit − label)² times the weights, and
// stores the gradients in grad. Nil weights are 1.
func SquaredLoss(grad, logit, label, weight []float32) (sum float64) {
	w := 1.0
	for i, z := range logit {
		if weight != nil {
			w = float64(weight[i])
		}
		d := float64(z) - float64(label[i])
		sum += w * d * d / 2
		grad[i] = float32(w * d)
	}
	return sum
}

// PoissonLoss is SquaredLoss for counts with mean exp(logit). The loss is the negative
// log-likelihood without ln(label!): exp(logit) − label·logit.
func PoissonLoss(grad, logit, label, weight []float32) (sum float64) {
	w := 1.0
	for i, z := range logit {
		if weight != nil {
			w = float64(weight[i])
		}
		mean, y := math.Exp(float64(z)), float64(label[i])
		sum += float64(w * (mean - float64(y*float64(z))))
		grad[i] = float32(w * (mean - y))
	}
	return sum
}

// grow returns a buffer of n floats, in the memory of buf if it suffices.
func grow(buf []float32, n int) []float32 {
	if cap(buf) < n {
		return make([]float32, n)
	}
	return buf[:n]
}
