package collective

import "math"

// BF16 is the upper half of a float32: 8 bits of exponent, 8 of precision. It is
// an element type of its own: a reduction adds, in the order of the package
// comment, as float32 and rounds each partial sum to the nearest, halves to even.
// A BF16 is its bits; use Float32 and ToBF16 for its value.
type BF16 uint16

// ToBF16 rounds to the nearest BF16, halves to even. NaN stays NaN.
func ToBF16(f float32) BF16 {
	b := math.Float32bits(f)
	if f != f {
		return BF16(b>>16 | 1<<6) // quiet, whatever bits are cut off
	}
	return BF16((b + 0x7fff + b>>16&1) >> 16)
}

// Float32 returns the value of b, which is exact.
func (b BF16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// joinBF16 joins two elements.
func joinBF16(op Op, a, b BF16) BF16 {
	x, y := a.Float32(), b.Float32()
	switch op {
	case Min:
		return ToBF16(min(x, y))
	case Max:
		return ToBF16(max(x, y))
	}
	return ToBF16(x + y)
}
