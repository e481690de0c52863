package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// heights returns the heights of the blocks of each width. A block of h rows and two
// vectors keeps 2h sums in registers, with two vectors of b and one broadcast factor of a:
// 14 rows fill the 32 registers of AVX-512, 6 the 16 of AVX2. Smaller heights cover the
// rest of a matrix.
func heights(v vec) []int {
	if v.wide() {
		return []int{14, 10, 8, 4, 2, 1}
	}
	return []int{6, 4, 2, 1}
}

// product writes the blocks of the matrix products. Every element is the chain of fused
// multiply-adds over ascending k, in every block.
func product(x *build.Context) {
	maskTable(x)
	for _, v := range vectors(x) {
		for _, h := range heights(v) {
			for _, n := range []int{2, 1} {
				dot(&block{vec: v, rows: h, vecs: n})
				outer(&block{vec: v, rows: h, vecs: n})
			}
		}
		columnSums(v, 4)
		columnSums(v, 1)
		peak(v)
	}
}

// block is a block of rows×vecs vectors of the result c. One vector is masked, two are
// full.
type block struct {
	vec
	rows, vecs int
	sum        [][]reg.VecVirtual // rows×vecs
	b          []reg.VecVirtual
}

func (k *block) begin(name, signature, doc string) {
	k.function(fmt.Sprintf("%s%dx%d", name, k.rows, k.vecs), signature, doc)
	k.sum, k.b = make([][]reg.VecVirtual, k.rows), k.regs(k.vecs)
	for r := range k.sum {
		k.sum[r] = k.regs(k.vecs)
	}
	if k.vecs == 1 {
		k.mask(k.param("cols"))
	}
}

// dot computes c = max(init + a·b, floor), set to 0 where gate is 0. Rows of a are lda
// floats apart, so a needs no packing; b is a packed panel.
func dot(k *block) {
	k.begin("dot", "func(c, a, b, init, gate *float32, k, lda, ldc, cols int, floor float32)",
		"sets a block of c to max(init + a·b, floor), and to 0 where gate is 0.")
	c, b, ldc := k.param("c"), k.param("b"), k.floats("ldc")
	a, lda := k.rowPointers()
	init, count := k.param("init"), k.param("k")

	for _, s := range k.sum[0] {
		k.clear(s)
	}
	k.TESTQ(init, init)
	k.JZ(k.label("start"))
	for i, s := range k.sum[0] {
		k.load(asm.At(init, i*k.bytes()), s)
	}
	k.Label("start")
	for _, row := range k.sum[1:] {
		for i, s := range row {
			k.VMOVAPS(k.sum[0][i], s)
		}
	}
	k.ahead(c, ldc, count, func() {
		for i, r := range k.b {
			k.VMOVUPS(asm.At(b, i*k.bytes()), r)
		}
		for r := range k.rows {
			m := asm.At(a[r/3], 0)
			if r%3 > 0 {
				m = asm.Indexed(a[r/3], lda, uint8(r%3), 0)
			}
			k.multiply(r, m)
		}
		for _, p := range a {
			k.ADDQ(operand.Imm(4), p)
		}
		k.ADDQ(operand.Imm(uint64(k.vecs*k.bytes())), b)
	})
	k.finish(c, ldc)
}

// ahead writes the loop over k, with body as the work of one iteration. The first
// iterations prefetch the rows of the block and of the gate in turn, each vector at its
// end, because the line of its start came with the previous columns. In large products
// these lines are in no near cache, and too far apart for the hardware prefetcher.
func (k *block) ahead(c, ldc, count reg.GPVirtual, body func()) {
	row, other, after, turns := k.GP64(), k.param("gate"), k.GP64(), k.GP64()
	k.CMPQ(count, operand.Imm(uint64(4*k.rows)))
	k.JLT(k.label("loop"))
	k.MOVQ(c, row)
	k.TESTQ(other, other)
	k.JNZ(k.label("both"))
	k.MOVQ(c, other)
	k.Label("both")
	k.MOVQ(operand.I32(int32(2*k.rows)), turns)
	k.SUBQ(turns, count)
	k.Label("ahead")
	for i := range k.vecs {
		k.PREFETCHT0(asm.At(row, (i+1)*k.bytes()-4))
	}
	k.LEAQ(asm.Indexed(row, ldc, 1, 0), after)
	k.MOVQ(other, row)
	k.MOVQ(after, other)
	body()
	k.DECQ(turns)
	k.JNZ(k.label("ahead"))
	k.Label("loop")
	body()
	k.DECQ(count)
	k.JNZ(k.label("loop"))
}

// rowPointers returns a pointer to every third row of a and the distance of rows in bytes.
// An address can reach two rows past its base.
func (k *block) rowPointers() (a []reg.GPVirtual, lda reg.GPVirtual) {
	a, lda = []reg.GPVirtual{k.param("a")}, k.floats("lda")
	for r := 3; r < k.rows; r += 3 {
		next := k.GP64()
		k.LEAQ(asm.Indexed(a[len(a)-1], lda, 2, 0), next)
		k.ADDQ(lda, next)
		a = append(a, next)
	}
	return a, lda
}

// multiply adds the product of one factor of a and the vectors of b to a row.
func (k *block) multiply(r int, factor operand.Mem) {
	if k.vecs == 1 && k.wide() {
		k.VFMADD231PS_BCST(factor, k.b[0], k.sum[r][0])
		return
	}
	f := k.reg()
	k.VBROADCASTSS(factor, f)
	for i, b := range k.b {
		k.VFMADD231PS(b, f, k.sum[r][i])
	}
}

// finish stores the block with the floor and the gate.
func (k *block) finish(c, ldc reg.GPVirtual) {
	// The comparison returns its second operand if either is a NaN.
	floor := k.broadcast("floor")
	gate := k.param("gate")
	k.TESTQ(gate, gate)
	k.JNZ(k.label("gated"))
	for _, row := range k.sum {
		for i, s := range row {
			k.VMAXPS(s, floor, s)
			k.store(s, asm.At(c, i*k.bytes()))
		}
		k.ADDQ(ldc, c)
	}
	k.end()

	k.Label("gated")
	const notEqualOrNaN = 4
	zero := k.zero()
	for _, row := range k.sum {
		for i, s := range row {
			open := k.reg()
			k.load(asm.At(gate, i*k.bytes()), open)
			k.zeroUnless(s, notEqualOrNaN, open, zero)
			k.store(s, asm.At(c, i*k.bytes()))
		}
		k.ADDQ(ldc, c)
		k.ADDQ(ldc, gate)
	}
	k.end()
}

// outer computes c += aᵀ·b: a sum over the rows of a and b, with neither packed.
func outer(k *block) {
	k.begin("outer", "func(c, a, b *float32, k, lda, ldb, ldc, cols int)", "adds aᵀ·b to a block of c.")
	c, a, b, count := k.param("c"), k.param("a"), k.param("b"), k.param("k")
	lda, ldb, ldc := k.floats("lda"), k.floats("ldb"), k.floats("ldc")
	p := k.GP64()
	k.MOVQ(c, p)
	for _, row := range k.sum {
		for i, s := range row {
			k.load(asm.At(p, i*k.bytes()), s)
		}
		k.ADDQ(ldc, p)
	}
	for range k.rows {
		for i := range k.vecs {
			k.PREFETCHT0(asm.At(p, i*k.bytes()))
		}
		k.ADDQ(ldc, p)
	}
	k.Label("loop")
	for i, r := range k.b {
		k.load(asm.At(b, i*k.bytes()), r)
	}
	for r := range k.rows {
		k.multiply(r, asm.At(a, 4*r))
	}
	k.ADDQ(lda, a)
	k.ADDQ(ldb, b)
	k.DECQ(count)
	k.JNZ(k.label("loop"))
	for _, row := range k.sum {
		for i, s := range row {
			k.store(s, asm.At(c, i*k.bytes()))
		}
		k.ADDQ(ldc, c)
	}
	k.end()
}

// columnSums adds the rows of a to sum: n full vectors of columns, or a masked one. Each
// vector is a chain of additions, so four of them hide the latency.
func columnSums(v vec, n int) {
	v.function(fmt.Sprintf("columnSums%d", n), "func(sum, a *float32, rows, lda, cols int)",
		"adds rows ≥ 1 rows of a, lda floats apart, to a vector of sums.")
	sum, a, rows, lda := v.param("sum"), v.param("a"), v.param("rows"), v.floats("lda")
	if n == 1 {
		v.mask(v.param("cols"))
	}
	s, row := v.regs(n), v.regs(n)
	for i := range s {
		v.load(asm.At(sum, i*v.bytes()), s[i])
	}
	v.Label("loop")
	for i := range s {
		v.load(asm.At(a, i*v.bytes()), row[i])
		v.VADDPS(row[i], s[i], s[i])
	}
	v.ADDQ(lda, a)
	v.DECQ(rows)
	v.JNZ(v.label("loop"))
	for i := range s {
		v.store(s[i], asm.At(sum, i*v.bytes()))
	}
	v.end()
}

// peakChains is the number of independent sums that keep both multiply-add units busy.
const peakChains = 12

// peak runs multiply-adds on registers only.
func peak(v vec) {
	v.function("peak", "func(n int)", "executes n times 12 fused multiply-adds that wait for nothing.")
	n, sums, f := v.param("n"), v.regs(peakChains), v.zero()
	for _, s := range sums {
		v.clear(s)
	}
	v.Label("loop")
	for _, s := range sums {
		v.VFMADD231PS(f, f, s)
	}
	v.DECQ(n)
	v.JNZ(v.label("loop"))
	v.end()
}
