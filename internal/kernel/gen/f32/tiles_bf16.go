package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// tilesBF16 writes the products of tiles in bfloat16 for CPUs that multiply pairs in
// vectors. A tile has few rows of 64 floats, and a dim of the other factor fills no vector.
// Each product therefore has a separate kernel over all rows.
func tilesBF16(x *build.Context) {
	tileDots(x)
	order := joinOrder(x)
	for _, h := range tileHeights() {
		tileOuter(x, h, order)
	}
	tileGather(x, order)
}

// tileHeights are the numbers of rows of pairs, the dim of a table, that are multiplied at
// once.
func tileHeights() []int { return []int{10, 8, 4, 2, 1} }

const tileVectors = tileColumns / lanesAVX512

func pairKernel(x *build.Context, name, signature string, doc ...string) {
	x.Function(name + "AVX512BF16")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc(doc...)
	x.SignatureExpr(signature)
}

// tileDots computes a tile: rows of pairs times pairs of 64 columns. Six rows at a time
// keep their sums in registers; the rest is computed row by row.
func tileDots(x *build.Context) {
	pairKernel(x, "tileDots", "func(t *float32, x *uint16, w *uint32, n, pairs, ldx int)",
		"tileDotsAVX512BF16 sets n ≥ 1 rows of 64 columns of t to x·w; rows of x are pairs ≥ 1 pairs, ldx bytes apart, and",
		"rows of w 64 pairs.")
	t, from, w, n, pairs, ldx := reg.RDI, reg.RSI, reg.RDX, reg.R8, reg.RBX, reg.RCX
	for _, p := range []struct {
		name string
		r    reg.Register
	}{{"t", t}, {"x", from}, {"w", w}, {"n", n}, {"pairs", pairs}, {"ldx", ldx}} {
		x.Load(x.Param(p.name), p.r)
	}
	low, high, panel, left := reg.R10, reg.R11, reg.RAX, reg.R12
	const most, first = 6, 6 * tileVectors
	rows := func(rows int) {
		for r := range vectors32[:rows*tileVectors] {
			x.VPXORD(vectors32[r], vectors32[r], vectors32[r])
		}
		x.MOVQ(from, low)
		x.LEAQ(asm.Indexed(from, ldx, 2, 0), high)
		x.ADDQ(ldx, high)
		x.MOVQ(w, panel)
		x.MOVQ(pairs, left)
		pair := fmt.Sprintf("pair%d", rows)
		x.Label(pair)
		for i := range tileVectors {
			x.VMOVUPS(asm.At(panel, 64*i), vectors32[first+i])
		}
		for r := range rows {
			p := []reg.Register{low, high}[r/3]
			m := asm.At(p, 0)
			if r%3 > 0 {
				m = asm.Indexed(p, ldx, uint8(r%3), 0)
			}
			factor := first + tileVectors + r%2
			x.VBROADCASTSS(m, vectors32[factor])
			for i := range tileVectors {
				multiplyPairs(x, r*tileVectors+i, factor, first+i)
			}
		}
		x.ADDQ(operand.Imm(4), low)
		x.ADDQ(operand.Imm(4), high)
		x.ADDQ(operand.U32(64*tileVectors), panel)
		x.DECQ(left)
		x.JNZ(operand.LabelRef(pair))
		for r := range vectors32[:rows*tileVectors] {
			x.VMOVUPS(vectors32[r], asm.At(t, 64*r))
		}
		x.ADDQ(operand.U32(uint32(64*tileVectors*rows)), t)
	}
	x.Label("block")
	x.CMPQ(n, operand.Imm(most))
	x.JLT(operand.LabelRef("rest"))
	rows(most)
	x.LEAQ(asm.Indexed(from, ldx, 4, 0), from)
	x.LEAQ(asm.Indexed(from, ldx, 2, 0), from)
	x.SUBQ(operand.Imm(most), n)
	x.JMP(operand.LabelRef("block"))
	x.Label("rest")
	x.TESTQ(n, n)
	x.JZ(operand.LabelRef("done"))
	rows(1)
	x.ADDQ(ldx, from)
	x.DECQ(n)
	x.JMP(operand.LabelRef("rest"))
	x.Label("done")
	x.VZEROUPPER()
	x.RET()
}

// tileOuter adds the products of pairs of rows of a tile, which it forms on the way, and
// pairs of some columns of x.
func tileOuter(x *build.Context, height int, joinOrder operand.Mem) {
	pairKernel(x, fmt.Sprintf("tileOuter%d", height), "func(c *float32, x *uint32, t *uint16, pairs, ldx, ldc, cols int)",
		fmt.Sprintf("tileOuter%dAVX512BF16 adds xᵀ·t to %d rows of c, cols ≤ 32 columns, for pairs ≥ 1 of rows of t; x are their pairs.", height, height),
		"Distances of rows are in bytes.")
	c, from, t, pairs, ldx, ldc := reg.RDI, reg.RSI, reg.RDX, reg.R8, reg.RCX, reg.R9
	for _, p := range []struct {
		name string
		r    reg.Register
	}{{"c", c}, {"x", from}, {"t", t}, {"pairs", pairs}, {"ldx", ldx}, {"ldc", ldc}, {"cols", reg.RBX}} {
		x.Load(x.Param(p.name), p.r)
	}
	masks := []reg.Register{reg.K1, reg.K2}
	x.MOVQ(operand.I64(-1), reg.RAX)
	x.BZHIQ(reg.RBX, reg.RAX, reg.RAX)
	x.KMOVW(reg.EAX, reg.K1)
	x.SHRQ(operand.Imm(16), reg.RAX)
	x.KMOVW(reg.EAX, reg.K2)
	order, row, joined, factor := reg.Z20, []reg.VecPhysical{reg.Z21, reg.Z22}, 25, 27
	x.VMOVUPS(joinOrder, order)
	x.MOVQ(c, reg.RAX)
	for r := range height {
		for i := range masks {
			x.VMOVUPS_Z(asm.At(reg.RAX, 64*i), masks[i], vectors32[2*r+i])
		}
		x.ADDQ(ldc, reg.RAX)
	}
	x.Label("pair")
	for i, r := range row {
		x.VMOVDQU64(asm.At(t, 32*i), r.AsY())
		x.VINSERTI64X4(operand.Imm(1), asm.At(t, 2*tileColumns+32*i), r, r)
		x.VPERMW(r, order, vectors32[joined+i])
	}
	for r := range height {
		x.VBROADCASTSS(asm.At(from, 4*r), vectors32[factor+r%2])
		for i := range 2 {
			multiplyPairs(x, 2*r+i, factor+r%2, joined+i)
		}
	}
	x.ADDQ(operand.U32(2*2*tileColumns), t)
	x.ADDQ(ldx, from)
	x.DECQ(pairs)
	x.JNZ(operand.LabelRef("pair"))
	for r := range height {
		for i := range masks {
			x.VMOVUPS(vectors32[2*r+i], masks[i], asm.At(c, 64*i))
		}
		x.ADDQ(ldc, c)
	}
	x.VZEROUPPER()
	x.RET()
}

// tileGather computes the gradient of a distinct row: float32 sums over the rows in which
// it occurs, of even columns and of odd ones, rounded once.
func tileGather(x *build.Context, joinOrder operand.Mem) {
	pairKernel(x, "tileGather", "func(t, x *uint16, at, ends *uint32, n int)",
		"tileGatherAVX512BF16 sets n ≥ 1 rows of 64 values of t to the sums of the rows of x that at lists, for row i from",
		"ends[i−1] up to ends[i].")
	t, from, at, ends, n := reg.RDI, reg.RSI, reg.RDX, reg.RBX, reg.R8
	for _, p := range []struct {
		name string
		r    reg.Register
	}{{"t", t}, {"x", from}, {"at", at}, {"ends", ends}, {"n", n}} {
		x.Load(x.Param(p.name), p.r)
	}
	list, end, place := reg.R9, reg.R10, reg.R11
	x.MOVQ(at, list)
	x.VMOVUPS(joinOrder, reg.Z31)
	x.MOVL(operand.U32(0xffff0000), reg.EAX)
	x.VPBROADCASTD(reg.EAX, reg.Z30)
	sum := vectors32[:4] // of columns 0, 2, …, of 1, 3, …, and the same of the upper half
	x.Label("row")
	for _, s := range sum {
		x.VPXORD(s, s, s)
	}
	x.MOVL(asm.At(ends, 0), reg.R10L)
	x.LEAQ(asm.Indexed(at, end, 4, 0), end)
	x.CMPQ(list, end)
	x.JGE(operand.LabelRef("store"))
	x.Label("next")
	x.MOVL(asm.At(list, 0), reg.R11L)
	x.SHLQ(operand.Imm(7), place)
	for i := range 2 {
		pairs, even, odd := vectors32[4+3*i], vectors32[5+3*i], vectors32[6+3*i]
		x.VMOVUPS(asm.Indexed(from, place, 1, 64*i), pairs)
		x.VPSLLD(operand.Imm(16), pairs, even)
		x.VPANDD(reg.Z30, pairs, odd)
		x.VADDPS(even, sum[2*i], sum[2*i])
		x.VADDPS(odd, sum[2*i+1], sum[2*i+1])
	}
	x.ADDQ(operand.Imm(4), list)
	x.CMPQ(list, end)
	x.JLT(operand.LabelRef("next"))
	x.Label("store")
	for i := range 2 {
		toHalf(x, sum[2*i], sum[2*i+1], sum[2*i])
		x.VPERMW(sum[2*i], reg.Z31, sum[2*i])
		x.VMOVUPS(sum[2*i], asm.At(t, 64*i))
	}
	x.ADDQ(operand.U32(2*tileColumns), t)
	x.ADDQ(operand.Imm(4), ends)
	x.DECQ(n)
	x.JNZ(operand.LabelRef("row"))
	x.VZEROUPPER()
	x.RET()
}

// joinOrder returns the indices that put the words of two rows of 16 in the order of their
// pairs.
func joinOrder(x *build.Context) operand.Mem {
	m := x.StaticGlobal("joinOrder")
	x.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 16 {
		x.AddDatum(4*i, operand.U32(uint32(i|(16+i)<<16)))
	}
	return m
}
