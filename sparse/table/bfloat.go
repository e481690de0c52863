package table

import (
	"math"
	"unsafe"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// A bfloat16 is the upper half of a float32. Two of them share a word of a record. If their
// number is odd, the last one is in the lower half of its word.

func halves(words []float32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(words))), 2*len(words))
}

// expand writes the values of words to dst.
func expand(dst, words []float32) {
	for i, h := range halves(words)[:len(dst)] {
		dst[i] = math.Float32frombits(uint32(h) << 16)
	}
}

// nearest rounds values to the nearest bfloat16, ties to even.
func nearest(words, values []float32) {
	h := halves(words)
	for i, v := range values {
		b := math.Float32bits(v)
		h[i] = uint16((b + 0x7fff + b>>16&1) >> 16)
		if v != v {
			h[i] = uint16(b>>16) | 0x40 // rounding up could turn a NaN into an infinity
		}
	}
}

// stochastic rounds each value up or down at random so that its expectation is preserved
// (Gupta et al. 2015). With rounding to nearest, steps below 1/512 of a value would always
// be lost and training would stop early. The random bits are a function of seed, so that
// every run, on any number of ranks, rounds alike.
func stochastic(words, values []float32, seed uint64) {
	h, bits := halves(words), uint64(0)
	for i, v := range values {
		if i%4 == 0 {
			seed += f32.Golden
			bits = f32.Mix(seed)
		}
		b := math.Float32bits(v)
		if v-v == 0 { // finite
			b += uint32(bits & 0xffff)
			if b>>23&0xff == 0xff { // a finite number must not round to infinity
				b -= 1 << 16
			}
		} else if v != v {
			b |= 1 << 22
		}
		h[i] = uint16(b >> 16)
		bits >>= 16
	}
}
