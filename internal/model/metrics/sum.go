package metrics

// sum adds non-negative numbers as multiples of 2^-48, so that the result does not depend on
// their order or on their division among ranks. Two sums are added by adding both fields; up
// to 2^15 sums do not overflow.
type sum struct{ whole, part int64 } // 0 ≤ part < 2^48, except in a sum of sums

const (
	partBits  = 48
	maxAddend = 1 << 40 // larger terms are clamped: no useful model has such a loss
)

func (s *sum) add(x float64) {
	if !(x <= maxAddend) { // or NaN
		x = maxAddend
	}
	whole := int64(x)
	s.part += int64((float64(x) - float64(whole)) * (1 << partBits))
	s.whole += whole + s.part>>partBits
	s.part &= 1<<partBits - 1
}

func (s sum) value() float64 { return float64(s.whole) + float64(s.part)/(1<<partBits) }
