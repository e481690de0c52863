package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// singles are bags of one row each. The row of bag b begins at[b] floats into a matrix.
//
// Every part of a row is read and written by unmasked operations of one size. A masked
// store cannot be forwarded to the load of the next bag, and rows of frequent keys are
// loaded again before a store has left the core.
type singles struct {
	v vec

	matrix, limit, n, at, add, row reg.GPVirtual
	side, stride, far              reg.GPVirtual // the bags' own values; bytes
	dim, whole, offset             reg.GPVirtual // bytes: of a row, of its full vectors, to the current part
}

// singlesAhead is how many bags ahead a bag and its row are prefetched. Between the bags of
// two chunks, products replace the contents of the caches.
const (
	logSinglesAhead = 4
	singlesAhead    = 1 << logSinglesAhead
)

// write writes the loop over the bags, with body for each part of a row.
func (s *singles) write(name, doc string, body func(p piece)) {
	s.v.function(name, "func(matrix *float32, limit int, bags *float32, stride, n, dim int, at *uint32, add int) (left int)",
		doc+" It stops before a row that begins past limit and returns how many bags are left.")
	s.matrix, s.limit = s.v.param("matrix"), s.v.param("limit")
	s.side, s.stride, s.n = s.v.param("bags"), s.v.floats("stride"), s.v.param("n")
	s.dim, s.at, s.add = s.v.floats("dim"), s.v.param("at"), s.v.param("add")
	s.whole, s.offset, s.row = s.v.GP64(), s.v.GP64(), s.v.GP64()
	s.v.MOVQ(s.dim, s.whole)
	s.v.ANDQ(operand.I32(-int32(s.v.bytes())), s.whole)
	s.far = s.v.GP64()
	s.v.MOVQ(s.stride, s.far)
	s.v.SHLQ(operand.Imm(logSinglesAhead), s.far)

	s.v.Label("bag")
	s.v.CMPQ(s.n, operand.Imm(singlesAhead))
	s.v.JLE(s.v.label("near"))
	s.v.MOVL(asm.At(s.at, 4*singlesAhead), s.row.As32())
	s.v.LEAQ(asm.Indexed(s.matrix, s.row, 4, 0), s.row)
	s.v.PREFETCHT0(asm.At(s.row, 0))
	s.v.PREFETCHT0(asm.Indexed(s.row, s.dim, 1, -4))
	s.v.LEAQ(asm.Indexed(s.side, s.far, 1, 0), s.row)
	s.v.PREFETCHT0(asm.At(s.row, 0))
	s.v.PREFETCHT0(asm.Indexed(s.row, s.dim, 1, -4))
	s.v.Label("near")
	s.v.MOVL(asm.At(s.at, 0), s.row.As32())
	s.v.CMPQ(s.row, s.limit)
	s.v.JGT(s.v.label("end"))
	s.v.LEAQ(asm.Indexed(s.matrix, s.row, 4, 0), s.row)
	s.pieces(body)
	s.v.ADDQ(operand.Imm(4), s.at)
	s.v.ADDQ(s.stride, s.side)
	s.v.DECQ(s.n)
	s.v.JNZ(s.v.label("bag"))
	s.v.Label("end")
	s.v.Store(s.n, s.v.ReturnIndex(0))
	s.v.end()
}

// pieces runs body over full vectors, and then over the halves, quarters and so on of the
// rest.
func (s *singles) pieces(body func(p piece)) {
	s.v.XORQ(s.offset, s.offset)
	s.v.TESTQ(s.whole, s.whole)
	s.v.JZ(s.v.label("rest"))
	s.v.Label("vector")
	body(piece{s, s.v.bytes()})
	s.v.ADDQ(operand.Imm(uint64(s.v.bytes())), s.offset)
	s.v.CMPQ(s.offset, s.whole)
	s.v.JLT(s.v.label("vector"))
	s.v.Label("rest")
	for bytes := s.v.bytes() / 2; bytes >= 4; bytes /= 2 {
		s.v.TESTQ(operand.U32(uint32(bytes)), s.dim)
		s.v.JZ(s.v.label("no%d", bytes))
		body(piece{s, bytes})
		if bytes > 4 {
			s.v.ADDQ(operand.Imm(uint64(bytes)), s.offset)
		}
		s.v.Label(string(s.v.label("no%d", bytes)))
	}
}

// piece is a part of the current row and bag: 4 to 64 bytes, a power of two.
type piece struct {
	s    *singles
	size int
}

func (p piece) reg() reg.VecVirtual {
	switch p.size {
	case 64:
		return p.s.v.ZMM()
	case 32:
		return p.s.v.YMM()
	}
	return p.s.v.XMM()
}

func (p piece) get(from reg.GPVirtual, r reg.VecVirtual) {
	m := asm.Indexed(from, p.s.offset, 1, 0)
	switch p.size {
	case 8:
		p.s.v.VMOVSD(m, r)
	case 4:
		p.s.v.VMOVSS(m, r)
	default:
		p.s.v.VMOVUPS(m, r)
	}
}

func (p piece) put(r reg.VecVirtual, to reg.GPVirtual) {
	m := asm.Indexed(to, p.s.offset, 1, 0)
	switch p.size {
	case 8:
		p.s.v.VMOVSD(r, m)
	case 4:
		p.s.v.VMOVSS(r, m)
	default:
		p.s.v.VMOVUPS(r, m)
	}
}

func (s *singles) pool() {
	s.write("poolSingles", "sets each of n ≥ 1 bags to its row of dim ≥ 1 values, or adds it.", func(p piece) {
		sum, row := p.reg(), p.reg()
		s.v.VXORPS(sum.AsX(), sum.AsX(), sum.AsX()) // clears the whole register
		s.v.TESTQ(s.add, s.add)
		s.v.JZ(s.v.label("set%d", p.size))
		p.get(s.side, sum)
		s.v.Label(string(s.v.label("set%d", p.size)))
		p.get(s.row, row)
		s.v.VADDPS(row, sum, sum)
		p.put(sum, s.side)
	})
}

func (s *singles) grad() {
	s.write("poolGradSingles", "adds each of n ≥ 1 bags to its row of dim ≥ 1 values. add is not used.", func(p piece) {
		sum, bag := p.reg(), p.reg()
		p.get(s.row, sum)
		p.get(s.side, bag)
		s.v.VADDPS(bag, sum, sum)
		p.put(sum, s.row)
	})
}
