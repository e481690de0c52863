package main

import (
	"math/bits"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// sparse writes the products that skip the zeros of their left factor, and the kernel that
// lists its non-zero values.
func sparse(x *build.Context) {
	maskTable(x)
	choices(x)
	lanesTable(x)
	for _, v := range vectors(x) {
		nonzeros(v)
		sparseRows(v)
	}
}

// choices is a table for AVX2, which has no instruction that moves selected lanes to the
// front. For each mask of 8 lanes it holds their numbers, one byte each.
func choices(x *build.Context) {
	x.StaticGlobal("choices")
	x.DataAttributes(attr.RODATA | attr.NOPTR)
	for mask := range 1 << lanesAVX2 {
		var lanes uint64
		for m, at := mask, 0; m != 0; m, at = m&(m-1), at+8 {
			lanes |= uint64(bits.TrailingZeros(uint(m))) << at
		}
		x.AddDatum(8*mask, operand.U64(lanes))
	}
}

// lanesTable holds the numbers of the lanes.
func lanesTable(x *build.Context) {
	x.StaticGlobal("numbers")
	x.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range lanesAVX512 {
		x.AddDatum(4*i, operand.U32(uint32(i)))
	}
}

// rowBytes returns the size of a row of a panel, which is also the unit of offsets into it.
func (v *vec) rowBytes() int { return 2 * v.bytes() }

// nonzeros lists the non-zero values in columns of a matrix, row by row. It stores full
// vectors at the end of the lists; the next one overwrites the unused lanes.
func nonzeros(v vec) {
	v.function("nonzeros", "func(values *float32, offsets, counts *uint32, a *float32, rows, k, lda int) (n int)",
		"lists the values of rows ≥ 1 rows of k ≥ 1 columns of a that are not zero, with the offset in bytes of the row of a panel that each multiplies, and counts them by row. It writes up to a vector past the n values.")
	values, offsets, counts := v.param("values"), v.param("offsets"), v.param("counts")
	a, rows, k, lda := v.param("a"), v.param("rows"), v.param("k"), v.floats("lda")
	begin, row, left, first := v.GP64(), v.GP64(), v.GP64(), v.GP64()
	l := &lister{vec: v, values: values, offsets: offsets, at: v.reg(), numbers: v.reg(), step: v.constant(uint32(v.lanes * v.rowBytes()))}
	v.VMOVDQU_(operand.NewDataAddr(operand.NewStaticSymbol("numbers"), 0), l.numbers)
	v.shift(l.numbers, bits.TrailingZeros(uint(v.rowBytes())))
	rest := v.GP64()
	v.MOVQ(k, rest)
	v.ANDQ(operand.Imm(uint64(v.lanes-1)), rest)
	v.SUBQ(rest, k)
	v.mask(rest)
	v.MOVQ(values, begin)

	v.Label("row")
	v.MOVQ(values, first)
	v.MOVQ(a, row)
	v.VMOVAPS(l.numbers, l.at)
	v.MOVQ(k, left)
	v.TESTQ(left, left)
	v.JZ(v.label("rest"))
	v.Label("vector")
	x := v.reg()
	v.VMOVUPS(asm.At(row, 0), x)
	l.list(x)
	v.ADDQ(operand.Imm(uint64(v.bytes())), row)
	v.SUBQ(operand.Imm(uint64(v.lanes)), left)
	v.JNZ(v.label("vector"))
	v.Label("rest")
	v.load(asm.At(row, 0), x) // lanes outside the mask are zero
	l.list(x)
	v.ADDQ(lda, a)
	v.MOVQ(values, row)
	v.SUBQ(first, row)
	v.SHRQ(operand.Imm(2), row)
	v.MOVL(row.As32(), asm.At(counts, 0))
	v.ADDQ(operand.Imm(4), counts)
	v.DECQ(rows)
	v.JNZ(v.label("row"))
	v.SUBQ(begin, values)
	v.SHRQ(operand.Imm(2), values)
	v.Store(values, v.ReturnIndex(0))
	v.end()
}

// lister appends the non-zero values of vectors to the lists.
type lister struct {
	vec
	values, offsets   reg.GPVirtual
	at, numbers, step reg.VecVirtual // offsets of the lanes: of this vector, of a row's first; from one to the next
}

// list appends the non-zero values of x and advances by a vector.
func (l *lister) list(x reg.VecVirtual) {
	const notEqualOrNaN = 4
	chosen, n := l.GP64(), l.GP64()
	listed, at := l.reg(), l.reg()
	if l.wide() {
		k := l.K()
		l.VCMPPS(operand.Imm(notEqualOrNaN), l.zero(), x, k)
		l.VCOMPRESSPS_Z(x, k, listed)
		l.VPCOMPRESSD_Z(l.at, k, at)
		l.KMOVW(k, chosen.As32())
	} else {
		m := l.reg()
		l.VCMPPS(operand.Imm(notEqualOrNaN), l.zero(), x, m)
		l.VMOVMSKPS(m, chosen.As32())
		table := l.GP64()
		l.LEAQ(operand.NewDataAddr(operand.NewStaticSymbol("choices"), 0), table)
		l.VPMOVZXBD(asm.Indexed(table, chosen, 8, 0), m)
		l.VPERMPS(x, m, listed)
		l.VPERMD(l.at, m, at)
	}
	l.VMOVUPS(listed, asm.At(l.values, 0))
	l.VMOVUPS(at, asm.At(l.offsets, 0))
	l.POPCNTL(chosen.As32(), n.As32())
	l.LEAQ(asm.Indexed(l.values, n, 4, 0), l.values)
	l.LEAQ(asm.Indexed(l.offsets, n, 4, 0), l.offsets)
	l.VPADDD(l.step, l.at, l.at)
}

// VMOVDQU_ loads integers. The instruction has another name in AVX-512.
func (v *vec) VMOVDQU_(m operand.Mem, r reg.VecVirtual) {
	if v.wide() {
		v.VMOVDQU32(m, r)
	} else {
		v.VMOVDQU(m, r)
	}
}

// shift multiplies integers by 2ⁿ.
func (v *vec) shift(r reg.VecVirtual, n int) { v.VPSLLD(operand.Imm(uint64(n)), r, r) }

// sparseRows multiplies the listed values of each row by a tile of columns: full panels,
// whose sums all stay in registers. Skipping a zero keeps a sum of −0, which adding +0
// would turn into +0. Rows that end in a −0 are therefore left to the caller.
func sparseRows(v vec) {
	v.function("sparseRows", "func(c, panel *float32, far int, values *float32, offsets, counts *uint32, rows, ldc int, init, gate *float32, floor float32) (done int)",
		"sets rows of a tile of c to max(init + the listed values times the rows of panels at their offsets, floor), and to 0 where gate is 0. Panels lie far floats apart; without init c is added to. It stops before a row with a sum of −0.")
	c, panel, values, offsets, counts := v.param("c"), v.param("panel"), v.param("values"), v.param("offsets"), v.param("counts")
	far, rows, ldc := v.floats("far"), v.param("rows"), v.floats("ldc")
	sum := v.regs(tileColumns / v.lanes)
	from, left, row := v.GP64(), v.GP64(), v.GP64()
	minus := v.constant(1 << 31)
	floor := v.broadcast("floor")

	v.Label("row")
	v.MOVQ(v.stack("init"), from)
	v.TESTQ(from, from)
	v.JNZ(v.label("begin"))
	v.MOVQ(c, from)
	v.Label("begin")
	for i, s := range sum {
		v.VMOVUPS(asm.At(from, i*v.bytes()), s)
	}
	v.LEAQ(asm.Indexed(c, ldc, 1, 0), from)
	for at := 0; at < 4*tileColumns; at += 64 {
		v.PREFETCHT0(asm.At(from, at))
	}
	v.MOVL(asm.At(counts, 0), left.As32())
	v.ADDQ(operand.Imm(4), counts)
	v.TESTQ(left, left)
	v.JZ(v.label("sums"))
	v.Label("value")
	factor := v.reg()
	v.VBROADCASTSS(asm.At(values, 0), factor)
	v.MOVL(asm.At(offsets, 0), row.As32())
	v.ADDQ(panel, row)
	for i, s := range sum {
		if i > 0 && i%2 == 0 {
			v.ADDQ(far, row)
		}
		v.VFMADD231PS(asm.At(row, i%2*v.bytes()), factor, s)
	}
	v.ADDQ(operand.Imm(4), values)
	v.ADDQ(operand.Imm(4), offsets)
	v.DECQ(left)
	v.JNZ(v.label("value"))
	v.Label("sums")
	v.stopAtMinusZero(sum, minus)
	v.storeTile(c, sum, floor)
	v.ADDQ(ldc, c)
	v.DECQ(rows)
	v.JNZ(v.label("row"))
	v.Label("end")
	v.Load(v.Param("rows"), from)
	v.SUBQ(rows, from)
	v.Store(from, v.ReturnIndex(0))
	v.end()
}

// stopAtMinusZero ends the function if any sum is −0, which is the smallest value as an
// integer.
func (v *vec) stopAtMinusZero(sum []reg.VecVirtual, minus reg.VecVirtual) {
	least, found := v.reg(), v.GP32()
	v.VPMINSD(sum[0], sum[1], least)
	for _, s := range sum[2:] {
		v.VPMINSD(s, least, least)
	}
	if v.wide() {
		k := v.K()
		v.VPCMPEQD(minus, least, k)
		v.KMOVW(k, found)
	} else {
		v.VPCMPEQD(minus, least, least)
		v.VMOVMSKPS(least, found)
	}
	v.TESTL(found, found)
	v.JNZ(v.label("end"))
}

// storeTile stores a row with the floor and the gate, and advances the gate to its next
// row.
func (v *vec) storeTile(c reg.GPVirtual, sum []reg.VecVirtual, floor reg.VecVirtual) {
	const notEqualOrNaN = 4
	gate := v.param("gate")
	for _, s := range sum {
		v.VMAXPS(s, floor, s) // returns the second operand if either is a NaN
	}
	v.TESTQ(gate, gate)
	v.JZ(v.label("open"))
	zero := v.zero()
	for i, s := range sum {
		open := v.reg()
		v.VMOVUPS(asm.At(gate, i*v.bytes()), open)
		v.zeroUnless(s, notEqualOrNaN, open, zero)
	}
	ldc := v.floats("ldc")
	v.ADDQ(ldc, gate)
	v.MOVQ(gate, v.stack("gate"))
	v.Label("open")
	for i, s := range sum {
		v.VMOVUPS(s, asm.At(c, i*v.bytes()))
	}
}
