package main

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// tilesNEON writes the passes over the rows of tiles, and the sum of rows of ranks.
func tilesNEON(a *asm.Arm) {
	x := neon{a}
	x.tileSum(tileColumns / lanesNEON)
	x.tileSum(1)
	x.tileAdd()
	x.sumRows()
}

// tileSum keeps a row in registers while it adds the listed rows of tiles.
func (x neon) tileSum(vecs int) {
	x.Function(fmt.Sprintf("tileSum%dNEON", vecs), "func(y, init, tile *float32, at *uint32, n, ldy, lists, ldat, cols int, floor float32)",
		fmt.Sprintf("sets cols columns, %d vectors wide, of n ≥ 1 rows of y to max(init + the rows of tile that lists ≥ 1 lists name, floor). Lists are ldat apart; without init y is added to.", vecs))
	k := &blockNEON{neon: x, rows: 1, regs: 2 * vecs}
	y, init, tile, at, n := k.Param("y"), k.Param("init"), k.Param("tile"), k.Param("at"), k.Param("n")
	ldy, lists, ldat := k.Floats("ldy"), k.Param("lists"), k.Floats("ldat")
	list, left, row := k.General(), k.General(), k.General()
	k.cols = k.Param("cols")
	k.Float32("floor", 30)
	k.Mark("row")
	k.Op("MOVD %s, %s", y, row)
	k.Op("CBZ %s, start", init)
	k.Op("MOVD %s, %s", init, row)
	k.Mark("start")
	k.load(row, k.row(0)...)
	k.Op("MOVD %s, %s", at, list)
	k.Op("MOVD %s, %s", lists, left)
	k.Mark("list")
	k.Op("MOVWU (%s), %s", list, row)
	k.Op("ADD %s<<2, %s, %s", row, tile, row)
	k.Op("ADD %s, %s", ldat, list)
	for i := 0; i < k.regs; i += 2 {
		k.Op("FLDPQ %d(%s), (F16, F17)", 16*i, row)
		k.Three("FADD", k.sum(0, i), k.sum(0, i), 16)
		k.Three("FADD", k.sum(0, i+1), k.sum(0, i+1), 17)
	}
	k.Op("SUBS $1, %s", left)
	k.Op("BNE list")
	for _, v := range k.row(0) {
		k.Three("FCMGT", 31, 30, v)
		k.Three("BIT", v, 30, 31)
	}
	k.store(y, k.row(0)...)
	k.Op("ADD $4, %s", at)
	k.Op("ADD %s, %s", ldy, y)
	k.Op("SUBS $1, %s", n)
	k.Op("BNE row")
	k.end()
}

// tileAdd adds the rows of a matrix to rows of a tile, one per list. A mask makes rows that
// occur for the first time count as zero.
func (x neon) tileAdd() {
	x.Function("tileAddNEON", "func(tile, x *float32, at *uint32, set *int, n, lists, ldat int)",
		"adds each of n ≥ 1 rows of x to the rows of tile that lists ≥ 1 lists name, and sets the one that begins a list's set floats into tile; the list's next is then a row on. Lists are ldat apart.")
	tile, from, at, set, n := x.Param("tile"), x.Param("x"), x.Param("at"), x.Param("set"), x.Param("n")
	lists, ldat := x.Param("lists"), x.Floats("ldat")
	list, sets, left, row, end, held := x.General(), x.General(), x.General(), x.General(), x.General(), x.General()
	const regs, mask = tileColumns / 4, asm.V(20)
	x.Mark("row")
	for i := 0; i < regs; i += 2 {
		x.Op("FLDPQ.P 32(%s), (F%d, F%d)", from, i, i+1)
	}
	x.Op("MOVD %s, %s", at, list)
	x.Op("MOVD %s, %s", set, sets)
	x.Op("MOVD %s, %s", lists, left)
	x.Mark("list")
	x.Op("MOVWU (%s), %s", list, row)
	x.Op("ADD %s, %s", ldat, list)
	x.Op("MOVD (%s), %s", sets, end)
	x.Op("CMP %s, %s", end, row)
	x.Op("CSETM LT, %s", held)
	x.Op("VDUP %s, V%d.S4", held, int(mask))
	x.Op("ADD $%d, %s, R26", tileColumns, end)
	x.Op("CSEL LT, %s, R26, %s", end, end)
	x.Op("MOVD.P %s, 8(%s)", end, sets)
	x.Op("ADD %s<<2, %s, %s", row, tile, row)
	for i := 0; i < regs; i += 2 {
		x.Op("FLDPQ %d(%s), (F16, F17)", 16*i, row)
		for j := range asm.V(2) {
			x.Three("AND", 16+j, 16+j, mask)
			x.Three("FADD", 16+j, 16+j, asm.V(i)+j)
		}
		x.Op("FSTPQ (F16, F17), %d(%s)", 16*i, row)
	}
	x.Op("SUBS $1, %s", left)
	x.Op("BNE list")
	x.Op("ADD $4, %s", at)
	x.Op("SUBS $1, %s", n)
	x.Op("BNE row")
	x.end()
}

// sumRows sums strips of sixteen registers and of two. A sum begins with −0, which leaves
// what is added unchanged.
func (x neon) sumRows() {
	x.Function("sumRowsNEON", "func(dst, rows *[]float32, d, p, n int)", "sets d ≥ 1 slices to the sum of p ≥ 1 slices, n values, a multiple of 8.")
	dst, rows, d, p, n := x.Param("dst"), x.Param("rows"), x.Param("d"), x.Param("p"), x.Param("n")
	at, next, count, data := x.General(), x.General(), x.General(), x.General()
	x.Op("MOVD ZR, %s", at)
	x.Constant(31, 1<<31)
	for _, regs := range []int{16, 2} {
		strip, done, row, result := x.Label("strip"), x.Label("done"), x.Label("row"), x.Label("result")
		each := func(loop string, slices, number asm.R, body func(i int)) {
			x.Op("MOVD %s, %s", slices, next)
			x.Op("MOVD %s, %s", number, count)
			x.Mark(loop)
			x.Op("MOVD.P %d(%s), %s", header, next, data)
			x.Op("ADD %s, %s", at, data)
			for i := 0; i < regs; i += 2 {
				body(i)
			}
			x.Op("SUBS $1, %s", count)
			x.Op("BNE %s", loop)
		}
		x.Mark(strip)
		x.Op("SUBS $%d, %s", 4*regs, n)
		x.Op("BLT %s", done)
		for i := range asm.V(regs) {
			x.Copy(i, 31)
		}
		each(row, rows, p, func(i int) {
			x.Op("FLDPQ %d(%s), (F16, F17)", 16*i, data)
			x.Three("FADD", asm.V(i), asm.V(i), 16)
			x.Three("FADD", asm.V(i+1), asm.V(i+1), 17)
		})
		each(result, dst, d, func(i int) { x.Op("FSTPQ (F%d, F%d), %d(%s)", i, i+1, 16*i, data) })
		x.Op("ADD $%d, %s", 16*regs, at)
		x.Op("B %s", strip)
		x.Mark(done)
		x.Op("ADD $%d, %s", 4*regs, n)
	}
	x.end()
}
