// Package optim holds the update rules that turn a gradient into a change of
// parameters. A rule works on one vector of parameters, its gradient and its
// state, whatever they belong to: dense applies it to a whole layer, sparse to
// the rows of a table. The loops are those of internal/f32: every machine gives
// the same bits.
//
//	rule             state per n parameters   source
//	sgd              0                        Robbins and Monro 1951
//	adagrad          n  (a)                   Duchi, Hazan and Singer 2011, §1.3
//	rowwise_adagrad  1  (a, mean over n)      Naumov et al. 2019 (DLRM), §3
//	adam             2n (m, v)                Kingma and Ba 2015, algorithm 1
//	ftrl             2n (z, n)                McMahan et al. 2013, algorithm 1
//
// A schedule multiplies the learning rate of every rule but ftrl: the state z of
// ftrl is a sum of terms in 1/alpha, and parameters are computed anew from it, so
// another alpha would rescale all that was learnt. Its steps shrink by themselves,
// per coordinate.
package optim

import (
	"fmt"
	"math"
	"strings"

	"github.com/wdlrun/wdlrun/internal/f32"
)

// Rule names an update rule and its constants. A zero constant means the
// default of Default; the yaml tags are the keys of the configuration file.
type Rule struct {
	Kind         string  `yaml:"kind"`          // sgd, adagrad, rowwise_adagrad, adam or ftrl
	LearningRate float64 `yaml:"learning_rate"` // step size; FTRL's alpha
	Beta1        float64 `yaml:"beta1"`         // adam: decay of the first moment
	Beta2        float64 `yaml:"beta2"`         // adam: decay of the second moment
	Beta         float64 `yaml:"beta"`          // ftrl: beta
	Epsilon      float64 `yaml:"epsilon"`       // adam, adagrad: added to the root
	Accumulator  float64 `yaml:"accumulator"`   // adagrad: initial sum of squares
	L1           float64 `yaml:"l1"`            // ftrl: L1 strength (gives zeros)
	L2           float64 `yaml:"l2"`            // ftrl: L2 strength
}

// kinds are the accepted values of Rule.Kind with the defaults of their
// constants. The accumulator of .1 keeps Adagrad's first steps small, as in
// TensorFlow; Adam's constants are the paper's.
var kinds = map[string]Rule{
	"sgd":             {LearningRate: 0.1},
	"adagrad":         {LearningRate: 0.05, Epsilon: 1e-10, Accumulator: 0.1},
	"rowwise_adagrad": {LearningRate: 0.05, Epsilon: 1e-10, Accumulator: 0.1},
	"adam":            {LearningRate: 0.001, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8},
	"ftrl":            {LearningRate: 0.1, Beta: 1},
}

// Kinds lists the accepted values of Rule.Kind.
func Kinds() []string {
	return []string{"sgd", "adagrad", "rowwise_adagrad", "adam", "ftrl"}
}

// Default returns r with every zero constant replaced by the default of its
// kind. An empty kind is sgd.
func (r Rule) Default() Rule {
	if r.Kind == "" {
		r.Kind = "sgd"
	}
	d := kinds[r.Kind]
	for _, f := range []struct {
		have *float64
		want float64
	}{
		{&r.LearningRate, d.LearningRate}, {&r.Beta1, d.Beta1}, {&r.Beta2, d.Beta2},
		{&r.Beta, d.Beta}, {&r.Epsilon, d.Epsilon}, {&r.Accumulator, d.Accumulator},
	} {
		if *f.have == 0 {
			*f.have = f.want
		}
	}
	return r
}

// Validate returns every fault of r, none if there is none.
func (r Rule) Validate() (faults []error) {
	if _, ok := kinds[r.Kind]; !ok && r.Kind != "" {
		faults = append(faults, fmt.Errorf("kind %q is not one of %s", r.Kind, strings.Join(Kinds(), ", ")))
	}
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"learning_rate", r.LearningRate}, {"beta", r.Beta}, {"epsilon", r.Epsilon},
		{"accumulator", r.Accumulator}, {"l1", r.L1}, {"l2", r.L2},
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

// StateLen returns how many floats of state the rule keeps for n parameters.
func (r Rule) StateLen(n int) int {
	switch r.Default().Kind {
	case "adagrad":
		return n
	case "rowwise_adagrad":
		return 1
	case "adam", "ftrl":
		return 2 * n
	}
	return 0
}

// InitState fills the state of parameters that have seen no gradient.
func (r Rule) InitState(state []float32) {
	clear(state)
	if r = r.Default(); r.Kind == "adagrad" || r.Kind == "rowwise_adagrad" {
		for i := range state {
			state[i] = float32(r.Accumulator)
		}
	}
}

// At prepares the rule for one training step: step counts from 1 and rate
// multiplies the learning rate (a schedule's factor, 1 for none), but not ftrl's.
func (r Rule) At(step int64, rate float64) Update {
	r = r.Default()
	u := Update{kernel: f32.Update{
		Rate: float32(r.LearningRate * rate), Epsilon: float32(r.Epsilon),
		Beta1: float32(r.Beta1), Beta2: float32(r.Beta2),
		Beta: float32(r.Beta), L1: float32(r.L1), L2: float32(r.L2),
	}}
	switch r.Kind {
	case "sgd":
		u.kernel.Rule = f32.SGD
	case "adagrad":
		u.kernel.Rule = f32.Adagrad
	case "rowwise_adagrad":
		u.kernel.Rule = f32.RowwiseAdagrad
	case "adam":
		u.kernel.Rule = f32.Adam
		u.kernel.Unbias1 = float32(1 / (1 - math.Pow(r.Beta1, float64(step))))
		u.kernel.Unbias2 = float32(1 / (1 - math.Pow(r.Beta2, float64(step))))
	case "ftrl":
		u.kernel.Rule = f32.FTRL
		u.kernel.Rate = float32(r.LearningRate)
	default:
		panic("optim: Rule.At: unknown kind " + r.Kind)
	}
	return u
}

// Update is a rule with its constants for one step. It holds no reference to
// parameters and may be used by several goroutines at once.
type Update struct{ kernel f32.Update }

// Gradient says what a rule is given for a gradient g of parameters w:
// Clip·(Scale·g + Decay·w).
type Gradient = f32.Gradient

// Part says where a record holds Dim parameters (Value) and their state (State),
// in floats from the record's beginning.
type Part = f32.Part

// Apply takes one step: w and g hold n values, state what StateLen(n) says. It
// panics if they do not.
func (u *Update) Apply(w, g, state []float32) {
	u.kernel.Vector(w, g, state, Gradient{Scale: 1, Clip: 1})
}

// ApplyGradient is Apply with the gradient that m makes of g and w. It leaves g
// alone.
func (u *Update) ApplyGradient(m Gradient, w, g, state []float32) { u.kernel.Vector(w, g, state, m) }

// Record says where a record of a table lies, and a word beside it that a step sets.
type Record = f32.Record

// ApplyRows takes one step of one part of each of the first n records of a table,
// record i with the gradient that m makes of grads[i·stride:], and sets their marks. A
// stride of 0 gives all records the same gradient. They must be distinct and hold what
// part says; they and their marks may lie outside the Go heap. Large tables are bound by memory, so that the records of
// coming rows are fetched ahead: rows beyond n, which are those of the next call, are
// asked for and not touched. It panics if grads or rows is too short.
func (u *Update) ApplyRows(m Gradient, rows []Record, n int, mark uint32, part Part, grads []float32, stride int) {
	u.kernel.Rows(rows, n, mark, part, grads, stride, m)
}
