package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// Sizes of package table: the parts of its curves, and the bits of a random word.
const (
	logBits, turnBits, wordBits = 7, 8, 52
	turns                       = 16 << logBits // offset of the second table of curves
	stride                      = 0x9e3779b97f4a7c15
	slack                       = 0x1p-40
	nearOne                     = 0x1p-7
)

// pairs computes four pairs of normal values at once, like curves.polar of package table.
type pairs struct {
	*build.Context
	literals map[uint64]operand.Mem
}

// word returns a constant from memory in every lane.
func (x *pairs) word(v uint64) reg.VecVirtual {
	m, ok := x.literals[v]
	if !ok {
		m = x.ConstData(fmt.Sprintf("word%d", len(x.literals)), operand.U64(v))
		x.literals[v] = m
	}
	r := x.YMM()
	x.VBROADCASTSD(m, r)
	return r
}

func (x *pairs) float(v float64) reg.VecVirtual { return x.word(math.Float64bits(v)) }

// two returns the result of an instruction with two operands, in the order of Go's assembler:
// a difference is b − a.
func (x *pairs) two(f func(...operand.Op), a, b reg.VecVirtual) reg.VecVirtual {
	r := x.YMM()
	f(a, b, r)
	return r
}

func (x *pairs) shifted(f func(...operand.Op), n uint64, v reg.VecVirtual) reg.VecVirtual {
	r := x.YMM()
	f(operand.Imm(n), v, r)
	return r
}

// times multiplies the words of v by a constant. AVX2 has products of 32 bits only.
func (x *pairs) times(c uint64, v reg.VecVirtual) reg.VecVirtual {
	low := x.word(c)
	high := x.two(x.VPADDQ, x.two(x.VPMULUDQ, x.shifted(x.VPSRLQ, 32, v), low), x.two(x.VPMULUDQ, v, x.word(c>>32)))
	return x.two(x.VPADDQ, x.two(x.VPMULUDQ, v, low), x.shifted(x.VPSLLQ, 32, high))
}

// mix returns the high wordBits of function mix of package table.
func (x *pairs) mix(v reg.VecVirtual) reg.VecVirtual {
	v = x.times(0xbf58476d1ce4e5b9, x.two(x.VXORPD, v, x.shifted(x.VPSRLQ, 30, v)))
	v = x.times(0x94d049bb133111eb, x.two(x.VXORPD, v, x.shifted(x.VPSRLQ, 27, v)))
	v = x.two(x.VXORPD, v, x.shifted(x.VPSRLQ, 31, v))
	return x.shifted(x.VPSRLQ, 64-wordBits, v)
}

// number converts words below 2⁵² to floats, less a constant for which that is exact.
func (x *pairs) number(v reg.VecVirtual, less float64) reg.VecVirtual {
	v = x.two(x.VORPD, v, x.word(math.Float64bits(1<<52)))
	return x.two(x.VSUBPD, x.float(1<<52+less), v)
}

// look returns the entries of a table of pairs of floats. Loads of whole entries are faster
// than gathers.
func (x *pairs) look(base reg.Register, disp int, entries reg.VecVirtual) (first, second reg.VecVirtual) {
	bytes, upper := x.shifted(x.VPSLLQ, 4, entries), x.XMM()
	x.VEXTRACTI128(operand.Imm(1), bytes, upper)
	var at [4]reg.GPVirtual
	for i, half := range [2]reg.Register{bytes.AsX(), upper} {
		at[2*i], at[2*i+1] = x.GP64(), x.GP64()
		x.VMOVQ(half, at[2*i])
		x.VPEXTRQ(operand.Imm(1), half, at[2*i+1])
	}
	two := func(low, high reg.Register) reg.VecVirtual {
		r := x.YMM()
		x.VMOVUPD(asm.Indexed(base, low, 1, disp), r.AsX())
		x.VINSERTF128(operand.Imm(1), asm.Indexed(base, high, 1, disp), r, r)
		return r
	}
	even, odd := two(at[0], at[2]), two(at[1], at[3])
	return x.two(x.VUNPCKLPD, odd, even), x.two(x.VUNPCKHPD, odd, even)
}

// series returns c[0] + x·(c[1] + x·(…)).
func (x *pairs) series(at reg.VecVirtual, c ...float64) reg.VecVirtual {
	sum := x.float(c[len(c)-1])
	for i := len(c) - 2; i >= 0; i-- {
		x.VFMADD213PD(x.float(c[i]), at, sum)
	}
	return sum
}

// logarithm returns ln of (word + ½)/2⁵².
func (x *pairs) logarithm(curves reg.Register, word reg.VecVirtual) reg.VecVirtual {
	v := x.number(word, -0.5)
	entries := x.two(x.VANDPD, x.shifted(x.VPSRLQ, wordBits-logBits, v), x.word(1<<logBits-1))
	inverse, log := x.look(curves, 0, entries)
	d := x.two(x.VORPD, x.two(x.VANDPD, v, x.word(1<<wordBits-1)), x.float(1))
	x.VFMSUB213PD(x.float(1), inverse, d)
	series := x.series(d, 1, -1./2, 1./3, -1./4, 1./5)
	x.VFMADD213PD(log, d, series)
	exponent := x.number(x.shifted(x.VPSRLQ, wordBits, v), 1023+wordBits)
	x.VFMADD231PD(x.float(math.Ln2), exponent, series)
	return series
}

// turned returns sine and cosine of (word + ½)/2⁵² turns.
func (x *pairs) turned(curves reg.Register, word reg.VecVirtual) (sin, cos reg.VecVirtual) {
	const rest = wordBits - turnBits
	sine, cosine := x.look(curves, turns, x.shifted(x.VPSRLQ, rest, word))
	at := x.number(x.two(x.VANDPD, word, x.word(1<<rest-1)), 1<<(rest-1))
	at = x.two(x.VMULPD, x.float(2*math.Pi/(1<<wordBits)), x.two(x.VADDPD, x.float(0.5), at))
	square := x.two(x.VMULPD, at, at)
	s := x.two(x.VMULPD, at, x.series(square, 1, -1./6, 1./120))
	c := x.series(square, 1, -1./2, 1./24, -1./720)
	sin, cos = x.two(x.VMULPD, sine, c), x.two(x.VMULPD, cosine, c)
	x.VFMADD231PD(s, cosine, sin)
	x.VFNMADD231PD(s, sine, cos)
	return sin, cos
}

// settled returns v as float32, and in which lanes every number within err of v has the same
// bits.
func (x *pairs) settled(v, err reg.VecVirtual) (low, same reg.VecVirtual) {
	low, same = x.XMM(), x.XMM()
	x.VCVTPD2PSY(x.two(x.VSUBPD, err, v), low)
	x.VCVTPD2PSY(x.two(x.VADDPD, err, v), same)
	x.VPCMPEQD(low, same, same)
	return low, same
}

// normals writes the function normalEights.
func normals(ctx *build.Context) {
	offsets := func(name string, first uint64) operand.Mem {
		m := ctx.StaticGlobal(name)
		ctx.DataAttributes(attr.RODATA | attr.NOPTR)
		for i := range uint64(4) {
			step := first + 2*i
			ctx.AddDatum(int(8*i), operand.U64(step*stride))
		}
		return m
	}
	odd, even := offsets("odd", 1), offsets("even", 2)
	x := &pairs{Context: ctx, literals: map[uint64]operand.Mem{}}
	x.Function("normalEights")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("normalEights writes normally distributed values to n floats, a positive multiple of 8, and returns how many it wrote before eight of which one is not settled.")
	x.SignatureExpr("func(curves *byte, state uint64, scale float64, w *float32, n int) int")
	curves, state, w, n := asm.Param(ctx, "curves"), asm.Param(ctx, "state"), asm.Param(ctx, "w"), asm.Param(ctx, "n")
	scale, done, mask := x.YMM(), x.GP64(), x.GP32()
	param, err := x.Param("scale").Resolve()
	if err != nil {
		panic(err)
	}
	x.VBROADCASTSD(param.Addr, scale)
	x.XORQ(done, done)

	x.Label("eight")
	low, from := x.XMM(), x.YMM()
	x.VMOVQ(state, low)
	x.VPBROADCASTQ(low, from)
	a, b := x.YMM(), x.YMM()
	x.VPADDQ(odd, from, a)
	x.VPADDQ(even, from, b)
	log := x.logarithm(curves, x.mix(a))
	exact := x.YMM()
	const less = 1
	x.VCMPPD(operand.Imm(less), x.float(-nearOne), log, exact)
	x.VMOVMSKPD(exact, mask)
	x.CMPL(mask, operand.Imm(15))
	x.JNE(operand.LabelRef("end"))
	radius := x.YMM()
	x.VSQRTPD(x.two(x.VMULPD, x.float(-2), log), radius)
	x.VMULPD(scale, radius, radius)
	sin, cos := x.turned(curves, x.mix(b))
	margin := x.two(x.VMULPD, x.float(slack), radius)
	first, same := x.settled(x.two(x.VMULPD, radius, cos), margin)
	second, also := x.settled(x.two(x.VMULPD, radius, sin), margin)
	x.VPAND(also, same, same)
	x.VMOVMSKPS(same, mask)
	x.CMPL(mask, operand.Imm(15))
	x.JNE(operand.LabelRef("end"))
	front, back := x.XMM(), x.XMM()
	x.VUNPCKLPS(second, first, front)
	x.VUNPCKHPS(second, first, back)
	x.VMOVUPS(front, asm.At(w, 0))
	x.VMOVUPS(back, asm.At(w, 16))
	x.ADDQ(operand.Imm(32), w)
	x.ADDQ(operand.Imm(8), done)
	step := x.GP64()
	eight := uint64(8)
	x.MOVQ(operand.U64(eight*stride), step)
	x.ADDQ(step, state)
	x.CMPQ(done, n)
	x.JLT(operand.LabelRef("eight"))
	x.Label("end")
	x.VZEROUPPER()
	x.Store(done, x.ReturnIndex(0))
	x.RET()
}
