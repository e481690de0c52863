package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// sum adds rows of floats: strips of 64 elements, then of 8, are summed in
// registers over all rows and stored to all results.
func sum(x *build.Context) {
	x.Function("sumRowsAVX2")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("sumRowsAVX2 sums p rows into d results; n is a positive multiple of sumStep.")
	x.SignatureExpr("func(dst, rows *[]float32, d, p, n int)")
	s := sumLoop{
		Context: x, dst: asm.Param(x, "dst"), rows: asm.Param(x, "rows"),
		d: asm.Param(x, "d"), p: asm.Param(x, "p"), end: asm.Param(x, "n"), at: x.GP64(),
	}
	x.SHLQ(operand.Imm(2), s.end)
	x.XORQ(s.at, s.at)
	s.strips(8)
	s.strips(1)
	x.VZEROUPPER()
	x.RET()
}

// sumLoop holds the registers of sumRowsAVX2; at and end count bytes.
type sumLoop struct {
	*build.Context
	dst, rows, d, p, end, at reg.Register
}

// header is the size of a slice header, whose first word is the pointer.
const header = 24

// strips sums strips of n vectors while a whole one is left.
func (x sumLoop) strips(n int) {
	label := func(s string) string { return fmt.Sprintf("%s%d", s, n) }
	acc := make([]reg.VecVirtual, n)
	next, count, data, after := x.GP64(), x.GP64(), x.GP64(), x.GP64()

	x.Label(label("strip"))
	x.LEAQ(operand.Mem{Base: x.at, Disp: 32 * n}, after)
	x.CMPQ(after, x.end)
	x.JGT(operand.LabelRef(label("done")))
	x.MOVQ(x.rows, next)
	x.MOVQ(x.p, count)
	x.MOVQ(asm.At(next, 0), data)
	for i := range acc {
		acc[i] = x.YMM()
		x.VMOVUPS(asm.Indexed(data, x.at, 1, 32*i), acc[i])
	}

	x.Label(label("row"))
	x.DECQ(count)
	x.JZ(operand.LabelRef(label("put")))
	x.ADDQ(operand.Imm(header), next)
	x.MOVQ(asm.At(next, 0), data)
	for i := range acc {
		x.VADDPS(asm.Indexed(data, x.at, 1, 32*i), acc[i], acc[i])
	}
	x.JMP(operand.LabelRef(label("row")))

	x.Label(label("put"))
	x.MOVQ(x.dst, next)
	x.MOVQ(x.d, count)
	x.Label(label("result"))
	x.MOVQ(asm.At(next, 0), data)
	for i := range acc {
		x.VMOVUPS(acc[i], asm.Indexed(data, x.at, 1, 32*i))
	}
	x.ADDQ(operand.Imm(header), next)
	x.DECQ(count)
	x.JNZ(operand.LabelRef(label("result")))
	x.MOVQ(after, x.at)
	x.JMP(operand.LabelRef(label("strip")))
	x.Label(label("done"))
}
