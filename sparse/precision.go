package sparse

import (
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// Precision is the format in which numbers are sent. They are stored and summed as
// float32.
type Precision uint8

// The precisions of a message.
const (
	FP32 Precision = iota
	// BF16 is the upper half of a float32, rounded to nearest even. It halves the bytes;
	// its relative error is at most 2⁻⁹. Rows and gradients are rounded whether or not they
	// are sent, so that results do not depend on the owner of a key.
	BF16
)

// bytes returns the size of a number.
func (p Precision) bytes() int {
	if p == BF16 {
		return 2
	}
	return 4
}

func (p Precision) String() string {
	switch p {
	case FP32:
		return "fp32"
	case BF16:
		return "bf16"
	}
	return fmt.Sprintf("precision %d", uint8(p))
}

// encode writes x to the start of dst.
func (p Precision) encode(dst []byte, x []float32) {
	if p == FP32 {
		copy(dst, raw.Bytes(x))
		return
	}
	half := raw.Of[uint16](dst[:2*len(x)])
	for i, v := range x {
		half[i] = roundBF16(v)
	}
}

// decode fills dst from the start of b, which encode wrote.
func (p Precision) decode(dst []float32, b []byte) {
	if p == FP32 {
		copy(raw.Bytes(dst), b)
		return
	}
	for i, h := range raw.Of[uint16](b[:2*len(dst)]) {
		dst[i] = widenBF16(h)
	}
}

// roundBF16 returns the upper half of f, rounded to nearest even. NaN stays NaN.
func roundBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if f != f {
		return uint16(b>>16 | 1<<6)
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

func widenBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// section returns the size of n numbers of one table on the wire, padded to a multiple of 4
// bytes.
func (p Precision) section(n int) int { return (n*p.bytes() + 3) &^ 3 }

// round replaces each x by its value after encoding and decoding.
func (p Precision) round(x []float32) {
	if p == FP32 {
		return
	}
	for i, v := range x {
		x[i] = widenBF16(roundBF16(v))
	}
}
