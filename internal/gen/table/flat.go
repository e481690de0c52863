package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/wdlrun/wdlrun/internal/gen/asm"
)

// flatPointers asks for what leads to the slots of keys whose hashes are given.
func flatPointers(x *build.Context) {
	x.Function("prefetchPointers")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("prefetchPointers asks for the pointers, from flat on, with the numbers hash >> shift, for n > 0 hashes.")
	x.SignatureExpr("func(hashes *uint64, n, shift int, flat *byte)")
	hashes, n, shift, begin := asm.Param(x, "hashes"), asm.Param(x, "n"), asm.Param(x, "shift"), asm.Param(x, "flat")
	i, shard := x.GP64(), x.GP64()
	x.XORQ(i, i)
	x.Label("hash")
	x.SHRXQ(shift, asm.Indexed(hashes, i, 8, 0), shard)
	x.PREFETCHT0(asm.Indexed(begin, shard, 8, 0))
	x.INCQ(i)
	x.CMPQ(i, n)
	x.JLT(operand.LabelRef("hash"))
	x.RET()
}

// flatSlots follows those pointers and asks for the slots.
func flatSlots(x *build.Context) {
	x.Function("prefetchSlots12")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("prefetchSlots12 writes the addresses of the items of 12 bytes with the numbers hash & mask, from pointers flat[hash>>shift] on, and their masks, and asks for the items, for n > 0 hashes.")
	x.SignatureExpr("func(starts **byte, begins *uint16, hashes *uint64, n, shift int, flat *byte, masks *uint16)")
	starts, begins, hashes, n := asm.Param(x, "starts"), asm.Param(x, "begins"), asm.Param(x, "hashes"), asm.Param(x, "n")
	shift, begin, masks := asm.Param(x, "shift"), asm.Param(x, "flat"), asm.Param(x, "masks")
	i, h, shard, mask, at := x.GP64(), x.GP64(), x.GP64(), x.GP64(), x.GP64()
	x.XORQ(i, i)
	x.Label("hash")
	x.MOVQ(asm.Indexed(hashes, i, 8, 0), h)
	x.SHRXQ(shift, h, shard)
	x.MOVWQZX(asm.Indexed(masks, shard, 2, 0), mask)
	x.MOVQ(asm.Indexed(begin, shard, 8, 0), at)
	x.MOVW(mask.As16(), asm.Indexed(begins, i, 2, 0))
	x.ANDQ(mask, h)
	x.LEAQ(asm.Indexed(h, h, 2, 0), h)
	x.LEAQ(asm.Indexed(at, h, 4, 0), at)
	x.PREFETCHT0(asm.At(at, 0))
	x.PREFETCHT0(asm.At(at, 11)) // one in eight lies on two lines
	x.MOVQ(at, asm.Indexed(starts, i, 8, 0))
	x.INCQ(i)
	x.CMPQ(i, n)
	x.JLT(operand.LabelRef("hash"))
	x.RET()
}
