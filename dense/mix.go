package dense

import (
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/zeebo/xxh3"
)

// stream returns the start of the random numbers of name under a seed: number i is
// f32.Mix(stream + i·f32.Golden).
func stream(seed uint64, name string) uint64 {
	return f32.Mix(seed*f32.Golden + xxh3.HashString(name))
}

// unit maps 64 random bits to [0, 1), using the 24 bits that a float32 holds exactly.
func unit(x uint64) float32 { return float32(x>>40) * (1.0 / (1 << 24)) }
