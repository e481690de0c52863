package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// halves rounds a matrix: in each row full lines of 32 values, then a partial one.
func halves(x *build.Context) {
	x.Function("halvesAVX512")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("halvesAVX512 rounds rows ≥ 1 rows of 32·whole + partial values; a partial line ends with zeros.")
	x.SignatureExpr("func(dst *uint16, src *float32, rows, whole, partial, ldd, lds int)")
	for _, p := range []struct {
		name string
		r    reg.Register
	}{{"dst", reg.RDI}, {"src", reg.RSI}, {"rows", reg.R8}, {"whole", reg.R9}, {"partial", reg.R10}, {"ldd", reg.R11}, {"lds", reg.R12}} {
		x.Load(x.Param(p.name), p.r)
	}
	x.MOVQ(operand.I64(-1), reg.RAX)
	x.BZHIQ(reg.R10, reg.RAX, reg.RAX)
	x.KMOVW(reg.EAX, reg.K1)
	x.SHRQ(operand.Imm(16), reg.RAX)
	x.KMOVW(reg.EAX, reg.K2)
	line := func(load func(m operand.Mem, k, r reg.Register)) {
		load(asm.At(reg.RAX, 0), reg.K1, reg.Z2)
		load(asm.At(reg.RAX, 64), reg.K2, reg.Z3)
		toHalf(x, reg.Z2, reg.Z3, reg.Z4)
		x.VMOVDQU16(reg.Z4, asm.At(reg.RDX, 0))
		x.ADDQ(operand.Imm(64), reg.RDX)
	}

	x.Label("row")
	x.MOVQ(reg.RDI, reg.RDX)
	x.MOVQ(reg.RSI, reg.RAX)
	x.MOVQ(reg.R9, reg.RCX)
	x.TESTQ(reg.RCX, reg.RCX)
	x.JZ(operand.LabelRef("partly"))
	x.Label("line")
	line(func(m operand.Mem, _, r reg.Register) { x.VMOVUPS(m, r) })
	x.SUBQ(operand.I32(-128), reg.RAX)
	x.DECQ(reg.RCX)
	x.JNZ(operand.LabelRef("line"))
	x.Label("partly")
	x.TESTQ(reg.R10, reg.R10)
	x.JZ(operand.LabelRef("next"))
	line(func(m operand.Mem, k, r reg.Register) { x.VMOVUPS_Z(m, k, r) })
	x.Label("next")
	x.ADDQ(reg.R12, reg.RSI)
	x.ADDQ(reg.R11, reg.RDI)
	x.DECQ(reg.R8)
	x.JNZ(operand.LabelRef("row"))
	x.VZEROUPPER()
	x.RET()
}

// interleave writes rows of pairs.
func interleave(v vec) {
	v.function("interleave", "func(dst *uint32, src *uint16, pairs, n, ldd, lds int)",
		"joins the values of rows 2i and 2i+1 of src, n of them, a positive multiple of 16, for pairs ≥ 1 rows of dst.")
	dst, src, pairs, n := v.param("dst"), v.param("src"), v.param("pairs"), v.param("n")
	ldd, lds := v.param("ldd"), v.param("lds")
	at, high := v.GP64(), v.GP64()
	v.Label("pair")
	v.LEAQ(asm.Indexed(src, lds, 1, 0), high)
	v.XORQ(at, at)
	v.Label("loop")
	a, b := v.reg(), v.reg()
	v.VPMOVZXWD(asm.Indexed(src, at, 2, 0), a)
	v.VPMOVZXWD(asm.Indexed(high, at, 2, 0), b)
	v.VPSLLD(operand.Imm(16), b, b)
	v.VPORD(a, b, b)
	v.VMOVUPS(b, asm.Indexed(dst, at, 4, 0))
	v.ADDQ(operand.Imm(16), at)
	v.CMPQ(at, n)
	v.JLT(v.label("loop"))
	v.LEAQ(asm.Indexed(src, lds, 2, 0), src)
	v.ADDQ(ldd, dst)
	v.DECQ(pairs)
	v.JNZ(v.label("pair"))
	v.end()
}

// transposeHalves transposes 32 rows, eight columns at a time. A register holds eight
// values of each of the rows m, 8+m, 16+m and 24+m, which leaves a transposition of 8×8 in
// each quarter.
func transposeHalves(v vec) {
	v.function("transposeHalves", "func(dst, src *uint16, n, ldd, lds int)",
		"transposes 32 rows of 8·n columns, n ≥ 1, to 8·n rows of 32.")
	dst, src, n := v.param("dst"), v.param("src"), v.param("n")
	ldd, lds := v.param("ldd"), v.param("lds")
	eight, three := v.GP64(), v.GP64() // strides of eight and of three times eight rows
	v.MOVQ(lds, eight)
	v.SHLQ(operand.Imm(3), eight)
	v.LEAQ(asm.Indexed(eight, eight, 2, 0), three)
	p := v.GP64()

	v.Label("loop")
	v.MOVQ(src, p)
	rows := v.regs(8)
	for _, r := range rows {
		v.VMOVDQU(asm.At(p, 0), r.AsX())
		v.VINSERTI32X4(operand.Imm(1), asm.Indexed(p, eight, 1, 0), r, r)
		v.VINSERTI32X4(operand.Imm(2), asm.Indexed(p, eight, 2, 0), r, r)
		v.VINSERTI32X4(operand.Imm(3), asm.Indexed(p, three, 1, 0), r, r)
		v.ADDQ(lds, p)
	}
	for _, r := range v.transposeQuarters(rows) {
		v.VMOVUPS(r, asm.At(dst, 0))
		v.ADDQ(ldd, dst)
	}
	v.ADDQ(operand.Imm(2*8), src)
	v.DECQ(n)
	v.JNZ(v.label("loop"))
	v.end()
}

// transposeQuarters returns the transpose of 8 rows of 8 words in each quarter of
// the registers: neighbours are interleaved, then pairs, then fours.
func (v vec) transposeQuarters(row []reg.VecVirtual) []reg.VecVirtual {
	pair, four, out := v.regs(8), v.regs(8), v.regs(8)
	for i := 0; i < 8; i += 2 { // pair[i]: columns 0 to 3 of rows i and i+1
		v.VPUNPCKLWD(row[i+1], row[i], pair[i])
		v.VPUNPCKHWD(row[i+1], row[i], pair[i+1])
	}
	for i := 0; i < 8; i += 4 {
		for half := range 2 { // four[i+2·half]: columns 4·half and 4·half+1 of rows i to i+3
			v.VPUNPCKLDQ(pair[i+2+half], pair[i+half], four[i+2*half])
			v.VPUNPCKHDQ(pair[i+2+half], pair[i+half], four[i+2*half+1])
		}
	}
	for i := range 4 {
		v.VPUNPCKLQDQ(four[4+i], four[i], out[2*i])
		v.VPUNPCKHQDQ(four[4+i], four[i], out[2*i+1])
	}
	return out
}

// widen returns 16 values at m as floats.
func (v *vec) widen(m operand.Mem) reg.VecVirtual {
	r := v.reg()
	v.VPMOVZXWD(m, r)
	v.VPSLLD(operand.Imm(16), r, r)
	return r
}

// columnSumsBF16 adds the rows of a to 32 sums.
func columnSumsBF16(v vec) {
	v.function("columnSumsBF16", "func(sum *float32, a *uint16, rows, lda int)", "adds rows ≥ 1 rows of 32 values, lda bytes apart.")
	sum, a, rows, lda := v.param("sum"), v.param("a"), v.param("rows"), v.param("lda")
	acc := v.regs(2)
	for i, s := range acc {
		v.VMOVUPS(asm.At(sum, 64*i), s)
	}
	v.Label("row")
	for i, s := range acc {
		v.VADDPS(v.widen(asm.At(a, 32*i)), s, s)
	}
	v.ADDQ(lda, a)
	v.DECQ(rows)
	v.JNZ(v.label("row"))
	for i, s := range acc {
		v.VMOVUPS(s, asm.At(sum, 64*i))
	}
	v.end()
}

// dotHalves is the product with one column: 32 sums per row, added up by halves.
func dotHalves(v vec) {
	v.function("dotHalves", "func(y *float32, x *uint16, w *float32, rows, n, ldx int, bias float32)",
		"sets y to bias + x·w for rows ≥ 1 rows of n values, a positive multiple of 32.")
	y, x, w, rows, n, ldx := v.param("y"), v.param("x"), v.param("w"), v.param("rows"), v.param("n"), v.param("ldx")
	bias, at := v.broadcast("bias"), v.GP64()
	v.Label("row")
	acc := v.regs(2)
	for _, s := range acc {
		v.clear(s)
	}
	v.XORQ(at, at)
	v.Label("loop")
	for i, s := range acc {
		v.VFMADD231PS(asm.Indexed(w, at, 4, 64*i), v.widen(asm.Indexed(x, at, 2, 32*i)), s)
	}
	v.ADDQ(operand.Imm(32), at)
	v.CMPQ(at, n)
	v.JLT(v.label("loop"))
	sum := acc[0]
	v.VADDPS(acc[1], sum, sum)
	upper, t := v.YMM(), v.XMM()
	v.VEXTRACTF64X4(operand.Imm(1), sum, upper)
	v.VADDPS(upper, sum.AsY(), upper)
	v.VEXTRACTF128(operand.Imm(1), upper, t)
	v.VADDPS(upper.AsX(), t, t)
	u := v.XMM()
	const swapHalves, swapPairs = 0x4e, 0xb1
	v.VPERMILPS(operand.Imm(swapHalves), t, u)
	v.VADDPS(u, t, t)
	v.VPERMILPS(operand.Imm(swapPairs), t, u)
	v.VADDPS(u, t, t)
	v.VADDSS(bias.AsX(), t, t)
	v.VMOVSS(t, asm.At(y, 0))
	v.ADDQ(operand.Imm(4), y)
	v.ADDQ(ldx, x)
	v.DECQ(rows)
	v.JNZ(v.label("row"))
	v.end()
}

// scaledRows adds the rows of x, each times its factor, to 32 sums.
func scaledRows(v vec) {
	v.function("scaledRows", "func(sum *float32, x *uint16, factor *float32, rows, ldx, cols int)",
		"adds rows ≥ 1 rows of 32 values, each times its factor, to cols sums.")
	sum, x, factor, rows, ldx := v.param("sum"), v.param("x"), v.param("factor"), v.param("rows"), v.param("ldx")
	masks := v.twoMasks("cols")
	acc := v.regs(2)
	for i, s := range acc {
		v.VMOVUPS_Z(asm.At(sum, 64*i), masks[i], s)
	}
	v.Label("row")
	for i, s := range acc {
		v.VFMADD231PS_BCST(asm.At(factor, 0), v.widen(asm.At(x, 32*i)), s)
	}
	v.ADDQ(operand.Imm(4), factor)
	v.ADDQ(ldx, x)
	v.DECQ(rows)
	v.JNZ(v.label("row"))
	for i, s := range acc {
		v.VMOVUPS(s, masks[i], asm.At(sum, 64*i))
	}
	v.end()
}

// twoMasks returns the masks of two registers for the columns of a parameter.
func (v *vec) twoMasks(param string) [2]reg.OpmaskVirtual {
	cols, ones := v.param(param), v.GP64()
	v.MOVQ(operand.I64(-1), ones)
	v.BZHIQ(cols, ones, ones)
	m := [2]reg.OpmaskVirtual{v.K(), v.K()}
	v.KMOVW(ones.As32(), m[0])
	v.SHRQ(operand.Imm(16), ones)
	v.KMOVW(ones.As32(), m[1])
	return m
}

// outerHalves computes the product of a column and a row, rounded.
func outerHalves(v vec) {
	x := v.Context
	x.Function("outerHalvesAVX512")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("outerHalvesAVX512 sets rows ≥ 1 rows of n values of dst, a positive multiple of 32, to factor·w, and to 0 where gate is.",
		"gate may be nil.")
	x.SignatureExpr("func(dst *uint16, factor, w *float32, gate *uint16, rows, n, ldd int)")
	for _, p := range []struct {
		name string
		r    reg.Register
	}{{"dst", reg.RDX}, {"factor", reg.RDI}, {"w", reg.RBX}, {"gate", reg.RSI}, {"rows", reg.R8}, {"n", reg.R9}, {"ldd", reg.R10}} {
		x.Load(x.Param(p.name), p.r)
	}
	x.MOVL(operand.U32(0x7fff7fff), reg.EAX)
	x.VPBROADCASTD(reg.EAX, reg.Z1)
	x.Label("row")
	x.VBROADCASTSS(asm.At(reg.RDI, 0), reg.Z0)
	x.XORQ(reg.RAX, reg.RAX)
	x.Label("loop")
	x.VMULPS(asm.Indexed(reg.RBX, reg.RAX, 4, 0), reg.Z0, reg.Z2)
	x.VMULPS(asm.Indexed(reg.RBX, reg.RAX, 4, 64), reg.Z0, reg.Z3)
	toHalf(x, reg.Z2, reg.Z3, reg.Z4)
	x.TESTQ(reg.RSI, reg.RSI)
	x.JZ(operand.LabelRef("open"))
	x.VPTESTMW(asm.Indexed(reg.RSI, reg.RAX, 2, 0), reg.Z1, reg.K1)
	x.VMOVDQU16_Z(reg.Z4, reg.K1, reg.Z4)
	x.Label("open")
	x.VMOVDQU16(reg.Z4, asm.Indexed(reg.RDX, reg.RAX, 2, 0))
	x.ADDQ(operand.Imm(32), reg.RAX)
	x.CMPQ(reg.RAX, reg.R9)
	x.JLT(operand.LabelRef("loop"))
	x.ADDQ(operand.Imm(4), reg.RDI)
	x.ADDQ(reg.R10, reg.RDX)
	x.TESTQ(reg.RSI, reg.RSI)
	x.JZ(operand.LabelRef("next"))
	x.ADDQ(reg.R10, reg.RSI)
	x.Label("next")
	x.DECQ(reg.R8)
	x.JNZ(operand.LabelRef("row"))
	x.VZEROUPPER()
	x.RET()
}
