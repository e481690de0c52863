package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

// mixer computes hashes of eight keys at once, like function hash of package table.
type mixer struct {
	*build.Context
	salt   reg.VecVirtual
	primes [2]reg.VecVirtual
}

func newMixer(x *build.Context) mixer {
	m := mixer{Context: x, salt: broadcast(x, asm.Param(x, "salt"))}
	for i, prime := range [2]uint64{0xbf58476d1ce4e5b9, 0x94d049bb133111eb} {
		r := x.GP64()
		x.MOVQ(operand.U64(prime), r)
		m.primes[i] = broadcast(x, r)
	}
	return m
}

// mix sets each h to the hashes of eight keys.
func (x mixer) mix(keys, h []reg.VecVirtual) {
	shifted := make([]reg.VecVirtual, len(h))
	for i := range h {
		shifted[i] = x.ZMM()
		x.VPXORQ(x.salt, keys[i], h[i])
	}
	for step, shift := range [3]uint8{30, 27, 31} {
		for i := range h {
			x.VPSRLQ(operand.Imm(uint64(shift)), h[i], shifted[i])
		}
		for i := range h {
			x.VPXORQ(shifted[i], h[i], h[i])
		}
		for i := range h {
			if step < 2 {
				x.VPMULLQ(x.primes[step], h[i], h[i])
			}
		}
	}
}

// hashKeys computes the hashes of keys, 32 at a time and then eight.
func hashKeys(x *build.Context) {
	x.Function("hashEights")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("hashEights writes the hashes of n > 0 keys, a multiple of 8, to hashes.")
	x.SignatureExpr("func(hashes, keys *uint64, n int, salt uint64)")
	hashes, keys, n := asm.Param(x, "hashes"), asm.Param(x, "keys"), asm.Param(x, "n")
	m := newMixer(x)
	some := func(times int) {
		h := make([]reg.VecVirtual, times)
		for i := range h {
			h[i] = x.ZMM()
			x.VMOVDQU64(asm.At(keys, 64*i), h[i])
		}
		m.mix(h, h)
		for i := range h {
			x.VMOVDQU64(h[i], asm.At(hashes, 64*i))
		}
		x.ADDQ(operand.I32(64*times), keys)
		x.ADDQ(operand.I32(64*times), hashes)
		x.SUBQ(operand.Imm(uint64(8*times)), n)
	}
	x.Label("many")
	x.CMPQ(n, operand.Imm(32))
	x.JLT(operand.LabelRef("few"))
	some(4)
	x.JMP(operand.LabelRef("many"))
	x.Label("few")
	x.TESTQ(n, n)
	x.JLE(operand.LabelRef("done"))
	some(1)
	x.JMP(operand.LabelRef("few"))
	x.Label("done")
	x.VZEROUPPER()
	x.RET()
}

// matchKeys looks keys up in the first slots of a set. The result is added to a position
// instead of branched on, because which keys are new is unpredictable. Gathers of eight
// slots took five times as long on a Zen 4.
func matchKeys(x *build.Context) {
	x.Function("matchSlots16")
	x.Attributes(attr.NOSPLIT)
	x.Pragma("noescape")
	x.Doc("matchSlots16 writes the low halves of the tags in the first slots of n > 0 keys, at most 256, to ids, and returns how many slots have another key or epoch: which ones it writes to missed, which has room for n. Slots are 16 bytes each, key and tag.")
	x.SignatureExpr("func(keys, hashes *uint64, n int, slots *byte, mask, epoch uint64, ids *uint32, missed *byte) int")
	keys, hashes, n := asm.Param(x, "keys"), asm.Param(x, "hashes"), asm.Param(x, "n")
	slots, mask, epoch := asm.Param(x, "slots"), asm.Param(x, "mask"), asm.Param(x, "epoch")
	ids, missed := asm.Param(x, "ids"), asm.Param(x, "missed")
	i, found := x.GP64(), x.GP64()
	x.XORQ(i, i)
	x.XORQ(found, found)
	x.Label("key")
	slot, tag, differ := x.GP64(), x.GP64(), x.GP64()
	x.MOVQ(asm.Indexed(hashes, i, 8, 0), slot)
	x.ANDQ(mask, slot)
	x.SHLQ(operand.Imm(4), slot)
	x.MOVQ(asm.Indexed(slots, slot, 1, 0), differ)
	x.MOVQ(asm.Indexed(slots, slot, 1, 8), tag)
	x.XORQ(asm.Indexed(keys, i, 8, 0), differ)
	x.MOVL(tag.As32(), asm.Indexed(ids, i, 4, 0))
	x.MOVB(i.As8(), asm.Indexed(missed, found, 1, 0))
	x.SHRQ(operand.Imm(32), tag)
	x.XORQ(epoch, tag)
	x.ORQ(tag, differ)
	x.NEGQ(differ) // carries if it is not 0
	x.ADCQ(operand.Imm(0), found)
	x.INCQ(i)
	x.CMPQ(i, n)
	x.JLT(operand.LabelRef("key"))
	x.Store(found, x.ReturnIndex(0))
	x.RET()
}
