// Package optim holds the update rules that turn a gradient into a change of
// parameters. A rule works on one vector of parameters, its gradient and its
// state, whatever they belong to: dense applies it to a whole layer, sparse to
// one row of a table. Every rule is the plain loop over float32.
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
	u := Update{
		lr: float32(r.LearningRate * rate), eps: float32(r.Epsilon),
		b1: float32(r.Beta1), b2: float32(r.Beta2),
		beta: float32(r.Beta), l1: float32(r.L1), l2: float32(r.L2),
	}
	switch r.Kind {
	case "sgd":
		u.apply = sgd
	case "adagrad":
		u.apply = adagrad
	case "rowwise_adagrad":
		u.apply = rowwiseAdagrad
	case "adam":
		u.c1 = float32(1 / (1 - math.Pow(r.Beta1, float64(step))))
		u.c2 = float32(1 / (1 - math.Pow(r.Beta2, float64(step))))
		u.apply = adam
	case "ftrl":
		u.lr = float32(r.LearningRate)
		u.apply = ftrl
	default:
		panic("optim: Rule.At: unknown kind " + r.Kind)
	}
	return u
}

// Update is a rule with its constants for one step. It holds no reference to
// parameters and may be used by several goroutines at once.
type Update struct {
	apply          func(u *Update, w, g, state []float32)
	lr, eps        float32
	b1, b2, c1, c2 float32 // adam; c1 and c2 undo the bias of the moments
	beta, l1, l2   float32 // ftrl
}

// Apply takes one step: w and g hold n values, state what StateLen(n) says. It
// panics if w and g differ in length.
func (u *Update) Apply(w, g, state []float32) {
	if len(w) != len(g) {
		panic(fmt.Sprintf("optim: Apply: %d parameters, %d gradients", len(w), len(g)))
	}
	u.apply(u, w, g, state)
}

func sgd(u *Update, w, g, _ []float32) {
	for i, gi := range g {
		w[i] -= u.lr * gi
	}
}

func adagrad(u *Update, w, g, a []float32) {
	for i, gi := range g {
		a[i] += gi * gi
		w[i] -= u.lr * gi / (sqrt(a[i]) + u.eps)
	}
}

func rowwiseAdagrad(u *Update, w, g, a []float32) {
	var sum float32
	for _, gi := range g {
		sum += gi * gi
	}
	a[0] += sum / float32(len(g))
	scale := u.lr / (sqrt(a[0]) + u.eps)
	for i, gi := range g {
		w[i] -= scale * gi
	}
}

func adam(u *Update, w, g, state []float32) {
	m, v := state[:len(w)], state[len(w):]
	for i, gi := range g {
		m[i] = u.b1*m[i] + (1-u.b1)*gi
		v[i] = u.b2*v[i] + (1-u.b2)*gi*gi
		w[i] -= u.lr * m[i] * u.c1 / (sqrt(v[i]*u.c2) + u.eps)
	}
}

func ftrl(u *Update, w, g, state []float32) {
	z, n := state[:len(w)], state[len(w):]
	for i, gi := range g {
		next := n[i] + gi*gi
		sigma := (sqrt(next) - sqrt(n[i])) / u.lr
		z[i] += gi - sigma*w[i]
		n[i] = next
		if abs(z[i]) <= u.l1 {
			w[i] = 0
			continue
		}
		l1 := u.l1
		if z[i] < 0 {
			l1 = -l1
		}
		w[i] = -(z[i] - l1) / ((u.beta+sqrt(next))/u.lr + u.l2)
	}
}

func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func abs(x float32) float32 {
	if x < 0 {
		return -x
	}
	return x
}
