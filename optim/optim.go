// Package optim holds the update rules that turn a gradient into a change of
// parameters. A rule works on one vector of parameters, its gradient and its
// state. Package dense applies it to a layer, package sparse to the rows of a
// table. The loops are in internal/kernel/f32: every machine gives the same bits.
//
//	rule             state per n parameters   source
//	sgd              0                        Robbins and Monro 1951
//	adagrad          n  (a)                   Duchi, Hazan and Singer 2011, §1.3
//	rowwise_adagrad  1  (a, mean over n)      Naumov et al. 2019 (DLRM), §3
//	adam             2n (m, v)                Kingma and Ba 2015, algorithm 1
//	adamw            2n (m, v)                Loshchilov and Hutter 2019, algorithm 2
//	ftrl             2n (z, n)                McMahan et al. 2013, algorithm 1
//
// A schedule multiplies the learning rate of every rule except ftrl. The state z of ftrl is
// a sum of terms in 1/alpha, from which each step computes the parameters. A different
// alpha would rescale everything learnt before, unless Rescale is called. The steps of ftrl shrink by themselves, per
// coordinate.
//
// # Batches
//
// Gradients are means over the samples of a step. Step.Samples is the number of samples. It
// makes the constants of a rule valid for any batch size:
//
//   - adagrad, rowwise_adagrad and ftrl use the sum over the samples. Their
//     papers take one sample per step. Initial accumulators, beta, l1 and l2 are
//     therefore in units of the gradient of one sample.
//   - sgd, adam and adamw use the mean. With Step.Batch their learning rate is
//     that of a step of ReferenceBatch samples, and a larger step takes
//     √(samples/ReferenceBatch) times the rate (Krizhevsky 2014; Malladi et al.
//     2022 for adam).
//
// docs/design/0008-batches.md has the derivation and the measurements.
package optim

import (
	"fmt"
	"math"
	"strings"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// ReferenceBatch is the number of samples per step to which the learning rates of sgd, adam
// and adamw refer.
const ReferenceBatch = 256

// Rule is an update rule with its constants. A zero or nil constant means the value of
// Default. The yaml tags are the keys of the configuration file.
type Rule struct {
	Kind         string   `yaml:"kind"`          // one of Kinds
	LearningRate float64  `yaml:"learning_rate"` // step size; FTRL's alpha
	Beta1        float64  `yaml:"beta1"`         // adam, adamw: decay of the first moment
	Beta2        float64  `yaml:"beta2"`         // adam, adamw: decay of the second moment
	Beta         float64  `yaml:"beta"`          // ftrl: beta
	Epsilon      float64  `yaml:"epsilon"`       // adam, adamw, adagrad: added to the root
	Accumulator  *float64 `yaml:"accumulator"`   // adagrad: initial sum of squares
	WeightDecay  *float64 `yaml:"weight_decay"`  // adamw: a step multiplies w by 1 − rate·weight_decay first
	L1           float64  `yaml:"l1"`            // ftrl: L1 strength (gives zeros)
	L2           float64  `yaml:"l2"`            // ftrl: L2 strength
}

// Kinds returns the accepted values of Rule.Kind.
func Kinds() []string {
	return []string{"sgd", "adagrad", "rowwise_adagrad", "adam", "adamw", "ftrl"}
}

// The defaults of constants for which 0 is a valid value. The weight decay is PyTorch's. An
// accumulator of 1 has the effect in Adagrad that beta has in ftrl: it keeps the first
// steps of a rare key small.
const (
	defaultAccumulator = 1.0
	defaultDecay       = 0.01
)

// defaults returns the other constants of a kind, or false if the kind is unknown. Adam's
// constants are the paper's.
func defaults(kind string) (Rule, bool) {
	switch kind {
	case "sgd":
		return Rule{LearningRate: 0.3}, true
	case "adagrad", "rowwise_adagrad":
		return Rule{LearningRate: 0.05, Epsilon: 1e-10}, true
	case "adam", "adamw":
		return Rule{LearningRate: 0.001, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}, true
	case "ftrl":
		return Rule{LearningRate: 0.1, Beta: 1}, true
	}
	return Rule{}, false
}

// Default returns r with every zero or nil constant replaced by the default of its kind. An
// empty kind means sgd.
func (r Rule) Default() Rule {
	if r.Kind == "" {
		r.Kind = "sgd"
	}
	d, _ := defaults(r.Kind)
	for _, f := range []struct {
		have *float64
		want float64
	}{
		{&r.LearningRate, d.LearningRate}, {&r.Beta1, d.Beta1}, {&r.Beta2, d.Beta2},
		{&r.Beta, d.Beta}, {&r.Epsilon, d.Epsilon},
	} {
		if *f.have == 0 {
			*f.have = f.want
		}
	}
	if r.Accumulator == nil && (r.Kind == "adagrad" || r.Kind == "rowwise_adagrad") {
		x := defaultAccumulator
		r.Accumulator = &x
	}
	if r.WeightDecay == nil && r.Kind == "adamw" {
		x := defaultDecay
		r.WeightDecay = &x
	}
	return r
}

// Equal reports whether r and s are the same rule with the same constants.
func (r Rule) Equal(s Rule) bool {
	same := func(a, b *float64) bool { return a == b || a != nil && b != nil && *a == *b }
	if !same(r.Accumulator, s.Accumulator) || !same(r.WeightDecay, s.WeightDecay) {
		return false
	}
	r.Accumulator, r.WeightDecay = s.Accumulator, s.WeightDecay
	return r == s
}

// or returns the value of a constant, or 0 if it is nil.
func or(x *float64) float64 {
	if x == nil {
		return 0
	}
	return *x
}

// Validate returns all errors in r.
func (r Rule) Validate() (faults []error) {
	if _, ok := defaults(r.Kind); !ok && r.Kind != "" {
		faults = append(faults, fmt.Errorf("kind %q is not one of %s", r.Kind, strings.Join(Kinds(), ", ")))
	}
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"learning_rate", r.LearningRate}, {"beta", r.Beta}, {"epsilon", r.Epsilon},
		{"accumulator", or(r.Accumulator)}, {"weight_decay", or(r.WeightDecay)}, {"l1", r.L1}, {"l2", r.L2},
	} {
		if !(f.value >= 0) || math.IsInf(f.value, 0) {
			faults = append(faults, fmt.Errorf("%s %v is not a finite number of at least 0", f.name, f.value))
		}
	}
	for _, f := range []struct {
		name  string
		value float64
	}{{"beta1", r.Beta1}, {"beta2", r.Beta2}} {
		if !(f.value >= 0 && f.value < 1) {
			faults = append(faults, fmt.Errorf("%s %v is not in [0, 1)", f.name, f.value))
		}
	}
	return faults
}

// StateLen returns the number of floats of state for n parameters.
func (r Rule) StateLen(n int) int {
	switch r.Default().Kind {
	case "adagrad":
		return n
	case "rowwise_adagrad":
		return 1
	case "adam", "adamw", "ftrl":
		return 2 * n
	}
	return 0
}

// InitState sets the state of untrained parameters w. Only ftrl reads w: its first step
// computes w from the state, which must therefore represent the initial w.
func (r Rule) InitState(w, state []float32) {
	clear(state)
	switch r = r.Default(); r.Kind {
	case "adagrad", "rowwise_adagrad":
		for i := range state {
			state[i] = float32(*r.Accumulator)
		}
	case "ftrl":
		r.represent(w, state)
	}
}

// Rescale keeps parameters that another rule has trained as they are: with other constants, the state of ftrl would
// change them in the next step. It reports whether it does: both rules are ftrl with different constants. Then it sets
// z to that which gives w with the constants of r; the sums of squares stay.
func (r Rule) Rescale(was Rule, w, state []float32) bool {
	r, was = r.Default(), was.Default()
	if r.Kind != "ftrl" || was.Kind != "ftrl" || r.LearningRate == was.LearningRate && r.Beta == was.Beta && r.L1 == was.L1 && r.L2 == was.L2 {
		return false
	}
	r.represent(w, state)
	return true
}

// represent sets the z of ftrl.
func (r Rule) represent(w, state []float32) {
	for i, x := range w {
		x, n := float64(x), float64(state[len(w)+i])
		if x != 0 {
			state[i] = float32(float64(-x*((r.Beta+math.Sqrt(n))/r.LearningRate+r.L2)) - math.Copysign(r.L1, x))
		} else {
			state[i] = float32(max(-r.L1, min(r.L1, float64(state[i]))))
		}
	}
}

// ZeroRate is a Step.Rate that leaves the parameters unchanged, for a schedule that ends at
// 0. Its product with a learning rate is 0 in float32.
const ZeroRate = math.SmallestNonzeroFloat64

// Step is the part of an optimizer step that is the same for all parameters. The rule
// receives the gradient
//
//	Clip · (Scale·g + L2·w)
//
// of parameters w with gradients g. A factor of 0 means 1.
type Step struct {
	N     int64   // number of the step, from 1: Adam's bias correction
	Rate  float64 // factor of the learning rate, from a schedule; ftrl ignores it
	Scale float32 // factor of the gradients, usually one over the samples
	Clip  float32 // factor that limits the norm of the gradient
	// Samples is the number of samples, or the sum of their weights, over which Scale takes
	// the mean. Rules that use sums multiply the gradient by it. 0 means that they use the
	// gradient unchanged.
	Samples float64
	// Batch is the number of samples, regardless of weights, with which the learning rate
	// grows; see Rule.RateOf. 0 means that it does not grow.
	Batch uint32
}

// Default returns s with every factor of 0 replaced by 1.
func (s Step) Default() Step {
	if s.Rate == 0 {
		s.Rate = 1
	}
	if s.Scale == 0 {
		s.Scale = 1
	}
	if s.Clip == 0 {
		s.Clip = 1
	}
	return s
}

// Validate returns an error if N is less than 1 or a factor is not finite.
func (s Step) Validate() error {
	switch {
	case s.N < 1:
		return fmt.Errorf("step %d: steps count from 1", s.N)
	case math.IsNaN(float64(0*s.Scale)) || math.IsNaN(float64(0*s.Clip)) || math.IsNaN(0*s.Rate):
		return fmt.Errorf("step %d: scale %v, rate %v, clip %v: not all are finite", s.N, s.Scale, s.Rate, s.Clip)
	}
	return nil
}

// Sums reports whether the rule uses the sum over the samples of a step instead of the
// mean.
func (r Rule) Sums() bool {
	kind := r.Default().Kind
	return kind == "adagrad" || kind == "rowwise_adagrad" || kind == "ftrl"
}

// RateOf returns the scaled learning rate of a step with the given number of samples.
func (r Rule) RateOf(samples float64) float64 {
	r = r.Default()
	if r.Sums() || samples <= ReferenceBatch {
		return r.LearningRate
	}
	return r.LearningRate * math.Sqrt(samples/ReferenceBatch)
}

// At returns the update of one training step.
func (r Rule) At(at Step) Update {
	r, at = r.Default(), at.Default()
	rate := r.LearningRate * at.Rate
	if at.Batch > 0 {
		rate = r.RateOf(float64(at.Batch)) * at.Rate
	}
	u := Update{scale: at.Scale, clip: at.Clip, kernel: f32.Update{
		Rate: float32(rate), Epsilon: float32(r.Epsilon), Keep: 1,
		Beta1: float32(r.Beta1), Beta2: float32(r.Beta2),
		Beta: float32(r.Beta), L1: float32(r.L1), L2: float32(r.L2),
	}}
	if at.Samples > 0 && r.Sums() {
		u.clip *= float32(at.Samples)
	}
	switch r.Kind {
	case "sgd":
		u.kernel.Rule = f32.SGD
	case "adagrad":
		u.kernel.Rule = f32.Adagrad
	case "rowwise_adagrad":
		u.kernel.Rule = f32.RowwiseAdagrad
	case "adam", "adamw":
		u.kernel.Rule = f32.Adam
		if r.Kind == "adamw" {
			u.kernel.Keep = float32(1 - float64(rate**r.WeightDecay))
		}
		u.kernel.Unbias1 = float32(1 / (1 - math.Pow(r.Beta1, float64(at.N))))
		u.kernel.Unbias2 = float32(1 / (1 - math.Pow(r.Beta2, float64(at.N))))
	case "ftrl":
		u.kernel.Rule = f32.FTRL
		u.kernel.Rate = float32(r.LearningRate)
	default:
		panic("optim: Rule.At: unknown kind " + r.Kind)
	}
	return u
}

// Update is a rule with its constants for one step. It does not refer to parameters, and
// several goroutines may use it at once.
type Update struct {
	kernel      f32.Update
	scale, clip float32 // the rule receives clip·(scale·g + l2·w)
}

// Part is the location of Dim parameters (Value) and their state (State) in a record, in
// floats from the record's start.
type Part = f32.Part

// Apply takes one step for parameters w with gradients g, both of length n, and L2 strength
// l2. state has length StateLen(n). Apply does not change g. It panics if a length is
// wrong.
func (u *Update) Apply(l2 float32, w, g, state []float32) {
	u.kernel.Vector(w, g, state, u.gradient(l2))
}

func (u *Update) gradient(l2 float32) f32.Gradient {
	return f32.Gradient{Scale: u.scale, Decay: l2, Clip: u.clip}
}

// Constants returns the rule and its constants for a kernel on another device that takes
// the same step as Apply.
func (u *Update) Constants(l2 float32) (f32.Rule, f32.Constants) {
	return u.kernel.Rule, u.kernel.Constants(u.gradient(l2))
}

// Record is the address of a record of a table, and of a word that a step sets.
type Record = f32.Record

// ApplyRows takes one step of one part of each of the first n records of a table, with
// L2 strength l2, and sets their marks. Record i has the gradient grads[i·stride:]; with
// a stride of 0 all records have the same one. The records must be distinct and laid out
// as part says. They and their marks may be outside the Go heap. Updates of large tables
// are bound by memory. Rows beyond n are for the next call: they are only prefetched. ApplyRows panics if grads or rows is too short.
func (u *Update) ApplyRows(l2 float32, rows []Record, n int, mark uint32, part Part, grads []float32, stride int) {
	u.kernel.Rows(rows, n, mark, part, grads, stride, u.gradient(l2))
}
