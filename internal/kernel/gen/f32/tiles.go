package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// tileColumns is the width of a tile; internal/kernel/f32 uses the same number.
const tileColumns = 64

// tiles writes the passes over the rows of tiles. A row is a few full vectors, which stay
// in registers.
func tiles(x *build.Context) {
	maskTable(x)
	for _, v := range vectors(x) {
		tileSum(v, tileColumns/v.lanes)
		tileSum(v, 1)
		tileAdd(v)
	}
}

// tileSum sums, for each row of y, the listed rows of the tiles: all their columns, or one
// masked vector.
func tileSum(v vec, vecs int) {
	v.function(fmt.Sprintf("tileSum%d", vecs), "func(y, init, tile *float32, at *uint32, n, ldy, lists, ldat, cols int, floor float32)",
		fmt.Sprintf("sets cols columns, %d vectors wide, of n ≥ 1 rows of y to max(init + the rows of tile that lists ≥ 1 lists name, floor). Lists are ldat apart; without init y is added to.", vecs))
	if vecs == 1 {
		v.mask(v.param("cols"))
	}
	y, init, tile, at := v.param("y"), v.param("init"), v.param("tile"), v.param("at")
	n, ldy, lists, ldat := v.param("n"), v.floats("ldy"), v.param("lists"), v.floats("ldat")
	floor := v.broadcast("floor")
	sum := v.regs(vecs)
	from, list, left, row := v.GP64(), v.GP64(), v.GP64(), v.GP64()
	v.Label("row")
	v.MOVQ(y, from)
	v.TESTQ(init, init)
	v.JZ(v.label("begin"))
	v.MOVQ(init, from)
	v.Label("begin")
	for i, s := range sum {
		v.load(asm.At(from, i*v.bytes()), s)
	}
	v.MOVQ(at, list)
	v.MOVQ(lists, left)
	v.Label("list")
	v.MOVL(asm.At(list, 0), row.As32())
	v.LEAQ(asm.Indexed(tile, row, 4, 0), row)
	for i, s := range sum {
		v.VADDPS(asm.At(row, i*v.bytes()), s, s)
	}
	v.ADDQ(ldat, list)
	v.DECQ(left)
	v.JNZ(v.label("list"))
	for i, s := range sum {
		v.VMAXPS(s, floor, s) // returns the second operand if either is a NaN
		v.store(s, asm.At(y, i*v.bytes()))
	}
	v.ADDQ(operand.Imm(4), at)
	v.ADDQ(ldy, y)
	v.DECQ(n)
	v.JNZ(v.label("row"))
	v.end()
}

// tileAdd adds the rows of a matrix to rows of a tile, one per list. A row of the matrix
// stays in registers for all lists. Which rows of the tile occur for the first time is
// unpredictable: a mask makes these count as zero.
func tileAdd(v vec) {
	v.function("tileAdd", "func(tile, x *float32, at *uint32, set *int, n, lists, ldat int)",
		"adds each of n ≥ 1 rows of x to the rows of tile that lists ≥ 1 lists name, and sets the one that begins a list's set floats into tile; the list's next is then a row on. Lists are ldat apart.")
	tile, x, at, set := v.param("tile"), v.param("x"), v.param("at"), v.param("set")
	n, lists, ldat := v.param("n"), v.param("lists"), v.floats("ldat")
	add := v.regs(tileColumns / v.lanes)
	row, held, list, left, sets := v.GP64(), v.GP64(), v.GP64(), v.GP64(), v.GP64()
	v.Label("row")
	for i, r := range add {
		v.VMOVUPS(asm.At(x, i*v.bytes()), r)
	}
	v.MOVQ(at, list)
	v.MOVQ(set, sets)
	v.MOVQ(lists, left)
	v.Label("list")
	v.MOVL(asm.At(list, 0), row.As32())
	v.CMPQ(row, asm.At(sets, 0))
	v.SBBQ(held, held) // −1, or 0 the first time
	v.LEAQ(asm.Indexed(tile, row, 4, 0), row)
	v.addTo(row, add, held)
	v.NOTQ(held)
	v.ANDQ(operand.Imm(tileColumns), held)
	v.ADDQ(held, asm.At(sets, 0))
	v.ADDQ(ldat, list)
	v.ADDQ(operand.Imm(8), sets)
	v.DECQ(left)
	v.JNZ(v.label("list"))
	v.ADDQ(operand.Imm(4), at)
	v.ADDQ(operand.U32(4*tileColumns), x)
	v.DECQ(n)
	v.JNZ(v.label("row"))
	v.end()
}

// addTo adds add to the row at row, or stores it there if held is 0 instead of −1.
func (v vec) addTo(row reg.GPVirtual, add []reg.VecVirtual, held reg.GPVirtual) {
	sum := v.reg()
	if v.wide() {
		k := v.K()
		v.KMOVW(held.As32(), k)
		for i, x := range add {
			v.VMOVUPS_Z(asm.At(row, i*v.bytes()), k, sum)
			v.VADDPS(x, sum, sum)
			v.VMOVUPS(sum, asm.At(row, i*v.bytes()))
		}
		return
	}
	low, mask := v.XMM(), v.reg()
	v.VMOVD(held.As32(), low)
	v.VBROADCASTSS(low, mask)
	for i, x := range add {
		v.VANDPS(asm.At(row, i*v.bytes()), mask, sum)
		v.VADDPS(x, sum, sum)
		v.VMOVUPS(sum, asm.At(row, i*v.bytes()))
	}
}
