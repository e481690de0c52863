// Command eight writes the assembly of package internal/kernel/eight:
//
//	go -C internal/kernel/gen run ./eight
package main

import (
	"log"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

func main() {
	f := asm.File{Package: "eight", Name: "hash", Body: hash}
	if err := f.Write(".."); err != nil {
		log.Fatal(err)
	}
}

// hash mixes 32 words at a time, then eight.
func hash(x *build.Context) {
	x.Function("hashAVX512")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("hashAVX512 mixes n > 0 words, a multiple of 8, as Hash does.")
	x.SignatureExpr("func(words *uint64, n int, flip uint64)")
	words, n := asm.Param(x, "words"), asm.Param(x, "n")
	m := mixer{Context: x, flip: spread(x, asm.Param(x, "flip")), prime: x.ZMM(), eight: x.ZMM()}
	r := x.GP64()
	x.MOVQ(operand.U64(0x9fb21c651e98df25), r)
	m.prime = spread(x, r)
	x.MOVQ(operand.U32(8), r)
	m.eight = spread(x, r)
	x.Label("many")
	x.CMPQ(n, operand.Imm(32))
	x.JLT(operand.LabelRef("few"))
	m.mix(words, 4)
	x.ADDQ(operand.U32(256), words)
	x.SUBQ(operand.Imm(32), n)
	x.JMP(operand.LabelRef("many"))
	x.Label("few")
	x.TESTQ(n, n)
	x.JLE(operand.LabelRef("done"))
	m.mix(words, 1)
	x.ADDQ(operand.Imm(64), words)
	x.SUBQ(operand.Imm(8), n)
	x.JMP(operand.LabelRef("few"))
	x.Label("done")
	x.VZEROUPPER()
	x.RET()
}

func spread(x *build.Context, r reg.GPVirtual) reg.VecVirtual {
	v := x.ZMM()
	x.VPBROADCASTQ(r, v)
	return v
}

// mixer holds the constants of mix.
type mixer struct {
	*build.Context
	flip, prime, eight reg.VecVirtual
}

// mix mixes times times eight words in parallel.
func (x mixer) mix(words reg.Register, times int) {
	v, a, b := make([]reg.VecVirtual, times), make([]reg.VecVirtual, times), make([]reg.VecVirtual, times)
	each := func(do func(i int)) {
		for i := range times {
			do(i)
		}
	}
	each(func(i int) { v[i], a[i], b[i] = x.ZMM(), x.ZMM(), x.ZMM() })
	each(func(i int) { x.VPROLQ(operand.Imm(32), asm.At(words, 64*i), v[i]) })
	each(func(i int) { x.VPXORQ(x.flip, v[i], v[i]) })
	each(func(i int) { x.VPROLQ(operand.Imm(49), v[i], a[i]) })
	each(func(i int) { x.VPROLQ(operand.Imm(24), v[i], b[i]) })
	each(func(i int) { x.VPTERNLOGQ(operand.U8(0x96), a[i], b[i], v[i]) }) // the xor of three
	each(func(i int) { x.VPMULLQ(x.prime, v[i], v[i]) })
	each(func(i int) { x.VPSRLQ(operand.Imm(35), v[i], a[i]) })
	each(func(i int) { x.VPADDQ(x.eight, a[i], a[i]) })
	each(func(i int) { x.VPXORQ(a[i], v[i], v[i]) })
	each(func(i int) { x.VPMULLQ(x.prime, v[i], v[i]) })
	each(func(i int) { x.VPSRLQ(operand.Imm(28), v[i], a[i]) })
	each(func(i int) { x.VPXORQ(a[i], v[i], v[i]) })
	each(func(i int) { x.VMOVDQU64(v[i], asm.At(words, 64*i)) })
}
