package main

import (
	"math"

	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// columns runs body over n ≥ 0 floats: four at a time, then one by one in the first lane.
// body receives the suffix of FMOV and the number of bytes. n is overwritten.
func (x neon) columns(n asm.R, body func(size string, bytes int)) {
	rest, done, loop, single := x.Label("rest"), x.Label("done"), x.Label("four"), x.Label("one")
	x.Op("SUBS $4, %s", n)
	x.Op("BLT %s", rest)
	x.Mark(loop)
	body("Q", 16)
	x.Op("SUBS $4, %s", n)
	x.Op("BGE %s", loop)
	x.Mark(rest)
	x.Op("ADDS $4, %s", n)
	x.Op("BEQ %s", done)
	x.Mark(single)
	body("S", 4)
	x.Op("SUBS $1, %s", n)
	x.Op("BNE %s", single)
	x.Mark(done)
}

func (x neon) get(size string, p asm.R, v asm.V) { x.Op("FMOV%s (%s), %s", size, p, v) }

// next loads a value and advances p; put stores one and advances p.
func (x neon) next(size string, bytes int, p asm.R, v asm.V) {
	x.Op("FMOV%s.P %d(%s), %s", size, bytes, p, v)
}

func (x neon) put(size string, bytes int, v asm.V, p asm.R) {
	x.Op("FMOV%s.P %s, %d(%s)", size, v, bytes, p)
}

// elementsNEON writes the kernels on one or two vectors.
func elementsNEON(a *asm.Arm) {
	x := neon{a}
	x.Function("axpyNEON", "func(y, x *float32, n int, alpha float32)", "adds alpha·x to y, n ≥ 1 values, without fusing.")
	to, from, n := x.Param("y"), x.Param("x"), x.Param("n")
	x.Float32("alpha", 2)
	x.columns(n, func(size string, bytes int) {
		x.next(size, bytes, from, 0)
		x.get(size, to, 1)
		x.Three("FMUL", 0, 0, 2)
		x.Three("FADD", 1, 1, 0)
		x.put(size, bytes, 1, to)
	})
	x.end()

	x.Function("scaleNEON", "func(x *float32, n int, alpha float32)", "multiplies x, n ≥ 1 values, by alpha.")
	to, n = x.Param("x"), x.Param("n")
	x.Float32("alpha", 2)
	x.columns(n, func(size string, bytes int) {
		x.get(size, to, 0)
		x.Three("FMUL", 0, 0, 2)
		x.put(size, bytes, 0, to)
	})
	x.end()

	x.Function("mulToNEON", "func(y, x *float32, n int)", "multiplies y by x, n ≥ 1 values each.")
	to, from, n = x.Param("y"), x.Param("x"), x.Param("n")
	x.columns(n, func(size string, bytes int) {
		x.next(size, bytes, from, 0)
		x.get(size, to, 1)
		x.Three("FMUL", 1, 1, 0)
		x.put(size, bytes, 1, to)
	})
	x.end()

	x.Function("reluGradNEON", "func(dy, y *float32, n int)", "zeroes dy, n ≥ 1 values, where y is 0.")
	to, from, n = x.Param("dy"), x.Param("y"), x.Param("n")
	x.columns(n, func(size string, bytes int) {
		x.next(size, bytes, from, 0)
		x.get(size, to, 1)
		x.Two("FCMEQ0", 0, 0)
		x.Three("BIC", 1, 1, 0)
		x.put(size, bytes, 1, to)
	})
	x.end()
	x.finite()
	x.sumSquares()
	x.halves()
}

// finite keeps the largest magnitude as an integer. Values from infinity, 0x7f800000, on
// are not finite.
func (x neon) finite() {
	x.Function("finiteNEON", "func(x *float32, n int) (ok bool)", "reports whether all of x, n ≥ 1 values, are finite.")
	from, n := x.Param("x"), x.Param("n")
	x.Zero(1)
	x.columns(n, func(size string, bytes int) {
		x.next(size, bytes, from, 0)
		x.Two("FABS", 0, 0)
		x.Three("SMAX", 1, 1, 0)
	})
	most, r := x.General(), x.General()
	x.Op("MOVD ZR, %s", most)
	for lane := range 4 {
		x.Op("VMOV V1.S[%d], %s", lane, r)
		x.Op("CMP %s, %s", r, most)
		x.Op("CSEL HI, %s, %s, %s", most, r, most)
	}
	x.Op("MOVD $0x7f800000, %s", r)
	x.Op("CMP %s, %s", r, most)
	x.Op("CSET LO, %s", most)
	x.Return("MOVB", most, "ok")
	x.end()
}

// doubles adds the four floats of v, squared or not, to two pairs of sums in float64. t is
// overwritten.
func (x neon) doubles(v, t, sums asm.V, square bool) {
	for i, op := range []string{"FCVTL", "FCVTL2"} {
		x.Two(op, t, v)
		if square {
			x.Three("FMUL.D", t, t, t)
		}
		x.Three("FADD.D", sums+asm.V(i), sums+asm.V(i), t)
	}
}

// eightSums loads eight sums in float64 into four registers, or stores them.
func (x neon) eightSums(p asm.R, first asm.V, load bool) {
	for i := asm.V(0); i < 4; i += 2 {
		if load {
			x.Op("FLDPQ %d(%s), (%s, %s)", 16*i, p, first+i, first+i+1)
		} else {
			x.Op("FSTPQ (%s, %s), %d(%s)", first+i, first+i+1, 16*i, p)
		}
	}
}

func (x neon) sumSquares() {
	x.Function("sumSquaresNEON", "func(sums *float64, x *float32, n int)", "adds the squares of x, n values, a positive multiple of 8, to 8 sums.")
	sums, from, n := x.Param("sums"), x.Param("x"), x.Param("n")
	x.eightSums(sums, 16, true)
	x.Mark("loop")
	x.Op("FLDPQ.P 32(%s), (F0, F1)", from)
	x.doubles(0, 2, 16, true)
	x.doubles(1, 3, 18, true)
	x.Op("SUBS $8, %s", n)
	x.Op("BNE loop")
	x.eightSums(sums, 16, false)
	x.end()
}

// halves writes the conversions to and from bfloat16, to nearest even. A NaN stays a NaN
// because the highest bit of its fraction is set.
func (x neon) halves() {
	x.Function("toBF16NEON", "func(dst *uint16, src *float32, n int)", "converts n values, a positive multiple of 8.")
	dst, src, n := x.Param("dst"), x.Param("src"), x.Param("n")
	const one, half, quiet = asm.V(29), asm.V(30), asm.V(31)
	x.Constant(one, 1)
	x.Constant(half, 0x7fff)
	x.Constant(quiet, 0x40)
	x.Mark("loop")
	x.Op("FLDPQ.P 32(%s), (F0, F1)", src)
	for i := range asm.V(2) {
		up, sum, number := 2+3*i, 3+3*i, 4+3*i
		x.Two("USHR16", up, i)
		x.Three("AND", sum, up, one)
		x.Three("ADD", sum, sum, half)
		x.Three("ADD", sum, sum, i)
		x.Two("USHR16", sum, sum)
		x.Three("ORR", up, up, quiet)
		x.Three("FCMEQ", number, i, i)
		x.Three("BIF", sum, up, number)
	}
	x.Two("XTN", 8, 3)
	x.Two("XTN2", 8, 6)
	x.Op("FMOVQ.P F8, 16(%s)", dst)
	x.Op("SUBS $8, %s", n)
	x.Op("BNE loop")
	x.end()

	x.Function("fromBF16NEON", "func(dst *float32, src *uint16, n int)", "converts n values, a positive multiple of 8.")
	dst, src, n = x.Param("dst"), x.Param("src"), x.Param("n")
	x.Mark("from")
	x.Op("FMOVQ.P 16(%s), F0", src)
	x.Two("SHLL16", 1, 0)
	x.Two("SHLL2.16", 2, 0)
	x.Op("FSTPQ.P (F1, F2), 32(%s)", dst)
	x.Op("SUBS $8, %s", n)
	x.Op("BNE from")
	x.end()
}

// lossNEON writes the logistic function and its loss, as loss.go describes them.
func lossNEON(a *asm.Arm) {
	l := &logisticNEON{neon: neon{a}}
	l.Function("sigmoidNEON", "func(p, logit *float32, n int)", "sets p to the logistic function of n ≥ 1 logits.")
	p, logit, n := l.Param("p"), l.Param("logit"), l.Param("n")
	l.constants()
	l.columns(n, func(size string, bytes int) {
		l.next(size, bytes, logit, 0)
		l.exp(2, 0)
		l.probability(3, 0, 2)
		l.put(size, bytes, 3, p)
	})
	l.end()

	l.Function("sigmoidLossNEON", "func(sums *float64, grad, logit, label *float32, n int)",
		"adds the losses of n logits, a positive multiple of 8, to 8 sums, and sets their gradients unless grad is nil.")
	sums, grad, logit, label, n := l.Param("sums"), l.Param("grad"), l.Param("logit"), l.Param("label"), l.Param("n")
	l.constants()
	l.eightSums(sums, 28, true)
	l.Mark("loop")
	for i := range asm.V(2) {
		l.Op("FMOVQ.P 16(%s), F0", logit)
		l.Op("FMOVQ.P 16(%s), F1", label)
		l.exp(2, 0)
		l.Zero(4)
		l.Three("FCMGT", 5, 4, 0) // 0 > z, so that a NaN is kept
		l.Three("BIC", 4, 0, 5)
		l.Three("FMUL", 5, 0, 1)
		l.Three("FSUB", 4, 4, 5)
		l.polynomial(5, 2, l.logOver())
		l.Three("FMUL", 5, 5, 2)
		l.Three("FADD", 4, 4, 5)
		l.doubles(4, 5, 28+2*i, false)
		next := l.Label("next")
		l.Op("CBZ %s, %s", grad, next)
		l.probability(3, 0, 2)
		l.Three("FSUB", 3, 3, 1)
		l.Op("FMOVQ.P F3, 16(%s)", grad)
		l.Mark(next)
	}
	l.Op("SUBS $8, %s", n)
	l.Op("BNE loop")
	l.eightSums(sums, 28, false)
	l.end()
}

// logisticNEON keeps its constants in registers from 10 on, four per register.
type logisticNEON struct {
	neon
	literals []float32
}

const oneNEON, smallestNEON = asm.V(26), asm.V(27)

func (l *logisticNEON) logOver() []float32 {
	return []float32{-0.0031760570197993236, 0.01954252726557928, -0.056373612835331974, 0.10543623795567428,
		-0.15269667074195603, 0.19663274257045404, -0.24951616262817936, 0.33329710498909615, -0.4999989264806279, 0.9999999946562919}
}

func (l *logisticNEON) expRest() []float32 {
	return []float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1}
}

const log2eNEON, ln2HighNEON, ln2LowNEON = float32(1.44269504088896341), float32(0.693359375), float32(-2.12194440e-4)

// constants loads the literals, four per register.
func (l *logisticNEON) constants() {
	l.literals = append([]float32{log2eNEON, ln2HighNEON, ln2LowNEON}, append(l.expRest(), l.logOver()...)...)
	l.Constant(oneNEON, math.Float32bits(1))
	l.Constant(smallestNEON, math.Float32bits(-87.33))
	for i, c := range l.literals {
		r := asm.R("R26")
		l.Op("MOVW $%#x, %s", int32(math.Float32bits(c)), r)
		l.Op("VMOV %s, V%d.S[%d]", r, 10+i/4, i%4)
	}
}

// literal returns the register and lane of a constant.
func (l *logisticNEON) literal(c float32) (v asm.V, lane int) {
	for i, x := range l.literals {
		if x == c {
			return asm.V(10 + i/4), i % 4
		}
	}
	panic("gen: no such constant")
}

// polynomial sets p to c[0]·xⁿ + … + c[n]. Register 9 is overwritten.
func (l *logisticNEON) polynomial(p, x asm.V, c []float32) {
	v, lane := l.literal(c[0])
	l.Dup(p, v, lane)
	for _, c := range c[1:] {
		v, lane := l.literal(c)
		l.Dup(9, v, lane)
		l.Three("FMLA", 9, p, x)
		l.Copy(p, 9)
	}
}

// exp sets e to exp(−|z|). Registers 3 to 9 are overwritten.
func (l *logisticNEON) exp(e, z asm.V) {
	const t, n, x, square = asm.V(4), asm.V(5), asm.V(6), asm.V(7)
	l.Two("FABS", t, z)
	l.Two("FNEG", t, t)
	l.Three("FCMGT", x, smallestNEON, t)
	l.Copy(8, x) // where it is 0
	l.Three("BSL", x, smallestNEON, t)
	v, lane := l.literal(log2eNEON)
	l.Lane("FMUL", n, x, v, lane)
	l.Two("FRINTN", n, n)
	l.Two("FNEG", 3, n)
	for _, c := range []float32{ln2HighNEON, ln2LowNEON} {
		v, lane := l.literal(c)
		l.Lane("FMLA", x, 3, v, lane)
	}
	l.polynomial(e, x, l.expRest())
	l.Three("FMUL", square, x, x)
	l.Three("FMLA", x, square, e)
	l.Three("FADD", e, x, oneNEON)
	l.Two("FCVTNS", n, n)
	l.Two("SHL23", n, n)
	l.Three("ADD", e, e, n)
	l.Three("BIC", e, e, 8)
}

// probability sets p to 1/(1+e), or to e/(1+e) if z is negative. Register 9 is overwritten.
func (l *logisticNEON) probability(p, z, e asm.V) {
	l.Two("SSHR31", p, z)
	l.Three("BSL", p, e, oneNEON)
	l.Three("FADD", 9, e, oneNEON)
	l.Three("FDIV", p, p, 9)
}
