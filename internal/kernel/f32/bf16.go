package f32

import "math"

// BF16 is a bfloat16: the upper half of a float32. It has the range of a float32
// and 8 bits of precision.
type BF16 = uint16

// ToBF16 rounds src to the nearest bfloat16, ties to even; NaN stays NaN. It
// panics if the lengths differ.
func ToBF16(dst []BF16, src []float32) {
	check("ToBF16", "dst", len(dst), 1, len(src))
	done := 0
	if active != nil {
		if done = len(src) - len(src)%active.lanes; done > 0 {
			active.toBF16(&dst[0], &src[0], done)
		}
	}
	for i, v := range src[done:] {
		dst[done+i] = roundBF16(v)
	}
}

func roundBF16(v float32) BF16 {
	b := math.Float32bits(v)
	if v != v {
		return BF16(b>>16) | 0x40
	}
	return BF16((b + 0x7fff + b>>16&1) >> 16)
}

// FromBF16 converts src exactly. It panics if the lengths differ.
func FromBF16(dst []float32, src []BF16) {
	check("FromBF16", "dst", len(dst), 1, len(src))
	done := 0
	if active != nil {
		if done = len(src) - len(src)%active.lanes; done > 0 {
			active.fromBF16(&dst[0], &src[0], done)
		}
	}
	for i, v := range src[done:] {
		dst[done+i] = math.Float32frombits(uint32(v) << 16)
	}
}
