// Package eight hashes strings of eight bytes, many at a time: the last steps of XXH3 for
// that length. The plain loop is the specification. Processors with AVX-512 multiply eight
// 64-bit words at once in assembly (not with the build tag noasm).
package eight

import "math/bits"

// Hash replaces strings of eight bytes, as little-endian words, by their hashes. flip is
// derived from the seed of XXH3. The number of words must be a multiple of eight.
func Hash(words []uint64, flip uint64) {
	if len(words)%8 != 0 {
		panic("eight: Hash: the words are not a multiple of eight")
	}
	if len(words) > 0 {
		hash(words, flip)
	}
}

// hashPlain is the specification.
func hashPlain(words []uint64, flip uint64) {
	for i, x := range words {
		x = bits.RotateLeft64(x, 32) ^ flip
		x ^= bits.RotateLeft64(x, 49) ^ bits.RotateLeft64(x, 24)
		x *= 0x9fb21c651e98df25
		x ^= x>>35 + 8
		x *= 0x9fb21c651e98df25
		words[i] = x ^ x>>28
	}
}
