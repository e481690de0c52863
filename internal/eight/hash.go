// Package eight hashes texts of eight bytes, many at a time: the last steps of XXH3
// of inputs of that length. The plain loop says what it does; where there are
// instructions for eight products of 64 bits (AVX-512, not with the build tag
// noasm), it is done in assembly.
package eight

import "math/bits"

// Hash makes texts of eight bytes, little-endian words, their hashes. flip is what
// XXH3 makes of its seed. The words are a multiple of eight.
func Hash(words []uint64, flip uint64) {
	if len(words)%8 != 0 {
		panic("eight: Hash: the words are no multiple of eight")
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
