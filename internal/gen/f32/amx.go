package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/gen/asm"
)

// matrix writes the bfloat16 products: blocks of 32×32 in AMX tiles, and what
// goes before and after them in AVX-512, which every CPU with AMX has.
func matrix(x *build.Context) {
	tiles(x)
	v := vectors(x)[1]
	interleave(v)
	for _, f := range []finisher{{vec: v, name: "finishBF16", half: true}, {vec: v, name: "finishF32"}} {
		f.write()
	}
	accumulate(v)
	columnSumsBF16(v)
}

// tile is an AMX register. The assembler knows none of its instructions, so they
// are written as bytes, with registers of the machine instead of avo's.
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

// tileStore writes them, with the stride in R8.
func tileStore(x *build.Context, t tile, base, disp byte) {
	emit(x, vex, mapIndexAbove, prefixF3, 0x4b, 0x44|byte(t)<<3, (numberLDC-8)<<3|base, disp)
}

// tileMultiply adds the product of a and b to c.
func tileMultiply(x *build.Context, c, a, b tile) {
	emit(x, vex, mapPlain, byte(^b&15)<<3|prefixF3&7, 0x5c, 0xc0|byte(c)<<3|byte(a))
}

// tiles computes 32 columns of c for any number of blocks of 32 rows. The tiles
// are set up and released here: between two calls a goroutine may change threads.
func tiles(x *build.Context) {
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
	x.Function("tilesAMX")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("tilesAMX sets c, 32 floats a row, to a·b for blocks of 32 rows of a, lda bytes apart, and",
		"pairs of rows of b, ldb bytes apart; k ≥ 1 steps of 32.")
	x.SignatureExpr("func(c *float32, a *uint16, b *uint32, blocks, k, lda, ldb int)")
	x.LEAQ(operand.NewDataAddr(operand.NewStaticSymbol("config"), 0), reg.RAX)
	tileConfig(x)
	load := func(name string, r reg.Register) { x.Load(x.Param(name), r) }
	load("c", reg.RDI)
	load("a", reg.R9)
	load("lda", reg.RCX)
	load("ldb", reg.RBX)
	load("blocks", reg.R10)
	x.MOVQ(operand.U32(4*32), reg.R8)
	x.MOVQ(reg.RBX, reg.R11)
	x.SHLQ(operand.Imm(4), reg.R11) // 16 rows of b
	x.MOVQ(reg.RCX, reg.R12)
	x.SHLQ(operand.Imm(4), reg.R12) // 16 rows of a

	x.Label("block")
	x.MOVQ(reg.R9, reg.RAX)
	x.LEAQ(operand.Mem{Base: reg.R9, Index: reg.R12, Scale: 1}, reg.RSI)
	load("b", reg.RDX)
	load("k", reg.R13)
	for t := range tile(4) {
		tileZero(x, t)
	}
	x.Label("step")
	tileLoad(x, 4, numberA, numberLDA, 0)
	tileLoad(x, 6, numberB, numberLDB, 0)
	tileLoad(x, 7, numberB, numberLDB, 64)
	tileMultiply(x, 0, 4, 6)
	tileLoad(x, 5, numberLower, numberLDA, 0)
	tileMultiply(x, 1, 4, 7)
	tileMultiply(x, 2, 5, 6)
	tileMultiply(x, 3, 5, 7)
	x.ADDQ(operand.Imm(64), reg.RAX)
	x.ADDQ(operand.Imm(64), reg.RSI)
	x.ADDQ(reg.R11, reg.RDX)
	x.DECQ(reg.R13)
	x.JNZ(operand.LabelRef("step"))
	for t := range tile(4) {
		tileStore(x, t, numberC, byte(t%2)*64)
		if t%2 == 1 {
			x.ADDQ(operand.U32(16*4*32), reg.RDI)
		}
	}
	x.LEAQ(operand.Mem{Base: reg.R9, Index: reg.R12, Scale: 2}, reg.R9)
	x.DECQ(reg.R10)
	x.JNZ(operand.LabelRef("block"))
	tileRelease(x)
	x.RET()
}

// interleave makes pairs of two rows.
func interleave(v vec) {
	v.function("interleave", "func(dst *uint32, low, high *uint16, n int)", "joins n values of two rows, a positive multiple of 16.")
	dst, low, high, n := v.param("dst"), v.param("low"), v.param("high"), v.param("n")
	v.Label("loop")
	a, b := v.reg(), v.reg()
	v.VPMOVZXWD(asm.At(low, 0), a)
	v.VPMOVZXWD(asm.At(high, 0), b)
	v.VPSLLD(operand.Imm(16), b, b)
	v.VPORD(a, b, b)
	v.VMOVUPS(b, asm.At(dst, 0))
	v.ADDQ(operand.Imm(32), low)
	v.ADDQ(operand.Imm(32), high)
	v.ADDQ(operand.Imm(64), dst)
	v.SUBQ(operand.Imm(16), n)
	v.JNZ(v.label("loop"))
	v.end()
}

// finisher is what a product does with 32 columns of sums: bias, floor and gate,
// then bfloat16 for whole rows of 32 or float32 for cols of them.
type finisher struct {
	vec
	name string
	half bool
}

func (f finisher) write() {
	kind := "*float32"
	if f.half {
		kind = "*uint16"
	}
	f.function(f.name, "func(dst "+kind+", c, bias *float32, gate *uint16, rows, ldd, ldg, cols int, floor float32)",
		"stores max(c + bias, floor), or 0 where gate is 0, for rows ≥ 1 rows.")
	dst, c, biasAt, gate, rows := f.param("dst"), f.param("c"), f.param("bias"), f.param("gate"), f.param("rows")
	ldd, ldg := f.param("ldd"), f.param("ldg")
	masks := f.twoMasks("cols")
	bias, floor := f.regs(2), f.broadcast("floor")
	magnitude := f.constant(0x7fff)
	for i, r := range bias {
		f.VMOVUPS(asm.At(biasAt, 64*i), r)
	}
	one, half, quiet := f.constant(1), f.constant(0x7fff), f.constant(0x40)
	f.Label("row")
	sum := f.regs(2)
	for i, s := range sum {
		f.VADDPS(asm.At(c, 64*i), bias[i], s)
		f.VMAXPS(s, floor, s)
	}
	f.TESTQ(gate, gate)
	f.JZ(f.label("open"))
	for i, s := range sum {
		open, k := f.reg(), f.K()
		f.VPMOVZXWD(asm.At(gate, 32*i), open)
		f.VPTESTMD(magnitude, open, k)
		f.VMOVAPS_Z(s, k, s)
	}
	f.ADDQ(ldg, gate)
	f.Label("open")
	for i, s := range sum {
		if f.half {
			f.VPMOVDW(f.round(s, one, half, quiet), asm.At(dst, 32*i))
		} else {
			f.VMOVUPS(s, masks[i], asm.At(dst, 64*i))
		}
	}
	f.ADDQ(operand.U32(4*32), c)
	f.ADDQ(ldd, dst)
	f.DECQ(rows)
	f.JNZ(f.label("row"))
	f.end()
}

// twoMasks returns the masks of two registers for the columns of a parameter.
func (v *vec) twoMasks(param string) [2]reg.OpmaskVirtual {
	cols, ones := v.param(param), v.GP64()
	v.MOVQ(operand.I64(-1), ones)
	v.BZHIQ(cols, ones, ones)
	m := [2]reg.OpmaskVirtual{v.K(), v.K()}
	v.KMOVW(ones.As32(), m[0])
	v.SHRQ(operand.Imm(16), ones)
	v.KMOVW(ones.As32(), m[1])
	return m
}

// accumulate adds 32 columns of sums to a matrix.
func accumulate(v vec) {
	v.function("accumulate", "func(dst, c *float32, rows, ldd, cols int)", "adds cols of 32 columns of c to dst.")
	dst, c, rows, ldd := v.param("dst"), v.param("c"), v.param("rows"), v.param("ldd")
	masks := v.twoMasks("cols")
	v.Label("row")
	for i, m := range masks {
		s := v.reg()
		v.VMOVUPS_Z(asm.At(dst, 64*i), m, s)
		v.VADDPS(asm.At(c, 64*i), s, s)
		v.VMOVUPS(s, m, asm.At(dst, 64*i))
	}
	v.ADDQ(operand.U32(4*32), c)
	v.ADDQ(ldd, dst)
	v.DECQ(rows)
	v.JNZ(v.label("row"))
	v.end()
}

// columnSumsBF16 adds the rows of a to 32 sums.
func columnSumsBF16(v vec) {
	v.function("columnSumsBF16", "func(sum *float32, a *uint16, rows, lda int)", "adds rows ≥ 1 rows of 32 values, lda bytes apart.")
	sum, a, rows, lda := v.param("sum"), v.param("a"), v.param("rows"), v.param("lda")
	acc := v.regs(2)
	for i, s := range acc {
		v.VMOVUPS(asm.At(sum, 64*i), s)
	}
	v.Label("row")
	for i, s := range acc {
		r := v.reg()
		v.VPMOVZXWD(asm.At(a, 32*i), r)
		v.VPSLLD(operand.Imm(16), r, r)
		v.VADDPS(r, s, s)
	}
	v.ADDQ(lda, a)
	v.DECQ(rows)
	v.JNZ(v.label("row"))
	for i, s := range acc {
		v.VMOVUPS(s, asm.At(sum, 64*i))
	}
	v.end()
}
