package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// dots writes the bfloat16 products for CPUs that multiply pairs in vectors but have no
// tiles.
func dots(x *build.Context) {
	for _, h := range []int{11, 10} { // 11, 11 and 10 rows are the 32 of a block
		d := &dotBlock{Context: x, rows: h}
		d.toFloat()
		d.toHalf()
	}
	for _, h := range tileHeights()[1:] {
		(&dotBlock{Context: x, rows: h}).toFloat()
	}
	peakDots(x)
}

// dotBlock is a block of rows×32 of a product. Two vectors of sums per row stay in
// registers, with two of b and two with a pair of a in every lane. The assembler does not
// support VDPBF16PS, so registers are the machine's.
type dotBlock struct {
	*build.Context
	rows int
}

const (
	dotUnroll = 4 // steps per iteration; a block has 16 pairs of depth
	zmmB      = 28
	zmmPair   = 30
)

var (
	dotA      = []reg.GPPhysical{reg.R8, reg.R9, reg.R10, reg.R11} // every third row
	vectors32 = []reg.VecPhysical{
		reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
		reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31,
	}
)

// sum returns the register of half a row of sums.
func (d *dotBlock) sum(row, half int) reg.VecPhysical { return vectors32[2*row+half] }

func (d *dotBlock) begin(name, signature string, doc ...string) {
	d.Function(fmt.Sprintf("%s%dAVX512BF16", name, d.rows))
	d.Attributes(attr.NOSPLIT)
	d.Pragma("noescape")
	d.Doc(doc...)
	d.SignatureExpr(signature)
	d.load("a", dotA[0])
	d.load("lda", reg.RCX)
	d.load("b", reg.RDX)
	d.load("k", reg.RBX)
	for i := 3; i < d.rows; i += 3 {
		d.LEAQ(asm.Indexed(dotA[i/3-1], reg.RCX, 2, 0), dotA[i/3])
		d.ADDQ(reg.RCX, dotA[i/3])
	}
}

func (d *dotBlock) load(param string, r reg.Register) { d.Load(d.Param(param), r) }

// multiply adds the product of the rows of a and the panel b to the sums.
func (d *dotBlock) multiply() {
	d.Label("step")
	for u := range dotUnroll {
		for i := range 2 {
			d.VMOVUPS(asm.At(reg.RDX, 128*u+64*i), vectors32[zmmB+i])
		}
		for r := range d.rows {
			m := asm.At(dotA[r/3], 4*u)
			if r%3 > 0 {
				m = asm.Indexed(dotA[r/3], reg.RCX, uint8(r%3), 4*u)
			}
			pair := zmmPair + r%2
			d.VBROADCASTSS(m, vectors32[pair])
			for i := range 2 {
				multiplyPairs(d.Context, 2*r+i, pair, zmmB+i)
			}
		}
	}
	for i := 0; i < d.rows; i += 3 {
		d.ADDQ(operand.Imm(4*dotUnroll), dotA[i/3])
	}
	d.ADDQ(operand.U32(128*dotUnroll), reg.RDX)
	d.SUBQ(operand.Imm(dotUnroll), reg.RBX)
	d.JNZ(operand.LabelRef("step"))
}

// toFloat stores the sums as float32. They start from any matrix, from c itself or, with a
// stride of 0, from one row.
func (d *dotBlock) toFloat() {
	d.begin("dotsToFloat", "func(c *float32, a *uint16, b *uint32, init *float32, k, lda, ldc, ldi int)",
		fmt.Sprintf("dotsToFloat%dAVX512BF16 sets %d rows of 32 columns of c to init + a·b; b is a panel of k rows of pairs, a", d.rows, d.rows),
		"positive multiple of 4. Distances of rows are in bytes.")
	d.load("init", reg.RAX)
	d.load("ldi", reg.RSI)
	for r := range d.rows {
		for i := range 2 {
			d.VMOVUPS(asm.At(reg.RAX, 64*i), d.sum(r, i))
		}
		d.ADDQ(reg.RSI, reg.RAX)
	}
	d.load("c", reg.RDI)
	d.load("ldc", reg.RSI)
	d.SUBQ(operand.I32(-128), reg.RDI)
	for range d.rows { // the next block of c
		prefetchToWrite(d.Context, 0)
		prefetchToWrite(d.Context, 64)
		d.ADDQ(reg.RSI, reg.RDI)
	}
	d.multiply()
	d.load("c", reg.RDI)
	for r := range d.rows {
		for i := range 2 {
			d.VMOVUPS(d.sum(r, i), asm.At(reg.RDI, 64*i))
		}
		d.ADDQ(reg.RSI, reg.RDI)
	}
	d.VZEROUPPER()
	d.RET()
}

// toHalf rounds and stores the sums. The comparison with the floor returns its second
// operand if either is a NaN.
func (d *dotBlock) toHalf() {
	d.begin("dotsToHalf", "func(dst, a *uint16, b *uint32, bias *float32, gate *uint16, k, lda, ldd int, floor float32)",
		fmt.Sprintf("dotsToHalf%dAVX512BF16 sets %d rows of 32 columns of dst to max(bias + a·b, floor), and to 0 where gate", d.rows, d.rows),
		"is; gate may be nil. b is a panel of k rows of pairs, a positive multiple of 4.")
	d.load("bias", reg.RAX)
	for i := range 2 {
		d.VMOVUPS(asm.At(reg.RAX, 64*i), d.sum(0, i))
	}
	for r := 1; r < d.rows; r++ {
		for i := range 2 {
			d.VMOVAPS(d.sum(0, i), d.sum(r, i))
		}
	}
	d.multiply()
	d.load("dst", reg.RDI)
	d.load("ldd", reg.RSI)
	d.load("gate", reg.RDX)
	floor, err := d.Param("floor").Resolve()
	if err != nil {
		panic(err)
	}
	d.VBROADCASTSS(floor.Addr, reg.Z28)
	d.MOVL(operand.U32(0x7fff7fff), reg.EAX)
	d.VPBROADCASTD(reg.EAX, reg.Z29)
	d.TESTQ(reg.RDX, reg.RDX)
	d.JNZ(operand.LabelRef("gated"))
	d.round(false)
	d.Label("gated")
	d.round(true)
}

// round stores the sums through the floor in Z28 and, if gated, the gate at RDX
// with its mask of magnitudes in Z29.
func (d *dotBlock) round(gated bool) {
	for r := range d.rows {
		low, high := d.sum(r, 0), d.sum(r, 1)
		d.VMAXPS(low, reg.Z28, low)
		d.VMAXPS(high, reg.Z28, high)
		toHalf(d.Context, low, high, low)
		if gated {
			d.VPTESTMW(asm.At(reg.RDX, 0), reg.Z29, reg.K1)
			d.VMOVDQU16_Z(low, reg.K1, low)
			d.ADDQ(reg.RSI, reg.RDX)
		}
		d.VMOVDQU16(low, asm.At(reg.RDI, 0))
		d.ADDQ(reg.RSI, reg.RDI)
	}
	d.VZEROUPPER()
	d.RET()
}

// multiplyPairs is VDPBF16PS, written as bytes: it adds the product of the upper values of
// a pair of a and of b to each sum, then the product of the lower ones, each rounded once.
// Subnormal factors and sums count as 0.
func multiplyPairs(x *build.Context, sum, a, b int) {
	const prefixF3 = 0x06
	evex(x, prefixF3, 0x52, sum, a, b)
}

// toHalf is VCVTNE2PS2BF16, written as bytes: 32 floats rounded to nearest even. Subnormal
// numbers become 0.
func toHalf(x *build.Context, low, high, out reg.VecPhysical) {
	const prefixF2 = 0x07
	evex(x, prefixF2, 0x72, int(out.PhysicalIndex()), int(high.PhysicalIndex()), int(low.PhysicalIndex()))
}

// evex writes an instruction of the map 0F38 on three full registers of AVX-512. The prefix
// contains the upper two bits of their numbers, inverted.
func evex(x *build.Context, prefix, opcode byte, out, first, second int) {
	const map0F38, whole = 0x02, 0x40
	inverted := func(number, bit, at int) byte { return byte(^number>>bit&1) << at }
	emit(x, 0x62,
		inverted(out, 3, 7)|inverted(second, 4, 6)|inverted(second, 3, 5)|inverted(out, 4, 4)|map0F38,
		byte(^first&15)<<3|prefix,
		whole|inverted(first, 4, 3),
		opcode, 0xc0|byte(out&7)<<3|byte(second&7))
}

// peakDots runs products of pairs on registers only.
func peakDots(x *build.Context) {
	x.Function("peakAVX512BF16")
	x.Attributes(attr.NOSPLIT)
	x.Doc(fmt.Sprintf("peakAVX512BF16 executes n ≥ 1 times %d products of 16 pairs that wait for nothing.", peakChains))
	x.SignatureExpr("func(n int)")
	x.Load(x.Param("n"), reg.RCX)
	for _, r := range vectors32[:peakChains+1] {
		x.VPXORD(r, r, r)
	}
	x.Label("loop")
	for sum := range peakChains {
		multiplyPairs(x, sum, peakChains, peakChains)
	}
	x.DECQ(reg.RCX)
	x.JNZ(operand.LabelRef("loop"))
	x.VZEROUPPER()
	x.RET()
}
