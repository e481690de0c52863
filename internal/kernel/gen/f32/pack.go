package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// pack writes the kernels that pack the weights and their transpose into panels.
func pack(x *build.Context) {
	maskTable(x)
	for _, v := range vectors(x) {
		panel(v, 2)
		panel(v, 1)
	}
	transpose(vectors(x)[0])
}

// panel copies columns of a matrix: n full vectors, or a masked one whose other lanes
// become zero.
func panel(v vec, n int) {
	v.function(fmt.Sprintf("panel%d", n), "func(dst, src *float32, rows, lds, cols int)",
		"copies rows ≥ 1 rows of src, lds floats apart, to a panel.")
	dst, src, rows, lds := v.param("dst"), v.param("src"), v.param("rows"), v.floats("lds")
	if n == 1 {
		v.mask(v.param("cols"))
	}
	v.Label("loop")
	for i, r := range v.regs(n) {
		v.load(asm.At(src, i*v.bytes()), r)
		v.VMOVUPS(r, asm.At(dst, i*v.bytes()))
	}
	v.ADDQ(lds, src)
	v.ADDQ(operand.Imm(uint64(n*v.bytes())), dst)
	v.DECQ(rows)
	v.JNZ(v.label("loop"))
	v.end()
}

// transpose transposes blocks of 8×8. Eight lanes are enough for every machine: reads and
// writes bound the kernel, not shuffles.
func transpose(v vec) {
	v.function("transpose", "func(dst, src *float32, n, ldd, lds int)",
		"transposes n ≥ 1 blocks of 8×8, next to each other in src and below each other in dst.")
	dst, src, n := v.param("dst"), v.param("src"), v.param("n")
	ldd, lds := v.floats("ldd"), v.floats("lds")

	v.Label("loop")
	rows := v.regs(8)
	p := v.GP64()
	v.MOVQ(src, p)
	for _, r := range rows {
		v.VMOVUPS(asm.At(p, 0), r)
		v.ADDQ(lds, p)
	}
	for _, r := range v.transpose(rows) {
		v.VMOVUPS(r, asm.At(dst, 0))
		v.ADDQ(ldd, dst)
	}
	v.ADDQ(operand.Imm(4*8), src)
	v.DECQ(n)
	v.JNZ(v.label("loop"))
	v.end()
}

// transpose returns the transpose of 8 rows of 8 lanes in new registers: pairs
// of rows are interleaved, then pairs of pairs, then the halves are exchanged.
func (v vec) transpose(row []reg.VecVirtual) []reg.VecVirtual {
	pair := v.regs(8)
	for i := 0; i < 8; i += 2 {
		v.VUNPCKLPS(row[i+1], row[i], pair[i])
		v.VUNPCKHPS(row[i+1], row[i], pair[i+1])
	}
	four := v.regs(8)
	const low, high = 0x44, 0xee
	for i := 0; i < 8; i += 4 {
		for k := range 2 {
			v.VSHUFPS(operand.Imm(low), pair[i+2+k], pair[i+k], four[i+2*k])
			v.VSHUFPS(operand.Imm(high), pair[i+2+k], pair[i+k], four[i+2*k+1])
		}
	}
	out := v.regs(8)
	const lowHalves, highHalves = 0x20, 0x31
	for i := range 4 {
		v.VPERM2F128(operand.Imm(lowHalves), four[i+4], four[i], out[i])
		v.VPERM2F128(operand.Imm(highHalves), four[i+4], four[i], out[i+4])
	}
	return out
}
