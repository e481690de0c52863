package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// narrowRows is the height of the blocks of a narrow product; internal/kernel/f32 uses the same
// number.
const narrowRows = 16

// narrowProducts writes products of tiles whose result has a full or half vector of
// columns.
func narrowProducts(x *build.Context) {
	v := vectors(x)[1]
	narrow(v, 16, v.ZMM)
	narrow(v, 8, v.YMM)
}

// narrow is the product for cols columns, which fill a register that next returns.
func narrow(v vec, cols int, next func() reg.VecVirtual) {
	v.function(fmt.Sprintf("narrow%d", cols), "func(c, a, w *float32, k, blocks, ldc, add int)",
		fmt.Sprintf("sets %d columns of blocks ≥ 1 blocks of %d rows to a·w, or adds it unless add is 0. Rows of a are a tile's, w is a panel of k ≥ 1 rows.", cols, narrowRows))
	c, a, w, k := v.param("c"), v.param("a"), v.param("w"), v.param("k")
	blocks, ldc, add := v.param("blocks"), v.floats("ldc"), v.param("add")
	v.NEGQ(add)
	v.SBBQ(add, add)
	held := v.K()
	v.KMOVW(add.As32(), held)

	sum, at, row, left := make([]reg.VecVirtual, narrowRows), v.GP64(), v.GP64(), v.GP64()
	v.Label("block")
	for r := range sum {
		sum[r] = next()
		v.VPXORD(sum[r], sum[r], sum[r])
	}
	v.MOVQ(a, at)
	v.MOVQ(w, row)
	v.MOVQ(k, left)
	v.Label("loop")
	weights := next()
	v.VMOVUPS(asm.At(row, 0), weights)
	for r, s := range sum {
		v.VFMADD231PS_BCST(asm.At(at, 4*tileColumns*r), weights, s)
	}
	v.ADDQ(operand.Imm(4), at)
	v.ADDQ(operand.Imm(uint64(4*cols)), row)
	v.DECQ(left)
	v.JNZ(v.label("loop"))
	for _, s := range sum {
		v.VADDPS(asm.At(c, 0), s, held, s)
		v.VMOVUPS(s, asm.At(c, 0))
		v.ADDQ(ldc, c)
	}
	v.ADDQ(operand.U32(4*tileColumns*narrowRows), a)
	v.DECQ(blocks)
	v.JNZ(v.label("block"))
	v.end()
}
