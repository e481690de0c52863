package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// pools writes the pooled gather of embeddings and its backward.
func pools(x *build.Context) {
	maskTable(x)
	for _, v := range vectors(x) {
		for _, weighted := range []bool{false, true} {
			(&bags{span: span{vec: v}, weighted: weighted}).pool()
			(&bags{span: span{vec: v}, weighted: weighted}).grad()
		}
		(&singles{v: v}).pool()
		(&singles{v: v}).grad()
	}
}

// bags are ranges of a list of rows. The rows of bag b are at[offsets[b]] to at[offsets[b+1]],
// in floats from the start of a matrix.
type bags struct {
	span
	weighted bool

	matrix, n, offsets, at, coefs reg.GPVirtual
	first, next, last, element    reg.GPVirtual // of the current bag
	side, stride, dim             reg.GPVirtual // the bags' own values; bytes
}

// bagsAhead is how many bags ahead a bag and its first row are prefetched. Rows that
// several bags share are in the second-level cache at best. Bags are a stride apart, which
// no hardware prefetcher predicts beyond a page.
const bagsAhead = 8

func (b *bags) begin(name, doc string) {
	if b.weighted {
		name += "Weighted"
	}
	b.function(name, "func(matrix, bags *float32, stride, n, dim int, offsets *int32, at *uint32, coefs *float32, add int)", doc)
	b.matrix, b.n = b.param("matrix"), b.param("n")
	b.side, b.stride = b.param("bags"), b.floats("stride")
	b.offsets, b.at, b.coefs = b.param("offsets"), b.param("at"), b.param("coefs")
	b.first, b.next, b.last, b.element = b.GP64(), b.GP64(), b.GP64(), b.GP64()
	b.dim = b.split("dim")
}

// bag loads the bounds of the next bag.
func (b *bags) bag() {
	b.prefetch()
	b.MOVLQSX(asm.At(b.offsets, 0), b.first)
	b.MOVLQSX(asm.At(b.offsets, 4), b.last)
	b.ADDQ(operand.Imm(4), b.offsets)
}

// prefetch prefetches the bag that is bagsAhead further, and its first row, both
// completely.
func (b *bags) prefetch() {
	b.CMPQ(b.n, operand.Imm(bagsAhead))
	b.JLE(b.label("near"))
	b.MOVLQSX(asm.At(b.offsets, 4*bagsAhead), b.element)
	b.CMPL(b.element.As32(), asm.At(b.offsets, 4*bagsAhead+4))
	b.JGE(b.label("near")) // an empty bag, perhaps after the last index
	b.MOVL(asm.Indexed(b.at, b.element, 4, 0), b.element.As32())
	b.LEAQ(asm.Indexed(b.matrix, b.element, 4, 0), b.element)
	b.PREFETCHT0(asm.At(b.element, 0))
	b.PREFETCHT0(asm.Indexed(b.element, b.dim, 1, -4))
	b.LEAQ(asm.Indexed(b.side, b.stride, bagsAhead, 0), b.element)
	b.PREFETCHT0(asm.At(b.element, 0))
	b.PREFETCHT0(asm.Indexed(b.element, b.dim, 1, -4))
	b.Label("near")
}

// row sets element to the next element's row and returns its coefficient.
func (b *bags) row() (coef reg.VecVirtual) {
	b.MOVL(asm.Indexed(b.at, b.next, 4, 0), b.element.As32())
	b.LEAQ(asm.Indexed(b.matrix, b.element, 4, 0), b.element)
	if b.weighted {
		coef = b.reg()
		b.VBROADCASTSS(asm.Indexed(b.coefs, b.next, 4, 0), coef)
	}
	return coef
}

// pool sums the rows of each bag.
func (b *bags) pool() {
	b.begin("pool", "sets each of n ≥ 1 bags to the sum of its rows of dim ≥ 1 values, or adds it.")
	dst, add := b.side, b.param("add")
	b.Label("bag")
	b.bag()
	columns := 0
	b.columns("column", func() {
		columns++
		loop, start, done := b.label("element%d", columns), b.label("start%d", columns), b.label("done%d", columns)
		sum := b.zero()
		b.TESTQ(add, add)
		b.JZ(start)
		b.load(asm.Indexed(dst, b.span.at, 1, 0), sum)
		b.Label(string(start))
		b.MOVQ(b.first, b.next)
		b.CMPQ(b.next, b.last)
		b.JGE(done)
		b.Label(string(loop))
		coef := b.row()
		r := b.get(b.element)
		if b.weighted {
			b.VMULPS(coef, r, r)
		}
		b.VADDPS(r, sum, sum)
		b.INCQ(b.next)
		b.CMPQ(b.next, b.last)
		b.JLT(loop)
		b.Label(string(done))
		b.put(sum, dst)
	})
	b.ADDQ(b.stride, dst)
	b.DECQ(b.n)
	b.JNZ(b.label("bag"))
	b.span.end()
}

// grad adds the gradient of each bag to its rows.
func (b *bags) grad() {
	b.begin("poolGrad", "adds each of n ≥ 1 bags to its rows of dim ≥ 1 values. add is not used.")
	src := b.side
	b.Label("bag")
	b.bag()
	b.MOVQ(b.first, b.next)
	b.CMPQ(b.next, b.last)
	b.JGE(b.label("done"))
	b.Label("element")
	coef := b.row()
	b.columns("column", func() {
		r, sum := b.get(src), b.get(b.element)
		if b.weighted {
			b.VMULPS(coef, r, r)
		}
		b.VADDPS(r, sum, sum)
		b.put(sum, b.element)
	})
	b.INCQ(b.next)
	b.CMPQ(b.next, b.last)
	b.JLT(b.label("element"))
	b.Label("done")
	b.ADDQ(b.stride, src)
	b.DECQ(b.n)
	b.JNZ(b.label("bag"))
	b.span.end()
}
