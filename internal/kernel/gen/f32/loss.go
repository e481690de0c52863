package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// loss writes the logistic function and its loss.
func loss(x *build.Context) {
	maskTable(x)
	for _, v := range vectors(x) {
		sigmoid(newLogistic(v))
		sigmoidLoss(newLogistic(v))
	}
}

// logistic holds the constants that both kernels keep in registers.
type logistic struct {
	span
	sign, one reg.VecVirtual
}

func newLogistic(v vec) *logistic { return &logistic{span: span{vec: v}} }

func (l *logistic) begin() {
	l.sign, l.one = l.constant(1<<31), l.float(1)
}

func (v *vec) float(x float64) reg.VecVirtual { return v.constant(math.Float32bits(float32(x))) }

// literal returns a constant from memory.
func (v *vec) literal(x float64) reg.VecVirtual {
	m, ok := v.literals[x]
	if !ok {
		m = v.ConstData(fmt.Sprintf("float%d", len(v.literals)), operand.F32(x))
		v.literals[x] = m
	}
	r := v.reg()
	v.VBROADCASTSS(m, r)
	return r
}

// exp returns exp(−|z|) with an error of at most 2 units in the last place, or 0 if the
// result would be subnormal. It is 2ⁿ times the polynomial of Cephes' expf in the rest.
func (l *logistic) exp(z reg.VecVirtual) reg.VecVirtual {
	const smallest, log2e, ln2High, ln2Low = -87.33, 1.44269504088896341, 0.693359375, -2.12194440e-4
	t, n, whole, p, square := l.reg(), l.reg(), l.reg(), l.reg(), l.reg()
	l.VORPS(l.sign, z, t)
	low := l.literal(smallest)
	clamped := l.reg()
	l.VMAXPS(t, low, clamped) // a NaN stays
	l.VMULPS(l.literal(log2e), clamped, n)
	const nearest = 8
	if l.wide() {
		l.VRNDSCALEPS(operand.Imm(nearest), n, n)
	} else {
		l.VROUNDPS(operand.Imm(nearest), n, n)
	}
	l.VFNMADD231PS(l.literal(ln2High), n, clamped)
	l.VFNMADD231PS(l.literal(ln2Low), n, clamped)
	l.polynomial(p, clamped, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
	l.VMULPS(clamped, clamped, square)
	l.VFMADD213PS(clamped, square, p)
	l.VADDPS(l.one, p, p)
	l.VCVTPS2DQ(n, whole)
	l.VPSLLD(operand.Imm(23), whole, whole)
	l.VPADDD(whole, p, p)
	const notLess = 5 // or a NaN
	l.zeroUnless(p, notLess, t, low)
	return p
}

// polynomial sets p to c[0]·xⁿ + … + c[n].
func (v *vec) polynomial(p, x reg.VecVirtual, c ...float64) {
	v.VMOVAPS(v.literal(c[0]), p)
	for _, c := range c[1:] {
		v.VFMADD213PS(v.literal(c), x, p)
	}
}

// log1p returns log(1+e) for e in [0, 1] with a relative error below 2e-7: the
// polynomial interpolates log(1+e)/e at ten Chebyshev nodes.
func (l *logistic) log1p(e reg.VecVirtual) reg.VecVirtual {
	p := l.reg()
	l.polynomial(p, e, -0.0031760570197993236, 0.01954252726557928, -0.056373612835331974, 0.10543623795567428,
		-0.15269667074195603, 0.19663274257045404, -0.24951616262817936, 0.33329710498909615, -0.4999989264806279, 0.9999999946562919)
	l.VMULPS(e, p, p)
	return p
}

// probability returns 1/(1+e), or e/(1+e) if z is negative.
func (l *logistic) probability(z, e reg.VecVirtual) reg.VecVirtual {
	p, sum := l.reg(), l.reg()
	l.VADDPS(l.one, e, sum)
	if l.wide() {
		k := l.K()
		l.VPMOVD2M(z, k)
		l.VBLENDMPS(e, l.one, k, p)
	} else {
		l.VBLENDVPS(z, e, l.one, p)
	}
	l.VDIVPS(sum, p, p)
	return p
}

func sigmoid(l *logistic) {
	l.function("sigmoid", "func(p, logit *float32, n int)", "sets p to the logistic function of n ≥ 1 logits.")
	p, logit := l.param("p"), l.param("logit")
	l.split("n")
	l.begin()
	l.columns("loop", func() {
		z := l.get(logit)
		l.put(l.probability(z, l.exp(z)), p)
	})
	l.end()
}

func sigmoidLoss(l *logistic) {
	l.function("sigmoidLoss", "func(sums *float64, grad, logit, label *float32, n int)",
		"sets the 8 sums of the losses of n ≥ 1 logits, and their gradients unless grad is nil.")
	sums, grad, logit, label := l.param("sums"), l.param("grad"), l.param("logit"), l.param("label")
	l.split("n")
	l.begin()
	zero, acc := l.zero(), l.newSums()
	turn := 0
	l.columns("loop", func() {
		turn++
		z, y, loss := l.get(logit), l.get(label), l.reg()
		e := l.exp(z)
		product := l.reg()
		l.VMULPS(y, z, product)
		l.VMAXPS(z, zero, loss)
		l.VSUBPS(product, loss, loss)
		l.VADDPS(l.log1p(e), loss, loss)
		l.zeroOutside(loss)
		for i, r := range l.doubles(loss) {
			l.VADDPD(r, acc.of(i), acc.of(i))
		}
		l.TESTQ(grad, grad)
		l.JZ(l.label("next%d", turn))
		p := l.probability(z, e)
		l.VSUBPS(y, p, p)
		l.put(p, grad)
		l.Label(string(l.label("next%d", turn)))
	})
	acc.store(sums)
	l.end()
}

// zeroOutside zeroes the lanes outside the mask.
func (v *vec) zeroOutside(r reg.VecVirtual) {
	switch {
	case v.cols == nil:
	case v.wide():
		v.VMOVAPS_Z(r, v.cols, r)
	default:
		v.VANDPS(v.cols, r, r)
	}
}
