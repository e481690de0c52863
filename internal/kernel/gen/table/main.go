// Command table writes the assembly of package sparse/table:
//
//	go -C internal/kernel/gen run ./table
package main

import (
	"log"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

func main() {
	f := asm.File{Package: "table", Name: "fetch", Body: func(x *build.Context) {
		prefetch(x)
		prefetchSlots(x)
		locate(x)
		locateMarked(x)
		locateEights(x)
		copyRows(x)
		gather(x)
		hashKeys(x)
		matchKeys(x)
		flatPointers(x)
		flatBuckets(x)
		flatMatch(x)
		normals(x)
	}}
	if err := f.Write("../../../sparse"); err != nil {
		log.Fatal(err)
	}
}

// prefetch prefetches the lines at n addresses.
func prefetch(x *build.Context) {
	x.Function("prefetchLines")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("prefetchLines asks for the lines at disp bytes from n > 0 addresses.")
	x.SignatureExpr("func(addrs **byte, n, disp int)")
	addrs, n, disp, p := asm.Param(x, "addrs"), asm.Param(x, "n"), asm.Param(x, "disp"), x.GP64()
	x.Label("next")
	x.MOVQ(asm.At(addrs, 0), p)
	x.PREFETCHT0(asm.Indexed(p, disp, 1, 0))
	x.ADDQ(operand.Imm(8), addrs)
	x.DECQ(n)
	x.JNZ(operand.LabelRef("next"))
	x.RET()
}

// prefetchSlots prefetches the slots of n hashes in a table of 16-byte slots.
func prefetchSlots(x *build.Context) {
	x.Function("prefetchSlots16")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("prefetchSlots16 asks for the items of 16 bytes, from base on, with the numbers hash & mask, for n > 0 hashes.")
	x.SignatureExpr("func(base *byte, mask uint64, hashes *uint64, n int)")
	base, mask, hashes, n, p := asm.Param(x, "base"), asm.Param(x, "mask"), asm.Param(x, "hashes"), asm.Param(x, "n"), x.GP64()
	x.Label("next")
	x.MOVQ(asm.At(hashes, 0), p)
	x.ANDQ(mask, p)
	x.SHLQ(operand.Imm(4), p)
	x.PREFETCHT0(asm.Indexed(base, p, 1, 0))
	x.ADDQ(operand.Imm(8), hashes)
	x.DECQ(n)
	x.JNZ(operand.LabelRef("next"))
	x.RET()
}

// ahead is how many rows ahead a row is prefetched: more than the lines that a core can
// wait for at once, fewer than its first cache holds.
const ahead = 32

// gather copies n rows of any number of floats to a matrix: vectors of 8, then single
// values. With each row it prefetches the lines of a later one, so that the core always
// waits for as many as it can.
func gather(x *build.Context) {
	x.Function("gatherRows")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("gatherRows copies width > 0 bytes, a multiple of 4, from each of n > 0 addresses to dst, dst+stride, … With each but the last silent ones it asks for what lies at a later one.")
	x.SignatureExpr("func(dst *byte, stride int, addrs **byte, n, silent, width int)")
	dst, stride, addrs, n, width := asm.Param(x, "dst"), asm.Param(x, "stride"), asm.Param(x, "addrs"), asm.Param(x, "n"), asm.Param(x, "width")
	silent := asm.Param(x, "silent")
	p, at, after, word := x.GP64(), x.GP64(), x.GP64(), x.GP32()
	half, whole := x.XMM(), x.YMM()

	span := x.GP64()
	x.MOVQ(width, span) // at most four lines are prefetched
	x.CMPQ(span, operand.U32(256))
	x.JLE(operand.LabelRef("row"))
	x.MOVQ(operand.U32(256), span)

	x.Label("row")
	x.CMPQ(n, silent)
	x.JLE(operand.LabelRef("near"))
	x.MOVQ(asm.At(addrs, 8*ahead), p)
	x.XORQ(at, at)
	x.Label("line")
	x.PREFETCHT0(asm.Indexed(p, at, 1, 0))
	x.ADDQ(operand.Imm(64), at)
	x.CMPQ(at, span)
	x.JLT(operand.LabelRef("line"))
	x.PREFETCHT0(asm.Indexed(p, span, 1, -1))
	x.Label("near")
	x.MOVQ(asm.At(addrs, 0), p)
	x.XORQ(at, at)
	x.Label("eight")
	x.LEAQ(asm.At(at, 32), after)
	x.CMPQ(after, width)
	x.JGT(operand.LabelRef("four"))
	x.VMOVUPS(asm.Indexed(p, at, 1, 0), whole)
	x.VMOVUPS(whole, asm.Indexed(dst, at, 1, 0))
	x.MOVQ(after, at)
	x.JMP(operand.LabelRef("eight"))
	x.Label("four")
	x.LEAQ(asm.At(at, 16), after)
	x.CMPQ(after, width)
	x.JGT(operand.LabelRef("one"))
	x.VMOVUPS(asm.Indexed(p, at, 1, 0), half)
	x.VMOVUPS(half, asm.Indexed(dst, at, 1, 0))
	x.MOVQ(after, at)
	x.Label("one")
	x.CMPQ(at, width)
	x.JGE(operand.LabelRef("end"))
	x.MOVL(asm.Indexed(p, at, 1, 0), word)
	x.MOVL(word, asm.Indexed(dst, at, 1, 0))
	x.ADDQ(operand.Imm(4), at)
	x.JMP(operand.LabelRef("one"))
	x.Label("end")
	x.ADDQ(stride, dst)
	x.ADDQ(operand.Imm(8), addrs)
	x.DECQ(n)
	x.JNZ(operand.LabelRef("row"))
	x.VZEROUPPER()
	x.RET()
}
