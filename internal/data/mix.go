package data

import (
	"math/bits"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// mixed hashes a sequence of numbers.
func mixed(seed uint64, parts ...uint64) uint64 {
	h := f32.Mix(seed + f32.Golden)
	for _, p := range parts {
		h = f32.Mix(h + f32.Golden + p*f32.Golden)
	}
	return h
}

// draws is a splitmix64 generator. It is defined here because the order of an epoch must
// not change with the version of a library.
type draws uint64

// below returns a number in [0, n). Its bias is n / 2^64.
func (d *draws) below(n int) int {
	*d += f32.Golden
	hi, _ := bits.Mul64(f32.Mix(uint64(*d)), uint64(n))
	return int(hi)
}

// shuffle permutes x.
func shuffle[T any](x []T, seed uint64) {
	d := draws(seed)
	for i := len(x) - 1; i > 0; i-- {
		j := d.below(i + 1)
		x[i], x[j] = x[j], x[i]
	}
}
