package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/gen/asm"
)

// tileColumns is the width of a tile; internal/f32 knows it.
const tileColumns = 64

// tiles writes the passes over the rows of tiles: a row is a few whole vectors, which
// stay in registers.
func tiles(x *build.Context) {
	for _, v := range vectors(x) {
		tileSum(v)
		tileAdd(v)
	}
}

// tileSum sums, for each row of y, the rows of the tiles that lists name.
func tileSum(v vec) {
	v.function("tileSum", "func(y, init, tile *float32, at *uint32, n, ldy, lists, ldat int, floor float32)",
		"sets n ≥ 1 rows of y to max(init + the rows of tile that lists ≥ 1 lists name, floor). Lists lie ldat apart; without init y is added to.")
	y, init, tile, at := v.param("y"), v.param("init"), v.param("tile"), v.param("at")
	n, ldy, lists, ldat := v.param("n"), v.floats("ldy"), v.param("lists"), v.floats("ldat")
	floor := v.broadcast("floor")
	sum := v.regs(tileColumns / v.lanes)
	from, list, left, row := v.GP64(), v.GP64(), v.GP64(), v.GP64()
	v.Label("row")
	v.MOVQ(y, from)
	v.TESTQ(init, init)
	v.JZ(v.label("begin"))
	v.MOVQ(init, from)
	v.Label("begin")
	for i, s := range sum {
		v.VMOVUPS(asm.At(from, i*v.bytes()), s)
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
		v.VMAXPS(s, floor, s) // the second operand is kept if either is a NaN
		v.VMOVUPS(s, asm.At(y, i*v.bytes()))
	}
	v.ADDQ(operand.Imm(4), at)
	v.ADDQ(ldy, y)
	v.DECQ(n)
	v.JNZ(v.label("row"))
	v.end()
}

// tileAdd adds the rows of a matrix to rows of a tile. No processor can guess which of
// them come for the first time: a mask makes those count as zero.
func tileAdd(v vec) {
	v.function("tileAdd", "func(tile, x *float32, at *uint32, n, set int) int",
		"adds each of n ≥ 1 rows of x to the row of tile that at names, and sets the one that begins set floats into tile; the next of these is then a row on. It returns the last.")
	tile, x, at, n, set := v.param("tile"), v.param("x"), v.param("at"), v.param("n"), v.param("set")
	sum, row, held := v.regs(tileColumns/v.lanes), v.GP64(), v.GP64()
	v.Label("row")
	v.MOVL(asm.At(at, 0), row.As32())
	v.CMPQ(row, set)
	v.SBBQ(held, held) // −1, or 0 at the first time
	v.LEAQ(asm.Indexed(tile, row, 4, 0), row)
	for i, s := range sum {
		v.VMOVUPS(asm.At(x, i*v.bytes()), s)
	}
	v.addHeld(sum, row, held)
	for i, s := range sum {
		v.VMOVUPS(s, asm.At(row, i*v.bytes()))
	}
	v.ANDQ(operand.I32(-tileColumns), held)
	v.LEAQ(asm.Indexed(set, held, 1, tileColumns), set)
	v.ADDQ(operand.Imm(4), at)
	v.ADDQ(operand.U32(4*tileColumns), x)
	v.DECQ(n)
	v.JNZ(v.label("row"))
	v.Store(set, v.ReturnIndex(0))
	v.end()
}

// addHeld adds what lies at row to sum, if held is −1 and not 0.
func (v vec) addHeld(sum []reg.VecVirtual, row, held reg.GPVirtual) {
	if v.wide() {
		k := v.K()
		v.KMOVW(held.As32(), k)
		for i, s := range sum {
			v.VADDPS(asm.At(row, i*v.bytes()), s, k, s)
		}
		return
	}
	low, mask := v.XMM(), v.reg()
	v.VMOVD(held.As32(), low)
	v.VBROADCASTSS(low, mask)
	for i, s := range sum {
		was := v.reg()
		v.VANDPS(asm.At(row, i*v.bytes()), mask, was)
		v.VADDPS(was, s, s)
	}
}
