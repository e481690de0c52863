package f32

import (
	"fmt"
	"math"
	"unsafe"
)

// Rule is an update rule. Package optim documents the papers and defaults.
type Rule uint8

// The rules, with the floats of state for n parameters.
const (
	SGD            Rule = iota // none
	Adagrad                    // n: a
	RowwiseAdagrad             // 1: a, for the whole row
	Adam                       // 2n: m, then v
	FTRL                       // 2n: z, then n
)

// StateLen returns the number of floats of state for n parameters.
func (r Rule) StateLen(n int) int { return [...]int{0, n, 1, 2 * n, 2 * n}[r] }

// Update is a rule with its constants for one step. The plain loops below define the
// formulas; the kernels match them bit by bit on every machine.
type Update struct {
	Rule             Rule
	Rate             float32 // step size; FTRL's alpha
	Epsilon          float32 // adagrad, adam: added to the root
	Beta1, Beta2     float32 // adam: decay of the moments
	Unbias1, Unbias2 float32 // adam: 1/(1 − βᵗ)
	Keep             float32 // adam: factor of w before the step, 1 without decoupled weight decay
	Beta, L1, L2     float32 // ftrl
}

// Gradient defines the gradient that a rule receives for a gradient g of parameters w:
// Clip·(Scale·g + Decay·w).
type Gradient struct{ Scale, Decay, Clip float32 }

// Part is the location of Dim parameters and their state in a record, in floats from its
// start.
type Part struct{ Dim, Value, State int }

// Vector takes one step for the parameters w. It panics if the lengths of w, g and state do
// not match.
func (u *Update) Vector(w, g, state []float32, m Gradient) {
	check("Update.Vector", "g", len(g), 1, len(w))
	check("Update.Vector", "state", len(state), 1, u.Rule.StateLen(len(w)))
	if len(w) == 0 {
		return
	}
	k := u.constants(m)
	if !vectorFast(u.Rule, &k, w, g, state) {
		k.plain(u.Rule, w, g, state)
	}
}

// Record is the address of a row of a table, and of a word that its update sets.
type Record struct {
	At   *float32
	Mark *uint32
}

// rowsAhead is how many rows in advance a kernel prefetches a row; internal/kernel/gen/f32 uses
// the same number.
const rowsAhead = 24

// Rows takes one step of one part of each of the first n records, in order. It uses the
// gradient at grads[i·stride] for row i and sets the row's mark. With stride 0 all rows
// have the same gradient. The other rows are for the next call: they are only
// prefetched. Records may be outside the Go heap. They must be distinct and laid out as
// part says. Rows panics if grads or rows is too short.
func (u *Update) Rows(rows []Record, n int, mark uint32, part Part, grads []float32, stride int, m Gradient) {
	if n < 0 || n > len(rows) {
		panic(fmt.Sprintf("f32: Update.Rows: %d rows are to be updated of %d", n, len(rows)))
	}
	if n == 0 || part.Dim == 0 {
		return
	}
	checkRows("Update.Rows", len(grads), stride, n, part.Dim)
	k := u.constants(m)
	if rowsFast(u.Rule, &k, rows, n, mark, part, grads, stride) {
		return
	}
	for i, record := range rows[:n] {
		*record.Mark = mark
		w := unsafe.Slice(floatAt(record.At, part.Value), part.Dim)
		state := unsafe.Slice(floatAt(record.At, part.State), u.Rule.StateLen(part.Dim))
		k.plain(u.Rule, w, grads[i*stride:][:part.Dim], state)
	}
}

func floatAt(p *float32, i int) *float32 { return (*float32)(unsafe.Add(unsafe.Pointer(p), 4*i)) }

// constants is the argument of the kernels; internal/kernel/gen/f32/rows.go has its offsets.
type constants struct {
	scale, decay, clip             float32
	rate, epsilon                  float32
	beta1, rest1, beta2, rest2     float32 // rest is 1 − beta
	unbias1, unbias2, beta, l1, l2 float32
	inverse                        float32 // 1/rate
	keep                           float32
}

// Constants are the constants for kernels on other devices: float32 in this order.
type Constants = constants

// Constants returns the constants of a step with gradient m.
func (u *Update) Constants(m Gradient) Constants { return u.constants(m) }

func (u *Update) constants(m Gradient) constants {
	return constants{
		scale: m.Scale, decay: m.Decay, clip: m.Clip, rate: u.Rate, epsilon: u.Epsilon,
		beta1: u.Beta1, rest1: 1 - u.Beta1, beta2: u.Beta2, rest2: 1 - u.Beta2,
		unbias1: u.Unbias1, unbias2: u.Unbias2, beta: u.Beta, l1: u.L1, l2: u.L2,
		inverse: 1 / u.Rate, keep: u.Keep,
	}
}

// The plain loops. A conversion to float32 keeps a product from being fused with a sum, so
// that every machine computes the same bits.

func (k *constants) plain(r Rule, w, g, state []float32) {
	switch n := len(w); r {
	case SGD:
		k.sgd(w, g)
	case Adagrad:
		k.adagrad(w, g, state)
	case RowwiseAdagrad:
		k.rowwise(w, g, state)
	case Adam:
		k.adam(w, g, state[:n], state[n:])
	case FTRL:
		k.ftrl(w, g, state[:n], state[n:])
	}
}

func (k *constants) gradient(g, w float32) float32 {
	return float32(k.clip * (float32(k.scale*g) + float32(k.decay*w)))
}

func (k *constants) sgd(w, g []float32) {
	for i := range w {
		w[i] -= float32(k.rate * k.gradient(g[i], w[i]))
	}
}

func (k *constants) adagrad(w, g, a []float32) {
	for i := range w {
		x := k.gradient(g[i], w[i])
		a[i] += float32(x * x)
		w[i] -= float32(k.rate*x) / (sqrt(a[i]) + k.epsilon)
	}
}

// rowwise sums the squares in eight lanes, like a vector register.
func (k *constants) rowwise(w, g, a []float32) {
	var s [8]float32
	for i := range w {
		x := k.gradient(g[i], w[i])
		s[i%8] += float32(x * x)
	}
	sum := ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
	a[0] += sum / float32(len(w))
	scale := k.rate / (sqrt(a[0]) + k.epsilon)
	for i := range w {
		w[i] -= float32(k.gradient(g[i], w[i]) * scale)
	}
}

func (k *constants) adam(w, g, m, v []float32) {
	for i := range w {
		x := k.gradient(g[i], w[i])
		m[i] = float32(k.beta1*m[i]) + float32(k.rest1*x)
		v[i] = float32(k.beta2*v[i]) + float32(float32(k.rest2*x)*x)
		w[i] = float32(k.keep*w[i]) - float32(float32(k.rate*m[i])*k.unbias1)/(sqrt(float32(v[i]*k.unbias2))+k.epsilon)
	}
}

// ftrl multiplies by 1/rate. This saves two of the five roots and divisions per value,
// which take most of the time.
func (k *constants) ftrl(w, g, z, n []float32) {
	for i := range w {
		x := k.gradient(g[i], w[i])
		next := n[i] + float32(x*x)
		sigma := (sqrt(next) - sqrt(n[i])) * k.inverse
		z[i] += x - float32(sigma*w[i])
		n[i] = next
		if size := float32(math.Abs(float64(z[i]))); size <= k.l1 {
			w[i] = 0
			continue
		}
		l1 := float32(math.Copysign(float64(k.l1), float64(z[i])))
		w[i] = (l1 - z[i]) / (float32((k.beta+sqrt(next))*k.inverse) + k.l2)
	}
}

func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }
