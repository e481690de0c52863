package main

import "github.com/wdlrun/wdlrun/internal/kernel/gen/asm"

// poolNEON writes the pooled gather of embeddings and its backward.
func poolNEON(a *asm.Arm) {
	x := neon{a}
	for _, weighted := range []bool{false, true} {
		for _, grad := range []bool{false, true} {
			x.bags(weighted, grad)
		}
	}
	x.singles(false)
	x.singles(true)
}

// bags sums the rows of each bag, or adds the bag to each of its rows.
func (x neon) bags(weighted, grad bool) {
	name, doc := "pool", "sets each of n ≥ 1 bags to the sum of its rows of dim ≥ 1 values, or adds it."
	if grad {
		name, doc = "poolGrad", "adds each of n ≥ 1 bags to its rows of dim ≥ 1 values. add is not used."
	}
	if weighted {
		name += "Weighted"
	}
	x.Function(name+"NEON", "func(matrix, bags *float32, stride, n, dim int, offsets *int32, at *uint32, coefs *float32, add int)", doc)
	matrix, side, stride, n, dim := x.Param("matrix"), x.Param("bags"), x.Floats("stride"), x.Param("n"), x.Param("dim")
	offsets, at, coefs, add := x.Param("offsets"), x.Param("at"), x.Param("coefs"), x.Param("add")
	first, last, next, row, p, left, shift := x.General(), x.General(), x.General(), x.General(), x.General(), x.General(), x.General()
	x.Mark("bag")
	x.Op("MOVW.P 4(%s), %s", offsets, first)
	x.Op("MOVW (%s), %s", offsets, last)
	x.Op("MOVD %s, %s", dim, left)
	x.Op("MOVD %s, %s", side, p)
	x.Op("MOVD ZR, %s", shift)
	x.columns(left, func(size string, bytes int) {
		loop, done := x.Label("element"), x.Label("end")
		x.Op("MOVD %s, %s", first, next)
		if grad {
			x.get(size, p, 0)
		} else {
			x.Zero(0)
			x.Op("CBZ %s, %s", add, loop)
			x.get(size, p, 0)
		}
		x.Mark(loop)
		x.Op("CMP %s, %s", last, next)
		x.Op("BGE %s", done)
		x.Op("MOVWU (%s)(%s<<2), %s", at, next, row)
		x.Op("ADD %s<<2, %s, %s", row, matrix, row)
		x.Op("ADD %s, %s", shift, row)
		x.get(size, row, 1)
		if weighted {
			x.Op("ADD %s<<2, %s, R26", next, coefs)
			x.Op("FMOVS (R26), F2")
		}
		x.bag(size, bytes, row, weighted, grad)
		x.Op("ADD $1, %s", next)
		x.Op("B %s", loop)
		x.Mark(done)
		if !grad {
			x.Op("FMOV%s F0, (%s)", size, p)
		}
		x.Op("ADD $%d, %s", bytes, p)
		x.Op("ADD $%d, %s", bytes, shift)
	})
	x.Op("ADD %s, %s", stride, side)
	x.Op("SUBS $1, %s", n)
	x.Op("BNE bag")
	x.end()
}

// bag adds a row in 1, times 2 if weighted, to the sum in 0. With grad it adds the bag in
// 0, times 2 if weighted, to the row.
func (x neon) bag(size string, bytes int, row asm.R, weighted, grad bool) {
	switch {
	case grad && weighted:
		x.Lane("FMUL", 3, 0, 2, 0)
		x.Three("FADD", 1, 1, 3)
	case grad:
		x.Three("FADD", 1, 1, 0)
	case weighted:
		x.Lane("FMUL", 1, 1, 2, 0)
		fallthrough
	default:
		x.Three("FADD", 0, 0, 1)
	}
	if grad {
		x.Op("FMOV%s F1, (%s)", size, row)
	}
}

// singles is bags for bags of one row each.
func (x neon) singles(grad bool) {
	name, doc := "poolSingles", "sets each of n ≥ 1 bags to its row of dim ≥ 1 values, or adds it."
	if grad {
		name, doc = "poolGradSingles", "adds each of n ≥ 1 bags to its row of dim ≥ 1 values. add is not used."
	}
	x.Function(name+"NEON", "func(matrix *float32, limit int, bags *float32, stride, n, dim int, at *uint32, add int) (left int)",
		doc+" It stops before a row that begins past limit and returns how many bags are left.")
	matrix, limit, side, stride, n := x.Param("matrix"), x.Param("limit"), x.Param("bags"), x.Floats("stride"), x.Param("n")
	dim, at, add, row, p, count := x.Param("dim"), x.Param("at"), x.Param("add"), x.General(), x.General(), x.General()
	x.Mark("bag")
	x.Op("CMP $%d, %s", singlesAhead, n)
	x.Op("BLE near")
	x.Op("MOVWU %d(%s), %s", 4*singlesAhead, at, row)
	x.Op("ADD %s<<2, %s, %s", row, matrix, row)
	x.Op("PRFM (%s), PLDL1KEEP", row)
	x.Mark("near")
	x.Op("MOVWU (%s), %s", at, row)
	x.Op("CMP %s, %s", limit, row)
	x.Op("BGT end")
	x.Op("ADD %s<<2, %s, %s", row, matrix, row)
	x.Op("MOVD %s, %s", side, p)
	x.Op("MOVD %s, %s", dim, count)
	x.columns(count, func(size string, bytes int) {
		if grad {
			x.get(size, row, 0)
			x.next(size, bytes, p, 1)
			x.Three("FADD", 0, 0, 1)
			x.put(size, bytes, 0, row)
			return
		}
		set := x.Label("set")
		x.Zero(0)
		x.Op("CBZ %s, %s", add, set)
		x.get(size, p, 0)
		x.Mark(set)
		x.next(size, bytes, row, 1)
		x.Three("FADD", 0, 0, 1)
		x.put(size, bytes, 0, p)
	})
	x.Op("ADD $4, %s", at)
	x.Op("ADD %s, %s", stride, side)
	x.Op("SUBS $1, %s", n)
	x.Op("BNE bag")
	x.Mark("end")
	x.Return("MOVD", n, "left")
	x.end()
}
