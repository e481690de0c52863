package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// elements writes the kernels on one or two vectors.
func elements(x *build.Context) {
	maskTable(x)
	for _, v := range vectors(x) {
		axpy(&span{vec: v})
		scale(&span{vec: v})
		reluGrad(&span{vec: v})
		mulTo(&span{vec: v})
		if !v.wide() {
			dropout(&span{vec: v})
		}
		finite(&span{vec: v})
		sumSquares(&span{vec: v})
		toBF16(v)
		fromBF16(v)
	}
}

func axpy(s *span) {
	s.function("axpy", "func(y, x *float32, n int, alpha float32)", "adds alpha·x to y, n ≥ 1 values, without fusing.")
	y, x := s.param("y"), s.param("x")
	s.split("n")
	alpha := s.broadcast("alpha")
	s.columns("loop", func() {
		r, sum := s.get(x), s.get(y)
		s.VMULPS(alpha, r, r)
		s.VADDPS(r, sum, sum)
		s.put(sum, y)
	})
	s.end()
}

func scale(s *span) {
	s.function("scale", "func(x *float32, n int, alpha float32)", "multiplies x, n ≥ 1 values, by alpha.")
	x := s.param("x")
	s.split("n")
	alpha := s.broadcast("alpha")
	s.columns("loop", func() {
		r := s.get(x)
		s.VMULPS(alpha, r, r)
		s.put(r, x)
	})
	s.end()
}

func reluGrad(s *span) {
	s.function("reluGrad", "func(dy, y *float32, n int)", "zeroes dy, n ≥ 1 values, where y is 0.")
	dy, y := s.param("dy"), s.param("y")
	s.split("n")
	zero := s.zero()
	s.columns("loop", func() {
		const notEqualOrNaN = 4
		r := s.get(dy)
		s.zeroUnless(r, notEqualOrNaN, s.get(y), zero)
		s.put(r, dy)
	})
	s.end()
}

func mulTo(s *span) {
	s.function("mulTo", "func(y, x *float32, n int)", "multiplies y by x, n ≥ 1 values each.")
	y, x := s.param("y"), s.param("x")
	s.split("n")
	s.columns("loop", func() {
		r := s.get(y)
		s.VMULPS(s.get(x), r, r)
		s.put(r, y)
	})
	s.end()
}

// finite keeps the largest magnitude of x as an integer. Values that are not finite are at
// least infinity, 0x7f800000.
func finite(s *span) {
	s.function("finite", "func(x *float32, n int) bool", "reports whether all of x, n ≥ 1 values, are finite.")
	x := s.param("x")
	s.split("n")
	abs, most := s.constant(0x7fffffff), s.zero()
	s.columns("loop", func() {
		r := s.get(x)
		s.VANDPS(abs, r, r)
		s.VPMAXSD(r, most, most)
	})
	bits, ok := s.GP32(), s.GP8()
	if s.wide() {
		k := s.K()
		s.VPCMPGTD(s.constant(0x7f7fffff), most, k)
		s.KMOVW(k, bits)
	} else {
		s.VPCMPGTD(s.constant(0x7f7fffff), most, most)
		s.VMOVMSKPS(most, bits)
	}
	s.VZEROUPPER()
	s.TESTL(bits, bits)
	s.SETEQ(ok)
	s.Store(ok, s.ReturnIndex(0))
	s.RET()
}

// sumSquares adds the square of element i, in float64, to sum i mod 8.
func sumSquares(s *span) {
	s.function("sumSquares", "func(sums *float64, x *float32, n int)", "sets the 8 sums of the squares of x, n ≥ 1 values.")
	sums, x := s.param("sums"), s.param("x")
	s.split("n")
	acc := s.newSums()
	s.columns("loop", func() {
		for i, r := range s.doubles(s.get(x)) {
			s.VMULPD(r, r, r)
			s.VADDPD(r, acc.of(i), acc.of(i))
		}
	})
	acc.store(sums)
	s.end()
}

// sums are eight sums in float64. Element i is added to sum i mod 8 for either register
// width.
type sums struct {
	*vec
	acc []reg.VecVirtual
}

func (v *vec) newSums() sums {
	s := sums{v, []reg.VecVirtual{v.zero()}}
	if !v.wide() {
		s.acc = append(s.acc, v.zero())
	}
	return s
}

// of returns the sums for half i of a register of floats.
func (s sums) of(i int) reg.VecVirtual { return s.acc[i%len(s.acc)] }

func (s sums) store(p reg.Register) {
	for i, r := range s.acc {
		s.VMOVUPD(r, asm.At(p, i*s.bytes()))
	}
}

// doubles returns the halves of a register of floats as registers of doubles.
func (v *vec) doubles(r reg.VecVirtual) [2]reg.VecVirtual {
	low, high := v.reg(), v.reg()
	if v.wide() {
		upper := v.YMM()
		v.VEXTRACTF64X4(operand.Imm(1), r, upper)
		v.VCVTPS2PD(upper, high)
		v.VCVTPS2PD(r.AsY(), low)
	} else {
		upper := v.XMM()
		v.VEXTRACTF128(operand.Imm(1), r, upper)
		v.VCVTPS2PD(upper, high)
		v.VCVTPS2PD(r.AsX(), low)
	}
	return [2]reg.VecVirtual{low, high}
}

// toBF16 keeps the upper half of a float, rounded to nearest even. A NaN stays a NaN
// because the highest bit of its fraction is set.
func toBF16(v vec) {
	v.function("toBF16", "func(dst *uint16, src *float32, n int)", "converts n values, a positive multiple of the register.")
	dst, src, n := v.param("dst"), v.param("src"), v.param("n")
	one, half, quiet := v.constant(1), v.constant(0x7fff), v.constant(0x40)
	v.Label("loop")
	x := v.reg()
	v.VMOVUPS(asm.At(src, 0), x)
	x = v.round(x, one, half, quiet)
	if v.wide() {
		v.VPMOVDW(x, asm.At(dst, 0))
	} else {
		const evenQuarters = 0x08
		v.VPACKUSDW(x, x, x)
		v.VPERMQ(operand.Imm(evenQuarters), x, x)
		v.VMOVUPS(x.AsX(), asm.At(dst, 0))
	}
	v.ADDQ(operand.Imm(uint64(v.bytes())), src)
	v.ADDQ(operand.Imm(uint64(v.bytes()/2)), dst)
	v.SUBQ(operand.Imm(uint64(v.lanes)), n)
	v.JNZ(v.label("loop"))
	v.end()
}

// round returns the upper halves of x, rounded, as 32-bit integers.
func (v *vec) round(x, one, half, quiet reg.VecVirtual) (rounded reg.VecVirtual) {
	const unordered = 3
	up, rounded := v.reg(), v.reg()
	v.VPSRLD(operand.Imm(16), x, up)
	v.VANDPS(one, up, rounded)
	v.VPADDD(half, rounded, rounded)
	v.VPADDD(x, rounded, rounded)
	v.VPSRLD(operand.Imm(16), rounded, rounded)
	v.VORPS(quiet, up, up)
	if v.wide() {
		k := v.K()
		v.VCMPPS(operand.Imm(unordered), x, x, k)
		v.VMOVAPS(up, k, rounded)
		return rounded
	}
	nan := v.reg()
	v.VCMPPS(operand.Imm(unordered), x, x, nan)
	v.VBLENDVPS(nan, up, rounded, rounded)
	return rounded
}

func fromBF16(v vec) {
	v.function("fromBF16", "func(dst *float32, src *uint16, n int)", "converts n values, a positive multiple of the register.")
	dst, src, n := v.param("dst"), v.param("src"), v.param("n")
	v.Label("loop")
	x := v.reg()
	v.VPMOVZXWD(asm.At(src, 0), x)
	v.VPSLLD(operand.Imm(16), x, x)
	v.VMOVUPS(x, asm.At(dst, 0))
	v.ADDQ(operand.Imm(uint64(v.bytes()/2)), src)
	v.ADDQ(operand.Imm(uint64(v.bytes())), dst)
	v.SUBQ(operand.Imm(uint64(v.lanes)), n)
	v.JNZ(v.label("loop"))
	v.end()
}
