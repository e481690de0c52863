package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// flatPointers prefetches the pointers to the buckets of keys with the given hashes.
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

// flatBuckets follows these pointers and prefetches the buckets.
func flatBuckets(x *build.Context) {
	x.Function("prefetchBuckets")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("prefetchBuckets writes the addresses of the lines of 64 bytes with the numbers hash & mask, from pointers flat[hash>>shift] on, and asks for the lines, for n > 0 hashes.")
	x.SignatureExpr("func(starts **byte, hashes *uint64, n, shift int, flat *byte, masks *uint16)")
	starts, hashes, n := asm.Param(x, "starts"), asm.Param(x, "hashes"), asm.Param(x, "n")
	shift, begin, masks := asm.Param(x, "shift"), asm.Param(x, "flat"), asm.Param(x, "masks")
	i, h, shard, mask := x.GP64(), x.GP64(), x.GP64(), x.GP64()
	x.XORQ(i, i)
	x.Label("hash")
	x.MOVQ(asm.Indexed(hashes, i, 8, 0), h)
	x.SHRXQ(shift, h, shard)
	x.MOVWQZX(asm.Indexed(masks, shard, 2, 0), mask)
	x.ANDQ(mask, h)
	x.SHLQ(operand.Imm(6), h)
	x.ADDQ(asm.Indexed(begin, shard, 8, 0), h)
	x.PREFETCHT0(asm.At(h, 0))
	x.MOVQ(h, asm.Indexed(starts, i, 8, 0))
	x.INCQ(i)
	x.CMPQ(i, n)
	x.JLT(operand.LabelRef("hash"))
	x.RET()
}

// flatMatch looks keys up in the buckets where their probing begins. The place of a key in
// its bucket is computed without a branch. It is 5, the marks' place, if no place has the
// key.
func flatMatch(x *build.Context) {
	x.Function("matchBuckets")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("matchBuckets writes the rows of n > 0 keys, at most 256: the row of each key that is in its bucket at starts, and 0 for others. It returns how many others the marks of their buckets have, writes which to missed, which has room for n, and returns the bits of all rows. Buckets are 5 keys of 8 bytes, 5 rows of 4, and a word with 16 marks in its high half.")
	x.SignatureExpr("func(keys, hashes *uint64, starts **byte, n int, rows *uint32, missed *byte) (others int, union uint32)")
	keys, hashes := asm.Param(x, "keys"), asm.Param(x, "hashes")
	starts, n, rows, missed := asm.Param(x, "starts"), asm.Param(x, "n"), asm.Param(x, "rows"), asm.Param(x, "missed")
	i, others, union, none := x.GP64(), x.GP64(), x.GP32(), x.GP32()
	at, key, place, last, row, h, marks := x.GP64(), x.GP64(), x.GP32(), x.GP32(), x.GP32(), x.GP64(), x.GP32()
	four, same := x.YMM(), x.YMM()
	x.XORQ(i, i)
	x.XORQ(others, others)
	x.XORL(union, union)
	x.XORL(none, none)
	x.Label("key")
	x.MOVQ(asm.Indexed(starts, i, 8, 0), at)
	x.MOVQ(asm.Indexed(keys, i, 8, 0), key)
	x.VPBROADCASTQ(asm.Indexed(keys, i, 8, 0), four)
	x.VPCMPEQQ(asm.At(at, 0), four, same)
	x.VMOVMSKPD(same, place)
	x.XORL(last, last)
	x.CMPQ(key, asm.At(at, 32))
	x.SETEQ(last.As8())
	x.SHLL(operand.Imm(4), last)
	x.LEAL(asm.Indexed(place.As64(), last.As64(), 1, 32), place)
	x.TZCNTL(place, place)
	x.MOVL(asm.Indexed(at, place.As64(), 4, 40), row)
	x.MOVQ(asm.Indexed(hashes, i, 8, 0), h)
	x.SHRQ(operand.Imm(16), h)
	x.ORL(operand.Imm(16), h.As32()) // only its low 5 bits count
	x.SHRXL(h.As32(), asm.At(at, 60), marks)
	x.ANDL(operand.Imm(1), marks)
	x.CMPL(place, operand.Imm(5))
	x.CMOVLEQ(none, row)
	x.MOVL(row, asm.Indexed(rows, i, 4, 0))
	x.MOVB(i.As8(), asm.Indexed(missed, others, 1, 0))
	x.ORL(row, union)
	x.TESTL(row, row)
	x.CMOVLNE(none, marks)
	x.ADDQ(marks.As64(), others)
	x.INCQ(i)
	x.CMPQ(i, n)
	x.JLT(operand.LabelRef("key"))
	x.VZEROUPPER()
	x.Store(others, x.ReturnIndex(0))
	x.Store(union, x.ReturnIndex(1))
	x.RET()
}
