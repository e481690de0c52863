package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// pair holds two rows of up to eight values in the halves of one register. This halves the
// instructions for the same arithmetic. A core then looks further ahead, and its unit for
// roots and divisions never waits for the next rows.
type pair struct {
	record, grads [2]reg.GPVirtual
	masks         [2]reg.Register // of the lower half and of the upper one; nil: eight values
}

// pairs writes the update rules over many rows of eight values and of fewer, for
// AVX-512.
func pairs(x *build.Context) {
	v := vectors(x)[1]
	for _, r := range rules() {
		for _, whole := range []bool{true, false} {
			(&update{span: span{vec: v}, rule: r, pair: &pair{}}).pairs(r.name, whole)
		}
	}
}

// pairs processes the rows two by two. An odd last row is in both halves.
func (u *update) pairs(name string, whole bool) {
	of, dims := "pairs", "up to 8"
	if whole {
		of, dims = "eights", "8"
	}
	u.function(of+name, "func(rows *byte, n, silent int, grads *float32, stride, dim, value, state, first, most, last int, k *float32, mark uint32)",
		"updates n ≥ 1 rows of "+dims+" values. With each pair except the last silent ones, it prefetches a later row: its lines from byte first on, most bytes of them, and byte last, and its mark.")
	next, n, stride := u.param("rows"), u.param("n"), u.floats("stride")
	p := u.pair
	u.w, u.state[0], u.state[1] = u.floats("value"), u.floats("state"), u.floats("dim")
	p.grads[0], p.grads[1], u.k = u.param("grads"), u.GP64(), u.param("k")
	p.record[0], p.record[1] = u.GP64(), u.GP64()
	u.keep()
	if !whole {
		u.halves()
	}
	u.ADDQ(u.state[0], u.state[1])
	u.args = map[string]reg.GPVirtual{"mark": u.arg("mark"), "first": u.arg("first"), "last": u.arg("last")}

	u.Label("row")
	u.MOVQ(asm.At(next, 0), p.record[0])
	u.mark(next, 0)
	u.CMPQ(n, operand.Imm(1))
	u.JE(u.label("alone"))
	u.MOVQ(asm.At(next, recordBytes), p.record[1])
	u.mark(next, 1)
	u.LEAQ(asm.Indexed(p.grads[0], stride, 1, 0), p.grads[1])
	u.CMPQ(n, u.stack("silent"))
	u.JLE(u.label("near"))
	u.prefetch(next, rowsAhead, "line")
	u.prefetch(next, rowsAhead+1, "other_line")
	u.Label("near")
	u.body(u)
	u.ADDQ(operand.Imm(2*recordBytes), next)
	u.LEAQ(asm.Indexed(p.grads[1], stride, 1, 0), p.grads[0])
	u.SUBQ(operand.Imm(2), n)
	u.JG(u.label("row"))
	u.end()
	u.Label("alone")
	u.MOVQ(p.record[0], p.record[1])
	u.MOVQ(p.grads[0], p.grads[1])
	u.JMP(u.label("near"))
}

// halves computes the masks of the first values for both halves. Their bytes are in the
// second state's register.
func (u *update) halves() {
	ones, count := u.GP64(), u.GP64()
	u.MOVQ(u.state[1], count)
	u.SHRQ(operand.Imm(2), count)
	u.MOVQ(operand.I64(-1), ones)
	u.BZHIQ(count, ones, ones)
	low, high := u.K(), u.K()
	u.KMOVW(ones.As32(), low)
	u.SHLQ(operand.Imm(lanesAVX2), ones)
	u.KMOVW(ones.As32(), high)
	u.pair.masks = [2]reg.Register{low, high}
}

// sides returns the memory of the vector at p in both rows.
func (u *update) sides(p reg.GPVirtual) (a, b operand.Mem) {
	if p == u.g {
		return asm.At(u.pair.grads[0], 0), asm.At(u.pair.grads[1], 0)
	}
	return asm.Indexed(u.pair.record[0], p, 1, 0), asm.Indexed(u.pair.record[1], p, 1, 0)
}

// get loads the vector at p, of both rows if they are processed in pairs; put stores it.
func (u *update) get(p reg.GPVirtual) reg.VecVirtual {
	if u.pair == nil {
		return u.span.get(p)
	}
	a, b := u.sides(p)
	r, masks := u.ZMM(), u.pair.masks
	if masks[0] == nil {
		u.VMOVUPS(a, r.AsY())
		u.VINSERTF32X8(operand.Imm(1), b, r, r)
	} else {
		u.VMOVUPS_Z(a, masks[0], r.AsY())
		u.VBROADCASTF32X8(b, masks[1], r)
	}
	return r
}

func (u *update) put(r reg.VecVirtual, p reg.GPVirtual) {
	if u.pair == nil {
		u.span.put(r, p)
		return
	}
	a, b := u.sides(p)
	if masks := u.pair.masks; masks[0] == nil {
		u.VMOVUPS(r.AsY(), a)
		u.VEXTRACTF32X8(operand.Imm(1), r, b)
	} else {
		high := u.YMM()
		u.VMOVUPS(r.AsY(), masks[0], a)
		u.VEXTRACTF32X8(operand.Imm(1), r, high) // a full store would write all eight
		u.VMOVUPS(high, masks[0], b)
	}
}
