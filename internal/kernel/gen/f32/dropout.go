package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// golden is the distance of the words that dropout mixes.
var golden uint64 = 0x9e3779b97f4a7c15 // not a constant: its multiples wrap around

// dropout mixes words of 64 bits: a register of them for the values 0, 2, 4 … of a vector, and one for the values
// between. CPUs with AVX-512 run it, too.
func dropout(s *span) {
	odds := s.StaticGlobal("odds")
	s.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range lanesAVX2 / 2 {
		s.AddDatum(8*i, operand.U64(uint64(2*i+1)*golden))
	}
	s.function("dropout", "func(y, mask, x *float32, n int, at uint64, keep uint32, scale float32)",
		"sets mask to scale where the bits of Dropout are below keep and to 0 elsewhere, and y to x·mask, n ≥ 1 values.")
	y, mask, x := s.param("y"), s.param("mask"), s.param("x")
	s.split("n")
	keep, scale, words := s.broadcast("keep"), s.broadcast("scale"), s.reg()
	s.VPBROADCASTQ(s.stack("at"), words)
	s.VPADDQ(odds, words, words)
	first, second := s.factor(0xbf58476d1ce4e5b9), s.factor(0x94d049bb133111eb)
	lanes := uint64(s.lanes)
	one, next := s.word(golden), s.word(lanes*golden)
	s.columns("loop", func() {
		even, odd := s.reg(), s.reg()
		s.VMOVUPS(words, even)
		s.VPADDQ(one, words, odd)
		for _, v := range []reg.VecVirtual{even, odd} {
			s.fold(30, v)
			first.times(v)
			s.fold(27, v)
			second.times(v)
			s.fold(31, v)
		}
		s.VPSRLQ(operand.Imm(32), even, even)
		s.VPBLENDD(operand.Imm(0xaa), odd, even, even)
		m := s.below(even, keep, scale)
		s.put(m, mask)
		r := s.get(x)
		s.VMULPS(m, r, r)
		s.put(r, y)
		s.VPADDQ(next, words, words)
	})
	s.end()
}

// word returns a register with a word of 64 bits in every lane.
func (v *vec) word(bits uint64) reg.VecVirtual {
	g, low, r := v.GP64(), v.XMM(), v.reg()
	v.MOVQ(operand.U64(bits), g)
	v.VMOVQ(g, low)
	v.VPBROADCASTQ(low, r)
	return r
}

// fold combines the words of r by exclusive or with themselves, shifted right by n bits.
func (v *vec) fold(n uint64, r reg.VecVirtual) {
	t := v.reg()
	v.VPSRLQ(operand.Imm(n), r, t)
	v.VPXOR(t, r, r)
}

// factor is a factor of words.
type factor struct {
	*vec
	low, high reg.VecVirtual
}

func (v *vec) factor(c uint64) factor {
	return factor{v, v.word(c), v.word(c >> 32)}
}

// times multiplies the words of r. AVX2 has products of 32 bits only.
func (f factor) times(r reg.VecVirtual) {
	t, high := f.reg(), f.reg()
	f.VPSRLQ(operand.Imm(32), r, t)
	f.VPMULUDQ(t, f.low, t)
	f.VPMULUDQ(r, f.high, high)
	f.VPADDQ(t, high, high)
	f.VPSLLQ(operand.Imm(32), high, high)
	f.VPMULUDQ(r, f.low, r)
	f.VPADDQ(high, r, r)
}

// below returns scale in the lanes in which bits, without a sign, are below keep, and 0 in the others.
func (v *vec) below(bits, keep, scale reg.VecVirtual) reg.VecVirtual {
	r := v.reg()
	v.VPMAXUD(bits, keep, r)
	v.VPCMPEQD(bits, r, r)
	v.VPANDN(scale, r, r)
	return r
}
