package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// Offsets of the floats in the struct that holds the constants of an update.
const (
	cScale = 4 * iota
	cDecay
	cClip
	cRate
	cEpsilon
	cBeta1
	cRest1 // 1 − beta1
	cBeta2
	cRest2 // 1 − beta2
	cUnbias1
	cUnbias2
	cBeta
	cL1
	cL2
	cInverse // 1/rate
	cKeep
)

// rows writes the update rules, each over many rows of a table and over one vector. They
// round like the plain loops: no product is fused with a sum.
func rows(x *build.Context) {
	maskTable(x)
	for _, v := range vectors(x) {
		for _, r := range rules() {
			(&update{span: span{vec: v}, rule: r}).rows(r.name)
			(&update{span: span{vec: v}, rule: r}).vector(r.name)
		}
	}
	rowwise := &update{span: span{vec: vectors(x)[0]}, rule: rule{body: (*update).rowwiseStep}}
	rowwise.rows("Rowwise")
}

// rule is the work of an update on one register of values.
type rule struct {
	name      string
	body      func(*update)
	constants []int // constants that it reads in addition to the gradient's
}

func rules() []rule {
	return []rule{
		{"SGD", (*update).sgd, []int{cRate}},
		{"Adagrad", (*update).adagrad, []int{cRate, cEpsilon}},
		{"Adam", (*update).adam, []int{cRate, cEpsilon, cBeta1, cRest1, cBeta2, cRest2, cUnbias1, cUnbias2, cKeep}},
		{"FTRL", (*update).ftrl, []int{cInverse, cBeta, cL1, cL2}},
	}
}

// update is the code of one rule. It reads the current vector at w, g and up to two vectors
// of state.
type update struct {
	span
	rule

	k     reg.GPVirtual // constants
	w, g  reg.GPVirtual
	state [2]reg.GPVirtual
	abs   reg.VecVirtual
	scale reg.VecVirtual // rowwise: rate over root

	kept map[int]reg.VecVirtual   // constants in registers, by offset
	args map[string]reg.GPVirtual // parameters in registers, if there are enough
	pair *pair                    // two rows in one register
}

// rowsAhead is how many rows ahead a row is prefetched: more than the lines that a core can
// wait for at once. Package f32 uses the same number.
const rowsAhead = 24

// rows reads the record's address for each row. Values and state are at fixed offsets from
// it.
func (u *update) rows(name string) {
	u.function("rows"+name, "func(rows *byte, n, silent int, grads *float32, stride, dim, value, state, first, most, last int, k *float32, mark uint32)",
		"updates n ≥ 1 rows of dim ≥ 1 values. With each but the last silent ones it asks for a later row: its lines from byte first on, most bytes of them, and byte last, and its mark.")
	next, n, stride := u.param("rows"), u.param("n"), u.floats("stride")
	value, state := u.floats("value"), u.floats("state")
	u.g, u.k = u.param("grads"), u.param("k")
	dim := u.split("dim")
	u.w, u.state[0], u.state[1] = u.GP64(), u.GP64(), u.GP64()
	u.keep()

	u.Label("row")
	u.CMPQ(n, u.stack("silent"))
	u.JLE(u.label("near"))
	u.prefetch(next, rowsAhead, "line")
	u.Label("near")
	u.mark(next, 0)
	u.MOVQ(asm.At(next, 0), u.w)
	u.LEAQ(asm.Indexed(u.w, state, 1, 0), u.state[0])
	u.LEAQ(asm.Indexed(u.state[0], dim, 1, 0), u.state[1])
	u.ADDQ(value, u.w)
	if name == "Rowwise" {
		u.scale = u.zero()
		u.columns("square", u.rowwiseSquare)
		u.rowwiseEnd()
	}
	u.columns("column", func() { u.body(u) })
	u.ADDQ(operand.Imm(recordBytes), next)
	u.ADDQ(stride, u.g)
	u.DECQ(n)
	u.JNZ(u.label("row"))
	u.end()
}

// recordBytes is the size of a Record: the address of a row, then the address of its mark.
const recordBytes = 16

// mark marks the row that is ahead rows further.
func (u *update) mark(next reg.GPVirtual, ahead int) {
	at := u.GP64()
	u.MOVQ(asm.At(next, recordBytes*ahead+8), at)
	u.MOVL(u.arg("mark").As32(), asm.At(at, 0))
}

// prefetch prefetches the first lines and the last line of the row that is ahead rows
// further, and its mark. Most rows take one or two lines.
func (u *update) prefetch(next reg.GPVirtual, ahead int, line string) {
	mark, far, first, at := u.GP64(), u.GP64(), u.arg("first"), u.GP64()
	u.MOVQ(asm.At(next, recordBytes*ahead+8), mark)
	u.PREFETCHT0(asm.At(mark, 0))
	u.MOVQ(asm.At(next, recordBytes*ahead), far)
	u.PREFETCHT0(asm.Indexed(far, first, 1, 0))
	u.PREFETCHT0(asm.Indexed(far, u.arg("last"), 1, 0))
	for lines := 1; lines <= 2; lines++ {
		u.CMPQ(u.stack("most"), operand.Imm(64*uint64(lines)))
		u.JLE(u.label("%s_end", line))
		if lines == 1 {
			u.PREFETCHT0(asm.Indexed(far, first, 1, 64))
		}
	}
	u.ADDQ(first, far)
	u.MOVQ(operand.I32(128), at)
	u.Label(line)
	u.PREFETCHT0(asm.Indexed(far, at, 1, 0))
	u.ADDQ(operand.Imm(64), at)
	u.CMPQ(at, u.stack("most"))
	u.JLT(u.label("%s", line))
	u.Label(line + "_end")
}

// arg returns a parameter, which must not be changed.
func (u *update) arg(name string) reg.GPVirtual {
	if r, ok := u.args[name]; ok {
		return r
	}
	r := u.GP64()
	if name == "mark" {
		u.MOVL(u.stack(name), r.As32())
	} else {
		u.MOVQ(u.stack(name), r)
	}
	return r
}

// vector updates a single row whose state is separate.
func (u *update) vector(name string) {
	u.function("vector"+name, "func(w, g0, state *float32, n int, k *float32)", "updates one vector of n ≥ 1 values.")
	u.w, u.g, u.k = u.param("w"), u.param("g0"), u.param("k")
	n := u.split("n")
	u.state[0], u.state[1] = u.param("state"), u.GP64()
	u.LEAQ(asm.Indexed(u.state[0], n, 1, 0), u.state[1])
	u.keep()
	u.columns("column", func() { u.body(u) })
	u.end()
}

// keep loads the constants into registers, if there are enough.
func (u *update) keep() {
	u.abs = u.constant(0x7fffffff)
	if !u.wide() {
		return
	}
	u.kept = map[int]reg.VecVirtual{}
	for _, offset := range append([]int{cScale, cDecay, cClip}, u.constants...) {
		r := u.reg()
		u.VBROADCASTSS(asm.At(u.k, offset), r)
		u.kept[offset] = r
	}
}

// c returns a constant in every lane, which must not be changed.
func (u *update) c(offset int) reg.VecVirtual {
	if r, ok := u.kept[offset]; ok {
		return r
	}
	r := u.reg()
	u.VBROADCASTSS(asm.At(u.k, offset), r)
	return r
}

// times multiplies r by a constant.
func (u *update) times(r reg.VecVirtual, offset int) { u.VMULPS(u.c(offset), r, r) }

// gradient returns the parameters and clip·(scale·g + decay·w).
func (u *update) gradient() (w, g reg.VecVirtual) {
	w, g = u.get(u.w), u.get(u.g)
	u.times(g, cScale)
	d := u.reg()
	u.VMULPS(w, u.c(cDecay), d)
	u.VADDPS(d, g, g)
	u.times(g, cClip)
	return w, g
}

// sgd: w −= rate·g.
func (u *update) sgd() {
	w, g := u.gradient()
	u.times(g, cRate)
	u.VSUBPS(g, w, w)
	u.put(w, u.w)
}

// adagrad: a += g², w −= rate·g / (√a + ε).
func (u *update) adagrad() {
	w, g := u.gradient()
	a, square := u.get(u.state[0]), u.reg()
	u.VMULPS(g, g, square)
	u.VADDPS(square, a, a)
	u.put(a, u.state[0])
	u.VSQRTPS(a, a)
	u.VADDPS(u.c(cEpsilon), a, a)
	u.times(g, cRate)
	u.VDIVPS(a, g, g)
	u.VSUBPS(g, w, w)
	u.put(w, u.w)
}

// adam: m = β₁·m + (1−β₁)·g, v = β₂·v + (1−β₂)·g², w = keep·w − rate·m·c₁ / (√(v·c₂) + ε).
func (u *update) adam() {
	w, g := u.gradient()
	m, v, part := u.get(u.state[0]), u.get(u.state[1]), u.reg()
	u.times(m, cBeta1)
	u.VMULPS(g, u.c(cRest1), part)
	u.VADDPS(part, m, m)
	u.put(m, u.state[0])
	u.times(v, cBeta2)
	square := u.reg()
	u.VMULPS(g, u.c(cRest2), square)
	u.VMULPS(g, square, square)
	u.VADDPS(square, v, v)
	u.put(v, u.state[1])
	u.times(v, cUnbias2)
	u.VSQRTPS(v, v)
	u.VADDPS(u.c(cEpsilon), v, v)
	u.times(m, cRate)
	u.times(m, cUnbias1)
	u.VDIVPS(v, m, m)
	u.times(w, cKeep)
	u.VSUBPS(m, w, w)
	u.put(w, u.w)
}

// ftrl: σ = (√(n+g²) − √n) · 1/rate, z += g − σ·w, n += g²,
// w = |z| ≤ l1 ? 0 : −(z − sign(z)·l1) / ((β + √n) · 1/rate + l2).
func (u *update) ftrl() {
	w, g := u.gradient()
	z, n, root, next := u.get(u.state[0]), u.get(u.state[1]), u.reg(), u.reg()
	u.VSQRTPS(n, root)
	u.VMULPS(g, g, next)
	u.VADDPS(next, n, next)
	u.put(next, u.state[1])
	u.VSQRTPS(next, next)
	u.VSUBPS(root, next, root)
	inverse := u.c(cInverse)
	u.VMULPS(inverse, root, root)
	u.VMULPS(w, root, root)
	u.VSUBPS(root, g, g)
	u.VADDPS(g, z, z)
	u.put(z, u.state[0])

	u.VADDPS(u.c(cBeta), next, next)
	u.VMULPS(inverse, next, next)
	u.VADDPS(u.c(cL2), next, next)
	l1, size, sign := u.c(cL1), u.reg(), u.reg()
	u.VANDPS(u.abs, z, size)
	u.VANDNPS(z, u.abs, sign)
	u.VORPS(sign, l1, sign)
	// −(z − l) equals l − z except for the sign of 0, which cannot occur here.
	u.VSUBPS(z, sign, z)
	u.VDIVPS(next, z, z)
	const greaterOrNaN = 6
	u.zeroUnless(z, greaterOrNaN, size, l1)
	u.put(z, u.w)
}

// Row-wise Adagrad: a += mean of g², w −= rate/(√a + ε)·g. The squares are summed
// in eight lanes on every machine.

func (u *update) rowwiseSquare() {
	_, g := u.gradient()
	u.zeroOutside(g) // 0·Inf would not be 0
	u.VMULPS(g, g, g)
	u.VADDPS(g, u.scale, u.scale)
}

func (u *update) rowwiseEnd() {
	sum, other, a, n := u.XMM(), u.XMM(), u.XMM(), u.XMM()
	u.VEXTRACTF128(operand.Imm(1), u.scale, other)
	u.VADDPS(u.scale.AsX(), other, sum)
	u.VMOVHLPS(sum, sum, other)
	u.VADDPS(other, sum, sum)
	u.VMOVSHDUP(sum, other)
	u.VADDSS(other, sum, sum)
	bytes := u.GP64()
	u.MOVQ(u.state[1], bytes)
	u.SUBQ(u.state[0], bytes)
	u.SHRQ(operand.Imm(2), bytes)
	u.VXORPS(n, n, n)
	u.VCVTSI2SSQ(bytes, n, n)
	u.VDIVSS(n, sum, sum)
	u.VADDSS(asm.At(u.state[0], 0), sum, a)
	u.VMOVSS(a, asm.At(u.state[0], 0))
	u.VSQRTSS(a, a, a)
	u.VADDSS(asm.At(u.k, cEpsilon), a, a)
	rate := u.XMM()
	u.VMOVSS(asm.At(u.k, cRate), rate)
	u.VDIVSS(a, rate, rate)
	u.VBROADCASTSS(rate, u.scale)
}

func (u *update) rowwiseStep() {
	w, g := u.gradient()
	u.VMULPS(g, u.scale, g)
	u.VSUBPS(g, w, w)
	u.put(w, u.w)
}
