package metrics

import "math"

// The bins of NormCounts: 8 of equal width in each power of two, from 2^-24 to 2^24, below
// them one for norms of 0.
const (
	normOctaves = 48
	normParts   = 8
	NormBins    = 1 + normOctaves*normParts
)

// NormCounts is a histogram of Euclidean norms. The first and the last bin of norms above 0
// also count those beyond them.
type NormCounts [NormBins]int64

// Add counts a norm.
func (c *NormCounts) Add(norm float64) {
	if norm == 0 {
		c[0]++
		return
	}
	const least = (1023 - normOctaves/2) * normParts // of the exponent and three bits of fraction
	c[1+min(max(int(math.Float64bits(norm)>>49)-least, 0), NormBins-2)]++
}

// NormBin returns the norms, from low to below high, that a bin counts.
func NormBin(bin int) (low, high float64) {
	edge := func(i int) float64 {
		return math.Ldexp(1+float64(i%normParts)/normParts, i/normParts-normOctaves/2)
	}
	if bin == 0 {
		return 0, 0
	}
	return edge(bin - 1), edge(bin)
}
