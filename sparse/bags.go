package sparse

import (
	"bytes"
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// Pooling is how the rows of a bag are combined into one.
type Pooling uint8

// The poolings, for values x and weights w of a bag. A bag that is empty, or whose
// denominator is 0, pools to zeros.
const (
	Sum   Pooling = iota // Σ w·x
	Mean                 // Σ w·x / Σ w
	SqrtN                // Σ w·x / √Σ w²
)

func (p Pooling) String() string {
	switch p {
	case Sum:
		return "sum"
	case Mean:
		return "mean"
	case SqrtN:
		return "sqrtn"
	}
	return fmt.Sprintf("pooling %d", uint8(p))
}

// Bags is one feature of a batch: bag b holds Values[Offsets[b]:Offsets[b+1]].
// A key that occurs twice in a bag counts twice.
type Bags struct {
	Table   int       // index in Config.Tables
	Values  []uint64  // keys
	Offsets []int32   // B+1 offsets; nil if there are no bags
	Weights []float32 // one per value; nil: all 1
	Pooling Pooling
}

// check returns an error if a feature's bags are malformed; single is the result of single.
func (b *Bags) check(tables int, single bool) error {
	if b.Table < 0 || b.Table >= tables {
		return fmt.Errorf("table %d: there are %d", b.Table, tables)
	}
	if b.Pooling > SqrtN {
		return fmt.Errorf("%v is not sum, mean or sqrtn", b.Pooling)
	}
	if single {
		return nil
	}
	if b.Weights != nil && len(b.Weights) != len(b.Values) {
		return fmt.Errorf("%d weights for %d values", len(b.Weights), len(b.Values))
	}
	if len(b.Offsets) == 0 {
		if len(b.Values) != 0 {
			return fmt.Errorf("%d values and no offsets", len(b.Values))
		}
		return nil
	}
	if b.Offsets[0] != 0 {
		return fmt.Errorf("offsets[0] is %d, not 0", b.Offsets[0])
	}
	for i := 1; i < len(b.Offsets); i++ {
		if b.Offsets[i] < b.Offsets[i-1] {
			return fmt.Errorf("offsets[%d] is %d, below offsets[%d], %d", i, b.Offsets[i], i-1, b.Offsets[i-1])
		}
	}
	if last := b.Offsets[len(b.Offsets)-1]; int(last) != len(b.Values) {
		return fmt.Errorf("the last offset is %d, there are %d values", last, len(b.Values))
	}
	return nil
}

// plain reports whether all factors are 1, so that no coefficients are needed. The usual
// feature, one value in each bag, is plain for any pooling.
func (b *Bags) plain() bool {
	if b.Weights != nil {
		return false
	}
	if b.Pooling != Sum {
		for i := 1; i < len(b.Offsets); i++ {
			if b.Offsets[i]-b.Offsets[i-1] > 1 {
				return false
			}
		}
	}
	return true
}

// single reports whether every bag is one value with factor 1, as in most features. Nothing
// else then needs to be checked. ones are the offsets of as many such bags; comparing their
// bytes is faster than comparing numbers.
func (b *Bags) single(ones []int32) bool {
	return b.Weights == nil && len(b.Values) == len(b.Offsets)-1 && bytes.Equal(raw.Bytes(b.Offsets), raw.Bytes(ones))
}

// Factors returns the factor of each value in the sum of its bag: its weight over the
// denominator of the pooling. It writes them to dst, which must have one element per
// value, and returns nil if all factors are 1. It serves readers that pool without a
// Store. It panics if Offsets, Values and Weights do not fit together.
func (b *Bags) Factors(dst []float32) []float32 {
	if err := b.check(b.Table+1, false); err != nil {
		panic("sparse: Factors: " + err.Error())
	}
	if b.plain() {
		return nil
	}
	b.coefficients(dst)
	return dst
}

// coefficients writes the factor of each value, weight over denominator, to dst.
func (b *Bags) coefficients(dst []float32) {
	for i := 1; i < len(b.Offsets); i++ {
		lo, hi := b.Offsets[i-1], b.Offsets[i]
		scale := b.scale(lo, hi)
		for j := lo; j < hi; j++ {
			dst[j] = float32(b.weight(j) * scale)
		}
	}
}

func (b *Bags) weight(i int32) float64 {
	if b.Weights == nil {
		return 1
	}
	return float64(b.Weights[i])
}

// scale returns the inverse of the denominator of the bag of values lo to hi.
func (b *Bags) scale(lo, hi int32) float64 {
	if b.Pooling == Sum {
		return 1
	}
	var sum float64
	for j := lo; j < hi; j++ {
		w := b.weight(j)
		if b.Pooling == SqrtN {
			w = float64(w * w)
		}
		sum += w
	}
	if b.Pooling == SqrtN {
		sum = math.Sqrt(sum)
	}
	if sum == 0 {
		return 0
	}
	return 1 / sum
}
