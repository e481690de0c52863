// Package exact adds float64 numbers without rounding, so that neither their order nor
// their distribution over ranks changes a sum (Kulisch, "Computer arithmetic and
// validity", 2013: a long accumulator).
package exact

import (
	"math"
	"math/big"
)

const (
	limbBits = 32
	// lowest is the weight of the lowest bit, 2^-1088: below any bit of a float64.
	lowest = -1088
	// Limbs cover up to 2^1088: any 2^63 finite float64 fit.
	Limbs = 2 * 1088 / limbBits
	// carryEvery is the number of additions after which carries are propagated: until then a
	// limb stays below 2^63.
	carryEvery = 1 << 28
)

// Sum is a sum of float64. The zero value is 0. Sums of several ranks are added limb by
// limb, at most 2^20 of them before Float64.
type Sum struct {
	Limb  [Limbs]int64 // limb i counts multiples of 2^(32·i − 1088)
	added int
}

// Add adds x. Values that are not finite are ignored.
func (s *Sum) Add(x float64) {
	b := math.Float64bits(x)
	exponent, m := int(b>>52&0x7FF), b&(1<<52-1)
	switch exponent {
	case 0x7FF:
		return
	case 0:
		exponent = 1 // subnormal
	default:
		m |= 1 << 52
	}
	at := exponent - 1075 - lowest
	i, shift := at/limbBits, uint(at%limbBits)
	low, high := m<<shift, m>>(64-shift) // shift 0 gives high 0
	parts := [3]int64{int64(low & (1<<limbBits - 1)), int64(low >> limbBits), int64(high)}
	for k, p := range parts {
		if x < 0 {
			p = -p
		}
		if i+k < Limbs {
			s.Limb[i+k] += p
		}
	}
	if s.added++; s.added == carryEvery {
		s.Carry()
	}
}

// Carry brings every limb except the last below 2^32, so that sums of ranks can be added.
func (s *Sum) Carry() {
	s.added = 0
	for i := range Limbs - 1 {
		up := s.Limb[i] >> limbBits
		s.Limb[i] -= up << limbBits
		s.Limb[i+1] += up
	}
}

// Float64 returns the sum, rounded once.
func (s *Sum) Float64() float64 {
	total, limb := new(big.Int), new(big.Int)
	for i := Limbs - 1; i >= 0; i-- {
		total.Lsh(total, limbBits)
		total.Add(total, limb.SetInt64(s.Limb[i]))
	}
	f := new(big.Float).SetInt(total)
	v, _ := f.SetMantExp(f, lowest).Float64()
	return v
}
