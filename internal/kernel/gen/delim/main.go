// Command delim writes the assembly of package internal/kernel/delim:
//
//	go -C internal/kernel/gen run ./delim
package main

import (
	"log"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

func main() {
	f := asm.File{Package: "delim", Name: "cut", Body: func(x *build.Context) {
		cut(x)
		wideCut(x)
	}}
	if err := f.Write(".."); err != nil {
		log.Fatal(err)
	}
}

// atOnce is how many delimiters are stored before the check for more. Most blocks of 64
// bytes have no more, so the branch is predictable.
const atOnce = 8

// cut processes 64 bytes at a time. The last 64 may overlap the block before.
func cut(x *build.Context) {
	x.Function("cutAVX2")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("cutAVX2 finds the delimiters in n ≥ 64 bytes: the i-th, at p, is stored as p and p+1 in words 2i+1 and 2i+2 of fields.",
		"It stops behind a block with which there are more than most of them, and may write up to 72 pairs more than that.",
		"blanks is not 0 if other bytes are at most a space.")
	x.SignatureExpr("func(fields *int32, most int, line *byte, n int, delim byte) (found int, blanks uint8)")
	c := cutter{
		Context: x, fields: asm.Param(x, "fields"), most: asm.Param(x, "most"), line: asm.Param(x, "line"), n: asm.Param(x, "n"),
		found: x.GP64(), bits: x.GP64(), delim: x.YMM(), space: x.YMM(), blank: x.YMM(),
	}
	delim, space := x.GP32(), x.GP32()
	x.Load(x.Param("delim"), delim)
	c.spread(delim, c.delim)
	x.MOVL(operand.U32(' '), space)
	c.spread(space, c.space)
	x.VPXOR(c.blank, c.blank, c.blank)
	x.XORQ(c.found, c.found)

	base, after, skip := x.GP64(), x.GP64(), x.GP64()
	x.XORQ(base, base)
	x.Label("block")
	x.LEAQ(asm.At(base, 64), after)
	x.CMPQ(after, c.n)
	x.JGT(operand.LabelRef("tail"))
	c.look(base)
	c.put("whole", base)
	x.MOVQ(after, base)
	x.CMPQ(c.found, c.most)
	x.JLE(operand.LabelRef("block"))
	x.JMP(operand.LabelRef("done"))

	x.Label("tail")
	x.CMPQ(base, c.n)
	x.JGE(operand.LabelRef("done"))
	x.MOVQ(base, skip)
	x.MOVQ(c.n, base)
	x.SUBQ(operand.Imm(64), base)
	x.SUBQ(base, skip)
	c.look(base)
	x.SHRXQ(skip, c.bits, c.bits)
	x.ADDQ(skip, base)
	c.put("rest", base)

	x.Label("done")
	blanks := x.GP8()
	x.VPTEST(c.blank, c.blank)
	x.SETNE(blanks)
	x.VZEROUPPER()
	x.Store(c.found, x.ReturnIndex(0))
	x.Store(blanks, x.ReturnIndex(1))
	x.RET()
}

// cutter holds the registers of cutAVX2.
type cutter struct {
	*build.Context
	fields, most, line, n, found, bits reg.GPVirtual
	delim, space, blank                reg.VecVirtual
}

// spread sets all bytes of v to the lowest of r.
func (x cutter) spread(r reg.GPVirtual, v reg.VecVirtual) {
	low := x.XMM()
	x.VMOVD(r, low)
	x.VPBROADCASTB(low, v)
}

// look compares 64 bytes from base on: it sets bits for the delimiter and blank for other
// blanks.
func (x cutter) look(base reg.Register) {
	high := x.GP64()
	for i, to := range []reg.GPVirtual{x.bits, high} {
		v, same, least := x.YMM(), x.YMM(), x.YMM()
		x.VMOVDQU(asm.Indexed(x.line, base, 1, 32*i), v)
		x.VPCMPEQB(v, x.delim, same)
		x.VPMINUB(v, x.space, least)
		x.VPCMPEQB(v, least, least)
		x.VPANDN(least, same, least)
		x.VPOR(least, x.blank, x.blank)
		x.VPMOVMSKB(same, to.As32())
	}
	x.SHLQ(operand.Imm(32), high)
	x.ORQ(high, x.bits)
}

// put stores the positions of the delimiters in bits. It changes bits.
func (x cutter) put(name string, base reg.Register) {
	n, to, at, next := x.GP64(), x.GP64(), x.GP64(), x.GP64()
	x.POPCNTQ(x.bits, n)
	x.LEAQ(asm.Indexed(x.fields, x.found, 8, 0), to)
	x.ADDQ(n, x.found)
	x.Label(name)
	for i := range atOnce {
		x.TZCNTQ(x.bits, at)
		x.BLSRQ(x.bits, x.bits)
		x.ADDQ(base, at)
		x.LEAQ(asm.At(at, 1), next)
		x.MOVL(at.As32(), asm.At(to, 8*i+4))
		x.MOVL(next.As32(), asm.At(to, 8*i+8))
	}
	x.ADDQ(operand.Imm(8*atOnce), to)
	x.TESTQ(x.bits, x.bits)
	x.JNZ(operand.LabelRef(name))
}
