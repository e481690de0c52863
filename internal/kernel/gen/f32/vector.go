package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// vec writes code for one vector width, so that one description of a kernel covers AVX2 and
// AVX-512. cols, if set, is the mask of the lanes that a partial vector may access.
type vec struct {
	*build.Context
	name  string // suffix of the functions' names
	lanes int
	cols  reg.Register

	literals map[float64]operand.Mem // constants of the file
}

const (
	lanesAVX2   = 8
	lanesAVX512 = 16
)

func vectors(x *build.Context) []vec {
	literals := map[float64]operand.Mem{}
	return []vec{
		{Context: x, name: "AVX2", lanes: lanesAVX2, literals: literals},
		{Context: x, name: "AVX512", lanes: lanesAVX512, literals: literals},
	}
}

// function begins a function named for the width.
func (v *vec) function(name, signature, doc string) {
	v.cols = nil
	v.Function(name + v.name)
	v.Attributes(attr.NOSPLIT)
	v.Pragma("noescape")
	v.Doc(name + v.name + " " + doc)
	v.SignatureExpr(signature)
}

// end returns from the function. It clears the upper halves, so that later SSE code runs at
// full speed.
func (v *vec) end() {
	v.VZEROUPPER()
	v.RET()
}

func (v *vec) wide() bool { return v.lanes == lanesAVX512 }
func (v *vec) bytes() int { return 4 * v.lanes }

// reg returns a new vector register.
func (v *vec) reg() reg.VecVirtual {
	if v.wide() {
		return v.ZMM()
	}
	return v.YMM()
}

func (v *vec) regs(n int) []reg.VecVirtual {
	r := make([]reg.VecVirtual, n)
	for i := range r {
		r[i] = v.reg()
	}
	return r
}

// zero returns a register of zeros.
func (v *vec) zero() reg.VecVirtual {
	r := v.reg()
	v.clear(r)
	return r
}

func (v *vec) clear(r reg.Register) {
	if v.wide() {
		v.VPXORD(r, r, r)
	} else {
		v.VXORPS(r, r, r)
	}
}

// maskTable is the source of AVX2 masks: 8 lanes of ones, then 8 of zeros.
func maskTable(x *build.Context) {
	x.StaticGlobal("lanes")
	x.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 2 * lanesAVX2 {
		x.AddDatum(4*i, operand.U32(uint32(0xffffffff*((2*lanesAVX2-1-i)/lanesAVX2))))
	}
}

// mask makes count, from 0 to lanes, the number of lanes that masked loads and stores
// access. count is overwritten. The file needs a maskTable.
func (v *vec) mask(count reg.GPVirtual) {
	if v.wide() {
		ones := v.GP64()
		v.MOVQ(operand.I64(-1), ones)
		v.BZHIQ(count, ones, ones)
		v.cols = v.K()
		v.KMOVW(ones.As32(), v.cols)
		return
	}
	base := v.GP64()
	v.LEAQ(operand.NewDataAddr(operand.NewStaticSymbol("lanes"), 0), base)
	v.NEGQ(count)
	v.cols = v.YMM()
	v.VMOVUPS(asm.Indexed(base, count, 4, 4*lanesAVX2), v.cols)
}

// load reads a vector. Lanes outside the mask become zero; their memory is not accessed.
func (v *vec) load(m operand.Mem, r reg.Register) {
	switch {
	case v.cols == nil:
		v.VMOVUPS(m, r)
	case v.wide():
		v.VMOVUPS_Z(m, v.cols, r)
	default:
		v.VMASKMOVPS(m, v.cols, r)
	}
}

// store writes a vector. Memory outside the mask is not accessed.
func (v *vec) store(r reg.Register, m operand.Mem) {
	switch {
	case v.cols == nil:
		v.VMOVUPS(r, m)
	case v.wide():
		v.VMOVUPS(r, v.cols, m)
	default:
		v.VMASKMOVPS(r, v.cols, m)
	}
}

// broadcast returns a register with the parameter in every lane.
func (v *vec) broadcast(param string) reg.VecVirtual {
	m, r := v.stack(param), v.reg()
	v.VBROADCASTSS(m, r)
	return r
}

// zeroUnless zeroes the lanes of s in which a and b are not in the relation.
func (v *vec) zeroUnless(s reg.VecVirtual, relation uint64, a, b reg.VecVirtual) {
	if v.wide() {
		m := v.K()
		v.VCMPPS(operand.Imm(relation), b, a, m)
		v.VMOVAPS_Z(s, m, s)
		return
	}
	m := v.reg()
	v.VCMPPS(operand.Imm(relation), b, a, m)
	v.VANDPS(m, s, s)
}

// constant returns a register with these bits in every lane.
func (v *vec) constant(bits uint32) reg.VecVirtual {
	g, low, r := v.GP32(), v.XMM(), v.reg()
	v.MOVL(operand.U32(bits), g)
	v.VMOVD(g, low)
	v.VBROADCASTSS(low, r)
	return r
}

// param loads a parameter of 64 bits.
func (v *vec) param(name string) reg.GPVirtual { return asm.Param(v.Context, name) }

// stack returns the location of a parameter on the stack, to save a register.
func (v *vec) stack(name string) operand.Mem {
	c, err := v.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return c.Addr
}

// floats loads a count of floats and converts it to bytes.
func (v *vec) floats(name string) reg.GPVirtual {
	r := v.param(name)
	v.SHLQ(operand.Imm(2), r)
	return r
}

// label returns a jump target of this function.
func (v *vec) label(format string, args ...any) operand.LabelRef {
	return operand.LabelRef(fmt.Sprintf(format, args...))
}
