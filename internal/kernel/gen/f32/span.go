package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// span is a vector of variable length, processed one register at a time.
type span struct {
	vec
	at      reg.GPVirtual // bytes to the current register
	whole   reg.GPVirtual // bytes in full registers
	partial reg.Register  // mask of the rest
}

// split loads a length and returns it in bytes. The file needs a maskTable.
func (s *span) split(param string) reg.GPVirtual {
	n := s.param(param)
	rest := s.GP64()
	s.MOVQ(n, rest)
	s.ANDQ(operand.Imm(uint64(s.lanes-1)), rest)
	s.at, s.whole = s.GP64(), s.GP64()
	s.MOVQ(n, s.whole)
	s.SUBQ(rest, s.whole)
	s.SHLQ(operand.Imm(2), s.whole)
	s.SHLQ(operand.Imm(2), n)
	s.mask(rest)
	s.partial, s.cols = s.cols, nil
	return n
}

// columns runs body over the span. Loads and stores of the last register are masked if it
// is partial.
func (s *span) columns(name string, body func()) {
	s.XORQ(s.at, s.at)
	s.TESTQ(s.whole, s.whole)
	s.JZ(s.label("%s_rest", name))
	s.Label(name)
	body()
	s.ADDQ(operand.Imm(uint64(s.bytes())), s.at)
	s.CMPQ(s.at, s.whole)
	s.JLT(s.label("%s", name))
	s.Label(name + "_rest")
	if s.wide() {
		s.KORTESTW(s.partial, s.partial)
	} else {
		s.VPTEST(s.partial, s.partial)
	}
	s.JZ(s.label("%s_done", name))
	s.cols = s.partial
	body()
	s.cols = nil
	s.Label(name + "_done")
}

// get loads the current register of the span at p; put stores it.
func (s *span) get(p reg.GPVirtual) reg.VecVirtual {
	r := s.reg()
	s.load(asm.Indexed(p, s.at, 1, 0), r)
	return r
}

func (s *span) put(r reg.VecVirtual, p reg.GPVirtual) { s.store(r, asm.Indexed(p, s.at, 1, 0)) }
