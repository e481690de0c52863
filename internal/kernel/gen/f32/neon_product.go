package main

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// neon is the backend of arm64. A vector is two registers of four floats, so that panels
// and blocks have the shapes of AVX2.
type neon struct{ *asm.Arm }

const lanesNEON = 8

func (x neon) end() { x.Op("RET") }

// productNEON writes the blocks of the matrix products. Six rows of sixteen columns keep 24
// sums in registers, with six of a, each for four steps of k, and two of b.
func productNEON(a *asm.Arm) {
	x := neon{a}
	for _, rows := range []int{6, 4, 2, 1} {
		for _, vecs := range []int{2, 1} {
			k := &blockNEON{neon: x, rows: rows, regs: 2 * vecs}
			k.dot()
			k.outer()
		}
	}
	x.columnSums(4)
	x.columnSums(1)
	x.Function("peakNEON", "func(n int)", "executes n times 24 fused multiply-adds that wait for nothing.")
	n := x.Param("n")
	for i := range asm.V(25) {
		x.Zero(i)
	}
	x.Mark("loop")
	for i := range asm.V(24) {
		x.Three("FMLA", i, 24, 24)
	}
	x.Op("SUBS $1, %s", n)
	x.Op("BNE loop")
	x.end()
}

// blockNEON is a block of rows×regs registers of the result. Two registers may be partial.
type blockNEON struct {
	neon
	rows, regs int
	cols       asm.R
}

func (k *blockNEON) sum(r, i int) asm.V { return asm.V(r*k.regs + i) }
func (k *blockNEON) factor(r int) asm.V { return asm.V(24 + r) }
func (k *blockNEON) name(of string) string {
	return fmt.Sprintf("%s%dx%dNEON", of, k.rows, k.regs/2)
}

// load and store move one row, with as many columns as exist.
func (k *blockNEON) load(p asm.R, v ...asm.V) {
	if k.regs == 2 {
		k.part(p, k.cols, v[0], v[1], true)
		return
	}
	for i := 0; i < len(v); i += 2 {
		k.Op("FLDPQ %d(%s), (%s, %s)", 16*i, p, v[i], v[i+1])
	}
}

func (k *blockNEON) store(p asm.R, v ...asm.V) {
	if k.regs == 2 {
		k.part(p, k.cols, v[0], v[1], false)
		return
	}
	for i := 0; i < len(v); i += 2 {
		k.Op("FSTPQ (%s, %s), %d(%s)", v[i], v[i+1], 16*i, p)
	}
}

// part loads or stores the first cols of eight floats at p, 1 to 8. Other lanes that are
// loaded become zero.
func (x neon) part(p, cols asm.R, low, high asm.V, load bool) {
	some, done, at := x.Label("some"), x.Label("done"), asm.R("R26")
	x.Op("CMP $8, %s", cols)
	x.Op("BNE %s", some)
	if load {
		x.Op("FLDPQ (%s), (%s, %s)", p, low, high)
	} else {
		x.Op("FSTPQ (%s, %s), (%s)", low, high, p)
	}
	x.Op("B %s", done)
	x.Mark(some)
	if load {
		x.Zero(low)
		x.Zero(high)
	}
	x.Op("MOVD %s, %s", p, at)
	for i := range 7 {
		v := low
		if i >= 4 {
			v = high
		}
		if load {
			x.Op("VLD1.P 4(%s), V%d.S[%d]", at, int(v), i%4)
		} else {
			x.Op("VST1.P V%d.S[%d], 4(%s)", int(v), i%4, at)
		}
		if i < 6 {
			x.Op("CMP $%d, %s", i+1, cols)
			x.Op("BEQ %s", done)
		}
	}
	x.Mark(done)
}

func (k *blockNEON) row(r int) (v []asm.V) {
	for i := range k.regs {
		v = append(v, k.sum(r, i))
	}
	return v
}

// dot is c = max(init + a·b, floor), zeroed where gate is 0.
func (k *blockNEON) dot() {
	k.Function(k.name("dot"), "func(c, a, b, init, gate *float32, k, lda, ldc, cols int, floor float32)",
		"sets a block of c to max(init + a·b, floor), and to 0 where gate is 0.")
	b, init, count, lda := k.Param("b"), k.Param("init"), k.Param("k"), k.Floats("lda")
	a := []asm.R{k.Param("a")}
	for r := 1; r < k.rows; r++ {
		next := k.General()
		k.Op("ADD %s, %s, %s", lda, a[r-1], next)
		a = append(a, next)
	}
	if k.regs == 2 {
		k.cols = k.Param("cols")
	}
	for _, v := range k.row(0) {
		k.Zero(v)
	}
	k.Op("CBZ %s, start", init)
	k.load(init, k.row(0)...)
	k.Mark("start")
	for r := 1; r < k.rows; r++ {
		for i := range k.regs {
			k.Copy(k.sum(r, i), k.sum(0, i))
		}
	}
	k.Op("SUBS $4, %s", count)
	k.Op("BLT rest")
	k.Mark("loop")
	for r, p := range a {
		k.Op("FMOVQ.P 16(%s), %s", p, k.factor(r))
	}
	for lane := range 4 {
		k.multiply(b, lane)
	}
	k.Op("SUBS $4, %s", count)
	k.Op("BGE loop")
	k.Mark("rest")
	k.Op("ADDS $4, %s", count)
	k.Op("BEQ finish")
	k.Mark("single")
	for r, p := range a {
		k.Op("FMOVS.P 4(%s), %s", p, k.factor(r))
	}
	k.multiply(b, 0)
	k.Op("SUBS $1, %s", count)
	k.Op("BNE single")
	k.Mark("finish")
	k.finish()
}

// multiply adds the products of a row of the panel b.
func (k *blockNEON) multiply(b asm.R, lane int) {
	for i := 0; i < k.regs; i += 2 {
		k.Op("FLDPQ.P 32(%s), (F30, F31)", b)
		for r := range k.rows {
			k.Lane("FMLA", k.sum(r, i), 30, k.factor(r), lane)
			k.Lane("FMLA", k.sum(r, i+1), 31, k.factor(r), lane)
		}
	}
}

// finish stores the block with the floor, which keeps a NaN, and the gate.
func (k *blockNEON) finish() {
	c, ldc, gate := k.Param("c"), k.Floats("ldc"), k.Param("gate")
	k.Op("CBNZ %s, gated", gate)
	k.Float32("floor", 30)
	for r := range k.rows {
		for _, v := range k.row(r) {
			k.Three("FCMGT", 31, 30, v)
			k.Three("BIT", v, 30, 31)
		}
		k.store(c, k.row(r)...)
		k.Op("ADD %s, %s", ldc, c)
	}
	k.end()
	k.Mark("gated")
	for r := range k.rows {
		open := []asm.V{24, 25, 26, 27}[:k.regs]
		k.load(gate, open...)
		for i, v := range open {
			k.Two("FCMEQ0", v, v)
			k.Three("BIC", k.sum(r, i), k.sum(r, i), v)
		}
		k.store(c, k.row(r)...)
		k.Op("ADD %s, %s", ldc, c)
		k.Op("ADD %s, %s", ldc, gate)
	}
	k.end()
}

// outer computes c += aᵀ·b, with neither factor packed.
func (k *blockNEON) outer() {
	k.Function(k.name("outer"), "func(c, a, b *float32, k, lda, ldb, ldc, cols int)", "adds aᵀ·b to a block of c.")
	c, a, b, count := k.Param("c"), k.Param("a"), k.Param("b"), k.Param("k")
	lda, ldb, ldc, p := k.Floats("lda"), k.Floats("ldb"), k.Floats("ldc"), k.General()
	if k.regs == 2 {
		k.cols = k.Param("cols")
	}
	k.Op("MOVD %s, %s", c, p)
	for r := range k.rows {
		k.load(p, k.row(r)...)
		k.Op("ADD %s, %s", ldc, p)
	}
	k.Mark("loop")
	switch k.rows {
	case 6:
		k.Op("FMOVQ (%s), F24", a)
		k.Op("FMOVD 16(%s), F25", a)
	case 4:
		k.Op("FMOVQ (%s), F24", a)
	case 2:
		k.Op("FMOVD (%s), F24", a)
	case 1:
		k.Op("FMOVS (%s), F24", a)
	}
	columns := []asm.V{28, 29, 30, 31}[:k.regs]
	k.load(b, columns...)
	for r := range k.rows {
		for i, v := range columns {
			k.Lane("FMLA", k.sum(r, i), v, asm.V(24+r/4), r%4)
		}
	}
	k.Op("ADD %s, %s", lda, a)
	k.Op("ADD %s, %s", ldb, b)
	k.Op("SUBS $1, %s", count)
	k.Op("BNE loop")
	for r := range k.rows {
		k.store(c, k.row(r)...)
		k.Op("ADD %s, %s", ldc, c)
	}
	k.end()
}

// columnSums adds the rows of a to sum: n full vectors of columns, or a partial one.
func (x neon) columnSums(n int) {
	x.Function(fmt.Sprintf("columnSums%dNEON", n), "func(sum, a *float32, rows, lda, cols int)", "adds rows ≥ 1 rows of a, lda floats apart, to a vector of sums.")
	k := &blockNEON{neon: x, rows: 2, regs: 2 * n}
	sum, a, rows, lda := k.Param("sum"), k.Param("a"), k.Param("rows"), k.Floats("lda")
	k.cols = k.Param("cols")
	k.load(sum, k.row(0)...)
	k.Mark("loop")
	k.load(a, k.row(1)...)
	for i := range k.regs {
		k.Three("FADD", k.sum(0, i), k.sum(0, i), k.sum(1, i))
	}
	k.Op("ADD %s, %s", lda, a)
	k.Op("SUBS $1, %s", rows)
	k.Op("BNE loop")
	k.store(sum, k.row(0)...)
	k.end()
}

// packNEON writes the kernels that pack the weights and their transpose into panels.
func packNEON(a *asm.Arm) {
	x := neon{a}
	for _, n := range []int{2, 1} {
		x.Function(fmt.Sprintf("panel%dNEON", n), "func(dst, src *float32, rows, lds, cols int)", "copies rows ≥ 1 rows of src, lds floats apart, to a panel.")
		k := &blockNEON{neon: x, rows: 1, regs: 2 * n}
		dst, src, rows, lds := k.Param("dst"), k.Param("src"), k.Param("rows"), k.Floats("lds")
		k.cols = k.Param("cols")
		k.Mark("loop")
		k.load(src, k.row(0)...)
		for i := 0; i < k.regs; i += 2 {
			k.Op("FSTPQ.P (%s, %s), 32(%s)", k.sum(0, i), k.sum(0, i+1), dst)
		}
		k.Op("ADD %s, %s", lds, src)
		k.Op("SUBS $1, %s", rows)
		k.Op("BNE loop")
		k.end()
	}
	x.transpose()
}

// transpose transposes blocks of 8×8, each as four of 4×4.
func (x neon) transpose() {
	x.Function("transposeNEON", "func(dst, src *float32, n, ldd, lds int)",
		"transposes n ≥ 1 blocks of 8×8, which are next to each other in src and below each other in dst.")
	dst, src, n, ldd, lds, p := x.Param("dst"), x.Param("src"), x.Param("n"), x.Floats("ldd"), x.Floats("lds"), x.General()
	x.Mark("loop")
	x.Op("MOVD %s, %s", src, p)
	for r := range 8 {
		x.Op("FLDPQ (%s), (F%d, F%d)", p, r, 8+r)
		x.Op("ADD %s, %s", lds, p)
	}
	for half := range 2 { // columns 0 to 3, 4 to 7
		for rows := range 2 {
			v, t := asm.V(8*half+4*rows), asm.V(16)
			x.Three("TRN1.S", t, v, v+1)
			x.Three("TRN2.S", t+1, v, v+1)
			x.Three("TRN1.S", t+2, v+2, v+3)
			x.Three("TRN2.S", t+3, v+2, v+3)
			x.Three("TRN1.D", v, t, t+2)
			x.Three("TRN1.D", v+1, t+1, t+3)
			x.Three("TRN2.D", v+2, t, t+2)
			x.Three("TRN2.D", v+3, t+1, t+3)
		}
		for c := range 4 {
			x.Op("FSTPQ (F%d, F%d), (%s)", 8*half+c, 8*half+4+c, dst)
			x.Op("ADD %s, %s", ldd, dst)
		}
	}
	x.Op("ADD $32, %s", src)
	x.Op("SUBS $1, %s", n)
	x.Op("BNE loop")
	x.end()
}
