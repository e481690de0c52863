package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// wideCut is cut with the masks and the compression of AVX-512: eight fields per store.
func wideCut(x *build.Context) {
	x.Function("cutAVX512")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("cutAVX512 does what cutAVX2 does. steps are the numbers 0 to 63.")
	x.SignatureExpr("func(fields *int32, most int, line *byte, n int, delim byte, steps *byte) (found int, blanks uint64)")
	c := wideCutter{
		Context: x, fields: asm.Param(x, "fields"), most: asm.Param(x, "most"), line: asm.Param(x, "line"), n: asm.Param(x, "n"),
		found: x.GP64(), bits: x.GP64(), blank: x.GP64(), delim: x.ZMM(), space: x.ZMM(), steps: x.ZMM(), base: x.ZMM(),
	}
	delim, r := x.GP32(), x.GP64()
	x.Load(x.Param("delim"), delim)
	x.VPBROADCASTB(delim, c.delim)
	x.MOVQ(operand.U32(' '), r)
	x.VPBROADCASTB(r.As32(), c.space)
	x.VMOVDQU8(asm.At(asm.Param(x, "steps"), 0), c.steps)
	x.MOVQ(operand.U64(1<<32), r)
	x.VPBROADCASTQ(r, c.base) // the end of one field and the start of the next
	block := x.ZMM()
	x.MOVQ(operand.U64(64<<32+64), r)
	x.VPBROADCASTQ(r, block)
	x.XORQ(c.blank, c.blank)
	x.XORQ(c.found, c.found)

	base, after, skip := x.GP64(), x.GP64(), x.GP64()
	x.XORQ(base, base)
	x.Label("block")
	x.LEAQ(asm.At(base, 64), after)
	x.CMPQ(after, c.n)
	x.JGT(operand.LabelRef("tail"))
	c.look(base)
	c.put("whole")
	x.VPADDQ(block, c.base, c.base)
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
	c.put("rest")

	x.Label("done")
	x.VZEROUPPER()
	x.Store(c.found, x.ReturnIndex(0))
	x.Store(c.blank, x.ReturnIndex(1))
	x.RET()
}

// wideCutter holds the registers of cutAVX512.
type wideCutter struct {
	*build.Context
	fields, most, line, n, found, bits, blank reg.GPVirtual
	delim, space, steps, base                 reg.VecVirtual
}

// look compares 64 bytes from base on: it sets bits for the delimiter and blank for other
// blanks.
func (x wideCutter) look(base reg.Register) {
	v, same, least, others := x.ZMM(), x.K(), x.K(), x.GP64()
	x.VMOVDQU8(asm.Indexed(x.line, base, 1, 0), v)
	x.VPCMPEQB(v, x.delim, same)
	x.VPCMPUB(operand.Imm(2), x.space, v, least)
	x.KMOVQ(same, x.bits)
	x.KMOVQ(least, others)
	x.ANDNQ(others, x.bits, others)
	x.ORQ(others, x.blank)
}

// put stores the positions, from base on, of the delimiters in bits.
func (x wideCutter) put(name string) {
	n, to, mask, at, pair, high := x.GP64(), x.GP64(), x.K(), x.ZMM(), x.ZMM(), x.ZMM()
	x.KMOVQ(x.bits, mask)
	x.POPCNTQ(x.bits, n)
	x.LEAQ(asm.Indexed(x.fields, x.found, 8, 4), to)
	x.ADDQ(n, x.found)
	x.VPCOMPRESSB_Z(x.steps, mask, at)
	x.Label(name)
	x.VPMOVZXBQ(at.AsX(), pair)
	x.VPSLLQ(operand.Imm(32), pair, high)
	x.VPADDQ(x.base, pair, pair)
	x.VPADDQ(high, pair, pair)
	x.VMOVDQU64(pair, asm.At(to, 0))
	x.VALIGNQ(operand.Imm(1), at, at, at)
	x.ADDQ(operand.Imm(64), to)
	x.SUBQ(operand.Imm(8), n)
	x.JG(operand.LabelRef(name))
}
