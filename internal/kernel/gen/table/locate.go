package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// locate computes the addresses of items in slabs, like slabs.at: item i is in slab k, the
// bit length of i>>shift, at origin + i·size of place k.
func locate(x *build.Context) {
	x.Function("locateItems")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("locateItems writes the addresses of n > 0 items to addrs. places are 16 bytes each: base, origin.")
	x.SignatureExpr("func(addrs **byte, items *uint32, n int, places *byte, shift, size int)")
	addrs, items, n := asm.Param(x, "addrs"), asm.Param(x, "items"), asm.Param(x, "n")
	places, shift, size := asm.Param(x, "places"), asm.Param(x, "shift"), asm.Param(x, "size")
	i, k, at := x.GP64(), x.GP64(), x.GP64()
	x.LEAQ(asm.Indexed(items, n, 4, 0), items) // their ends
	x.LEAQ(asm.Indexed(addrs, n, 8, 0), addrs)
	x.MOVQ(n, at)
	x.NEGQ(at)
	x.Label("item")
	x.MOVL(asm.Indexed(items, at, 4, 0), i.As32())
	slab(x, k, i, shift)
	x.IMULQ(size, i)
	x.ADDQ(asm.Indexed(places, k, 1, 16*64+8), i)
	x.MOVQ(i, asm.Indexed(addrs, at, 8, 0))
	x.INCQ(at)
	x.JNZ(operand.LabelRef("item"))
	x.RET()
}

// slab sets k to the bytes from 64 places before item i's place to the place.
func slab(x *build.Context, k, i, shift reg.GPVirtual) {
	x.SHRXQ(shift, i, k)
	x.LZCNTQ(k, k) // the length is 64 minus this; every processor with BMI2 has LZCNT
	x.NEGQ(k)
	x.SHLQ(operand.Imm(4), k)
}

// locateMarked is locate for the records and the stamps of rows at once. Both have as many
// items in each slab.
func locateMarked(x *build.Context) {
	x.Function("locateMarked")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("locateMarked writes the addresses of n > 0 items of size bytes, and of words with the same numbers, to pairs. places are 16 bytes each: base, origin.")
	x.SignatureExpr("func(pairs *byte, items *uint32, n int, places, words *byte, shift, size int)")
	pairs, items, n := asm.Param(x, "pairs"), asm.Param(x, "items"), asm.Param(x, "n")
	places, words := asm.Param(x, "places"), asm.Param(x, "words")
	shift, size := asm.Param(x, "shift"), asm.Param(x, "size")
	i, k, word := x.GP64(), x.GP64(), x.GP64()
	x.Label("item")
	x.MOVL(asm.At(items, 0), i.As32())
	slab(x, k, i, shift)
	x.MOVQ(asm.Indexed(words, k, 1, 16*64+8), word)
	x.LEAQ(asm.Indexed(word, i, 4, 0), word)
	x.IMULQ(size, i)
	x.ADDQ(asm.Indexed(places, k, 1, 16*64+8), i)
	x.MOVQ(i, asm.At(pairs, 0))
	x.MOVQ(word, asm.At(pairs, 8))
	x.ADDQ(operand.Imm(4), items)
	x.ADDQ(operand.Imm(16), pairs)
	x.DECQ(n)
	x.JNZ(operand.LabelRef("item"))
	x.RET()
}

// locateEights is locateMarked for eight rows at once, with AVX-512. The origins of 32
// slabs are in registers, so that no gather from memory is needed.
func locateEights(x *build.Context) {
	x.Function("locateEights")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("locateEights is locateMarked for a positive multiple of 8 items, all below 1<<31.")
	x.SignatureExpr("func(pairs *byte, items *uint32, n int, places, words *byte, shift, size int)")
	pairs, items, n := asm.Param(x, "pairs"), asm.Param(x, "items"), asm.Param(x, "n")
	records, words := origins(x, "places"), origins(x, "words")
	shift, size, sixteen := broadcast(x, asm.Param(x, "shift")), broadcast(x, asm.Param(x, "size")), bytes(x, 0x1010101010101010)
	orders := [2]reg.VecVirtual{bytes(x, 0x0b030a0209010800), bytes(x, 0x0f070e060d050c04)} // a record, a word, a record …

	x.Label("items")
	i, zeros, high := x.ZMM(), x.ZMM(), x.K()
	x.VPMOVZXDQ(asm.At(items, 0), i)
	x.VPSRLVQ(shift, i, zeros)
	x.VPLZCNTQ(zeros, zeros)
	x.VPTESTMQ(sixteen, zeros, high)
	at, word, bytes := records.of(zeros, high), words.of(zeros, high), x.ZMM()
	x.VPSLLQ(operand.Imm(2), i, bytes)
	x.VPADDQ(bytes, word, word)
	x.VPMULUDQ(size, i, i)
	x.VPADDQ(i, at, at)
	for half, order := range orders {
		r := choose(x, order, at, word)
		x.VMOVDQU64(r, asm.At(pairs, 64*half))
	}
	x.ADDQ(operand.Imm(32), items)
	x.ADDQ(operand.Imm(128), pairs)
	x.SUBQ(operand.Imm(8), n)
	x.JNZ(operand.LabelRef("items"))
	x.VZEROUPPER()
	x.RET()
}

// table holds the origins of 32 slabs, indexed by the leading zeros, modulo 32, of the
// 64-bit value i>>shift of an item. That is 64 for slab 0, and 64 minus its number for
// another slab, so the order is reversed.
type table struct {
	x       *build.Context
	origins [4]reg.VecVirtual
}

func origins(x *build.Context, param string) table {
	t, places := table{x: x}, asm.Param(x, param)
	backward := bytes(x, 0x01030507090b0d0f)
	for i := range t.origins {
		pairs, first := x.ZMM(), 16*(25-8*i)
		x.VMOVDQU64(asm.At(places, first), pairs)
		t.origins[i] = choose(x, backward, pairs, asm.At(places, first+64))
	}
	only := x.K()
	one := x.GP32()
	x.MOVL(operand.U32(1), one)
	x.KMOVW(one, only)
	x.VPBROADCASTQ(asm.At(places, 8), only, t.origins[0])
	return t
}

// of returns the origins for the given leading zeros. high is the mask of those with bit 16
// set.
func (t table) of(zeros, high reg.Register) reg.VecVirtual {
	low := choose(t.x, zeros, t.origins[0], t.origins[1])
	t.x.VMOVDQA64(choose(t.x, zeros, t.origins[2], t.origins[3]), high, low)
	return low
}

// choose returns words of a, numbered from 0, and of b, numbered from 8.
func choose(x *build.Context, numbers, a reg.Register, b operand.Op) reg.VecVirtual {
	r := x.ZMM()
	x.VMOVDQA64(numbers, r)
	x.VPERMI2Q(b, a, r)
	return r
}

// bytes returns a register of eight words of which each is a byte of b.
func bytes(x *build.Context, b uint64) reg.VecVirtual {
	g, low, r := x.GP64(), x.XMM(), x.ZMM()
	x.MOVQ(operand.U64(b), g)
	x.VMOVQ(g, low)
	x.VPMOVZXBQ(low, r)
	return r
}

func broadcast(x *build.Context, g reg.Register) reg.VecVirtual {
	r := x.ZMM()
	x.VPBROADCASTQ(g, r)
	return r
}

// copyRows copies row numbers, eight at a time, and keeps the smallest.
func copyRows(x *build.Context) {
	x.Function("copyRows")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("copyRows copies n rows, a positive multiple of 8, and reports whether one of them is 0.")
	x.SignatureExpr("func(dst, src *uint32, n int) bool")
	dst, src, n := asm.Param(x, "dst"), asm.Param(x, "src"), asm.Param(x, "n")
	zero, any, r, is := x.YMM(), x.YMM(), x.YMM(), x.YMM()
	x.VPXOR(zero, zero, zero)
	x.VPXOR(any, any, any)
	x.Label("rows")
	x.VMOVDQU(asm.At(src, 0), r)
	x.VMOVDQU(r, asm.At(dst, 0))
	x.VPCMPEQD(r, zero, is)
	x.VPOR(is, any, any)
	x.ADDQ(operand.Imm(32), src)
	x.ADDQ(operand.Imm(32), dst)
	x.SUBQ(operand.Imm(8), n)
	x.JNZ(operand.LabelRef("rows"))
	found := x.GP8()
	x.VPTEST(any, any)
	x.SETNE(found)
	x.Store(found, x.ReturnIndex(0))
	x.VZEROUPPER()
	x.RET()
}
