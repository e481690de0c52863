package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// matrix writes the bfloat16 products: blocks of 32×32 in AMX tiles. The steps before and
// after them, and the conversion to bfloat16, use AVX-512, which every CPU with AMX has.
func matrix(x *build.Context) {
	tileConfiguration(x)
	tilesToFloat(x)
	tilesToHalf(x)
	peakTiles(x)
	halves(x)
	v := vectors(x)[1]
	interleave(v)
	transposeHalves(v)
	columnSumsBF16(v)
	dotHalves(v)
	outerHalves(v)
	scaledRows(v)
}

// tile is an AMX register. The assembler does not support its instructions, so they are
// written as bytes, with machine registers instead of avo's.
type tile int

// Operand numbers of the general registers in use.
const (
	numberA     = 0 // RAX
	numberLDA   = 1 // RCX
	numberB     = 2 // RDX
	numberLDB   = 3 // RBX
	numberLower = 6 // RSI: 16 rows below A
	numberC     = 7 // RDI
	numberLDC   = 8 // R8
)

func emit(x *build.Context, bytes ...byte) {
	for _, b := range bytes {
		x.Instruction(&ir.Instruction{Opcode: "BYTE", Operands: []operand.Op{operand.U8(b)}})
	}
}

// The bytes of a VEX prefix: the extension of the index register, inverted, with
// the opcode map, and the mandatory prefix with the third register, inverted.
const (
	vex           = 0xc4
	mapPlain      = 0xe2
	mapIndexAbove = 0xa2 // index R8 to R15
	prefixNone    = 0x78
	prefixF3      = 0x7a
	prefixF2      = 0x7b
)

func tileConfig(x *build.Context)       { emit(x, vex, mapPlain, prefixNone, 0x49, 0x00) } // from (RAX)
func tileRelease(x *build.Context)      { emit(x, vex, mapPlain, prefixNone, 0x49, 0xc0) }
func tileZero(x *build.Context, t tile) { emit(x, vex, mapPlain, prefixF2, 0x49, 0xc0|byte(t)<<3) }

// tileLoad reads 16 rows of 64 bytes at base + disp, stride bytes apart.
func tileLoad(x *build.Context, t tile, base, stride, disp byte) {
	emit(x, vex, mapPlain, prefixF2, 0x4b, 0x44|byte(t)<<3, stride<<3|base, disp)
}

// tileStore writes 16 rows of 64 bytes, with the stride in R8.
func tileStore(x *build.Context, t tile, base, disp byte) {
	emit(x, vex, mapIndexAbove, prefixF3, 0x4b, 0x44|byte(t)<<3, (numberLDC-8)<<3|base, disp)
}

// tileMultiply adds the product of a and b to c.
func tileMultiply(x *build.Context, c, a, b tile) {
	emit(x, vex, mapPlain, byte(^b&15)<<3|prefixF3&7, 0x5c, 0xc0|byte(c)<<3|byte(a))
}

// tileConfiguration gives all tiles 16 rows of 64 bytes.
func tileConfiguration(x *build.Context) {
	x.StaticGlobal("config")
	x.DataAttributes(attr.RODATA | attr.NOPTR)
	const palette, columns, rows = 0, 16, 48
	config := make([]byte, 64)
	config[palette] = 1
	for t := range 8 {
		config[columns+2*t], config[rows+t] = 64, 16
	}
	for i, b := range config {
		x.AddDatum(i, operand.U8(b))
	}
}

// product32 begins a function over blocks of 32 columns of the product of 32 rows. The rows
// stay in the first-level cache; b comes from the second. Tiles are configured here and
// released at the end, because a goroutine may change threads between two calls. R15 counts
// the bytes from the first column of float32 to the block's.
func product32(x *build.Context, name, signature string, doc ...string) {
	x.Function(name)
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc(doc...)
	x.SignatureExpr(signature)
	x.LEAQ(operand.NewDataAddr(operand.NewStaticSymbol("config"), 0), reg.RAX)
	tileConfig(x)
	x.Load(x.Param("a"), reg.R9)
	x.Load(x.Param("lda"), reg.RCX)
	x.Load(x.Param("ldb"), reg.RBX)
	x.Load(x.Param("blocks"), reg.R10)
	x.MOVQ(reg.RBX, reg.R11)
	x.SHLQ(operand.Imm(4), reg.R11) // 16 rows of b
	x.MOVQ(reg.RCX, reg.R12)
	x.SHLQ(operand.Imm(4), reg.R12) // 16 rows of a
	x.XORQ(reg.R15, reg.R15)
}

// block32 adds the product of the rows at R9 and of a block of b to four tiles. Each of its
// steps also runs between, which may use RDI.
func block32(x *build.Context, between func()) {
	x.MOVQ(reg.R9, reg.RAX)
	x.LEAQ(operand.Mem{Base: reg.R9, Index: reg.R12, Scale: 1}, reg.RSI)
	x.Load(x.Param("b"), reg.RDX)
	x.ADDQ(reg.R15, reg.RDX)
	x.Load(x.Param("k"), reg.R13)
	x.Label("step")
	tileLoad(x, 4, numberA, numberLDA, 0)
	tileLoad(x, 6, numberB, numberLDB, 0)
	tileLoad(x, 7, numberB, numberLDB, 64)
	tileMultiply(x, 0, 4, 6)
	tileLoad(x, 5, numberLower, numberLDA, 0)
	tileMultiply(x, 1, 4, 7)
	tileMultiply(x, 2, 5, 6)
	tileMultiply(x, 3, 5, 7)
	between()
	x.ADDQ(operand.Imm(64), reg.RAX)
	x.ADDQ(operand.Imm(64), reg.RSI)
	x.ADDQ(reg.R11, reg.RDX)
	x.DECQ(reg.R13)
	x.JNZ(operand.LabelRef("step"))
}

// tilesToFloat stores the sums as float32. They start from any matrix, from c itself or,
// with a stride of 0, from one row.
func tilesToFloat(x *build.Context) {
	product32(x, "tilesToFloatAMX", "func(c *float32, a *uint16, b *uint32, init *float32, blocks, k, lda, ldb, ldc, ldi int)",
		"tilesToFloatAMX sets 32 rows of c to init + a·b for blocks of 32 columns; b are pairs of rows, k ≥ 1",
		"steps of 32. Distances of rows are in bytes.")
	x.Load(x.Param("ldc"), reg.R8)
	x.Label("block")
	x.Load(x.Param("ldi"), reg.RSI)
	x.MOVQ(reg.RSI, reg.R13)
	x.SHLQ(operand.Imm(4), reg.R13)
	x.Load(x.Param("init"), reg.RAX)
	x.ADDQ(reg.R15, reg.RAX)
	for t := range tile(4) {
		tileLoad(x, t, numberA, numberLower, byte(t%2)*64)
		if t == 1 {
			x.ADDQ(reg.R13, reg.RAX)
		}
	}
	x.Load(x.Param("c"), reg.RDI)
	x.LEAQ(operand.Mem{Base: reg.RDI, Index: reg.R15, Scale: 1, Disp: 4 * 32}, reg.RDI)
	block32(x, func() { // eight steps, of 256 rows or columns, prefetch the whole next block of c
		for range 4 {
			prefetchToWrite(x, 0)
			prefetchToWrite(x, 64)
			x.ADDQ(reg.R8, reg.RDI)
		}
	})
	x.MOVQ(reg.R8, reg.R13)
	x.SHLQ(operand.Imm(4), reg.R13)
	x.Load(x.Param("c"), reg.RDI)
	x.ADDQ(reg.R15, reg.RDI)
	for t := range tile(4) {
		tileStore(x, t, numberC, byte(t%2)*64)
		if t == 1 {
			x.ADDQ(reg.R13, reg.RDI)
		}
	}
	x.SUBQ(operand.I32(-4*32), reg.R15)
	x.DECQ(reg.R10)
	x.JNZ(operand.LabelRef("block"))
	tileRelease(x)
	x.RET()
}

// prefetchToWrite is PREFETCHW of the line at RDI + disp, written as bytes. A matrix of
// gradients exceeds the second-level cache, and the rows of a tile are in distant lines.
func prefetchToWrite(x *build.Context, disp byte) { emit(x, 0x0f, 0x0d, 0x40|1<<3|numberC, disp) }

// tilesToHalf rounds the sums of each block, through a buffer that stays in the first-level
// cache.
func tilesToHalf(x *build.Context) {
	product32(x, "tilesToHalfAMX", "func(dst, a *uint16, b *uint32, bias *float32, gate *uint16, sums *float32, blocks, k, lda, ldb, ldd int, floor float32)",
		"tilesToHalfAMX sets 32 rows of dst to max(bias + a·b, floor), and to 0 where gate is, for blocks of 32",
		"columns. gate may be nil; sums are 32×32.")
	floor, err := x.Param("floor").Resolve()
	if err != nil {
		panic(err)
	}
	x.VBROADCASTSS(floor.Addr, reg.Z0)
	x.MOVL(operand.U32(0x7fff7fff), reg.EAX)
	x.VPBROADCASTD(reg.EAX, reg.Z1)
	x.Label("block")
	x.Load(x.Param("ldb"), reg.RBX)
	x.Load(x.Param("bias"), reg.RAX)
	x.ADDQ(reg.R15, reg.RAX)
	x.XORQ(reg.RSI, reg.RSI)
	for t := range tile(4) {
		tileLoad(x, t, numberA, numberLower, byte(t%2)*64)
	}
	x.MOVQ(reg.R15, reg.R13)
	x.SHRQ(operand.Imm(1), reg.R13)
	x.Load(x.Param("dst"), reg.RDI)
	x.LEAQ(operand.Mem{Base: reg.RDI, Index: reg.R13, Scale: 1, Disp: 2 * 32}, reg.RDI)
	x.Load(x.Param("ldd"), reg.R8)
	block32(x, func() { // for the next block
		for range 4 {
			prefetchToWrite(x, 0)
			x.ADDQ(reg.R8, reg.RDI)
		}
	})
	x.Load(x.Param("sums"), reg.RDI)
	x.MOVQ(operand.U32(4*32), reg.R8)
	for t := range tile(4) {
		tileStore(x, t, numberC, byte(t%2)*64)
		if t == 1 {
			x.ADDQ(operand.U32(16*4*32), reg.RDI)
		}
	}
	x.SUBQ(operand.U32(16*4*32), reg.RDI)
	x.MOVQ(reg.RDI, reg.RAX)
	x.Load(x.Param("ldd"), reg.RBX)
	x.SHRQ(operand.Imm(1), reg.R15) // bytes of bfloat16
	x.Load(x.Param("dst"), reg.RDX)
	x.ADDQ(reg.R15, reg.RDX)
	x.Load(x.Param("gate"), reg.RSI)
	x.MOVQ(operand.U32(32/roundRows), reg.R13)
	x.TESTQ(reg.RSI, reg.RSI)
	x.JZ(operand.LabelRef("open"))
	x.ADDQ(reg.R15, reg.RSI)
	round(x, "gated", true)
	x.JMP(operand.LabelRef("rounded"))
	round(x, "open", false)
	x.Label("rounded")
	x.SHLQ(operand.Imm(1), reg.R15)
	x.SUBQ(operand.I32(-4*32), reg.R15)
	x.DECQ(reg.R10)
	x.JNZ(operand.LabelRef("block"))
	tileRelease(x)
	x.VZEROUPPER()
	x.RET()
}

const roundRows = 4 // rows per iteration of round

// round stores rows of 32 sums at RAX to RDX, RBX apart, through the floor in Z0
// and, if gated, the gate at RSI. The second operand of the comparison is kept if
// either is a NaN.
func round(x *build.Context, label string, gated bool) {
	x.Label(label)
	for r := range roundRows {
		low, high, out := reg.Z2, reg.Z3, reg.Z4
		if r%2 == 1 {
			low, high, out = reg.Z5, reg.Z6, reg.Z7
		}
		x.VMAXPS(asm.At(reg.RAX, 128*r), reg.Z0, low)
		x.VMAXPS(asm.At(reg.RAX, 128*r+64), reg.Z0, high)
		toHalf(x, low, high, out)
		if gated {
			x.VPTESTMW(asm.At(reg.RSI, 0), reg.Z1, reg.K1)
			x.VMOVDQU16_Z(out, reg.K1, out)
			x.ADDQ(reg.RBX, reg.RSI)
		}
		x.VMOVDQU16(out, asm.At(reg.RDX, 0))
		x.ADDQ(reg.RBX, reg.RDX)
	}
	x.ADDQ(operand.U32(128*roundRows), reg.RAX)
	x.DECQ(reg.R13)
	x.JNZ(operand.LabelRef(label))
}

// peakTiles runs products on tiles only, with four sums as in a block.
func peakTiles(x *build.Context) {
	x.Function("peakAMX")
	x.Attributes(attr.NOSPLIT)
	x.Doc("peakAMX executes n ≥ 1 times 4 products of 16×32 by 32×16 that wait for nothing.")
	x.SignatureExpr("func(n int)")
	x.LEAQ(operand.NewDataAddr(operand.NewStaticSymbol("config"), 0), reg.RAX)
	tileConfig(x)
	x.Load(x.Param("n"), reg.RCX)
	for t := range tile(8) {
		tileZero(x, t)
	}
	x.Label("loop")
	for t := range tile(4) {
		tileMultiply(x, t, 4+t/2, 6+t%2)
	}
	x.DECQ(reg.RCX)
	x.JNZ(operand.LabelRef("loop"))
	tileRelease(x)
	x.RET()
}
