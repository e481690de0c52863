package f32

import "math"

// Golden is 2⁶⁴ divided by the golden ratio. Its multiples are spread evenly over 64 bits.
const Golden = 0x9e3779b97f4a7c15

// Mix is the finaliser of SplitMix64 (Steele, Lea and Flood 2014), a bijection: every bit of x
// changes each bit of the result with probability ½.
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Dropout sets mask to scale with probability keep/2³² and to 0 otherwise, and y to x·mask. The bits of
// element j, the upper half of Mix(at + (j+1)·Golden), are compared with keep. It panics if the lengths differ.
func Dropout(y, mask, x []float32, at uint64, keep uint32, scale float32) {
	check("Dropout", "y", len(y), 1, len(x))
	check("Dropout", "mask", len(mask), 1, len(x))
	if active != nil && active.dropout != nil && len(x) > 0 {
		active.dropout(&y[0], &mask[0], &x[0], len(x), at, keep, scale)
		return
	}
	bits := math.Float32bits(scale)
	for j, v := range x {
		at += Golden
		kept := uint32((int64(Mix(at)>>32) - int64(keep)) >> 32) // all ones below keep: a branch would be unpredictable
		mask[j] = math.Float32frombits(kept & bits)
		y[j] = v * mask[j]
	}
}
