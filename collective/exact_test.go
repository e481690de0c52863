package collective_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// exactly returns the sum of all ranks' elements, rounded once.
func exactly(all [][]float32) []float32 {
	out := make([]float32, len(all[0]))
	for i := range out {
		sum := new(big.Float).SetPrec(4000)
		for _, x := range all {
			sum.Add(sum, new(big.Float).SetFloat64(float64(x[i])))
		}
		out[i], _ = sum.Float32()
	}
	return out
}

// summands returns numbers whose sum is hard to round: of any magnitude, with cancellation, or
// at or near the midpoint between two numbers.
func summands(rng *rand.Rand, n, low, high int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = math.Ldexp(2*rng.Float64()-1, low+rng.IntN(high-low))
		switch {
		case i > 0 && rng.IntN(4) == 0:
			x[i] = -x[rng.IntN(i)]
		case i > 0 && rng.IntN(3) == 0:
			x[i] = math.Ldexp(x[rng.IntN(i)], -[]int{8, 9, 24, 25, 53, 54}[rng.IntN(6)])
		case rng.IntN(3) == 0:
			x[i] = math.Ldexp(float64(1-2*rng.IntN(2)), low+rng.IntN(high-low))
		}
	}
	return x
}

// sumOf computes an exact sum of one element of each rank.
func sumOf[T collective.Number](t *testing.T, x []T) (sum T) {
	t.Helper()
	errs := ranksOnMem(len(x), func(c *collective.Comm) error {
		own := []T{x[c.Rank()]}
		err := collective.AllReduce(c, own, collective.ExactSum)
		if c.Rank() == 0 {
			sum = own[0]
		}
		return err
	})
	for _, err := range errs {
		fatal.If(t, err)
	}
	return sum
}

// TestExactSumIsRoundedOnce compares exact sums with the sum in big floats, rounded once.
func TestExactSumIsRoundedOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for k := range 400 {
		n := 2 + rng.IntN(12)
		low, high := -60, 60
		if k%4 == 0 {
			low, high = -1070, 1024 // far apart, subnormal, or out of range
		}
		x := summands(rng, n, low, high)
		wide := new(big.Float).SetPrec(4000)
		var narrow, halves = new(big.Float).SetPrec(4000), new(big.Float).SetPrec(4000)
		floats, bf := make([]float32, n), make([]collective.BF16, n)
		for i, v := range x {
			floats[i] = float32(v)
			if math.IsInf(float64(floats[i]), 0) {
				floats[i] = 1
			}
			bf[i] = collective.ToBF16(floats[i])
			if math.IsInf(float64(bf[i].Float32()), 0) {
				bf[i] = collective.ToBF16(1)
			}
			wide.Add(wide, new(big.Float).SetFloat64(v))
			narrow.Add(narrow, new(big.Float).SetFloat64(float64(floats[i])))
			halves.Add(halves, new(big.Float).SetFloat64(float64(bf[i].Float32())))
		}
		want64, _ := wide.Float64()
		if got := sumOf(t, x); got != want64 {
			t.Fatalf("sum of %g is %g, want %g", x, got, want64)
		}
		want32, _ := narrow.Float32()
		if got := sumOf(t, floats); got != want32 {
			t.Fatalf("sum of %g is %g, want %g", floats, got, want32)
		}
		if got, want := sumOf(t, bf), roundBF16(halves); got.Float32() != want {
			t.Fatalf("sum of %v is %v, want %v", bf, got.Float32(), want)
		}
	}
}

// roundBF16 rounds to 8 bits, which is exact for sums of normal magnitude.
func roundBF16(x *big.Float) float32 {
	v, _ := new(big.Float).SetPrec(8).SetMode(big.ToNearestEven).Set(x).Float32()
	if abs := math.Abs(float64(v)); abs > 0 && abs < 0x1p-126 { // subnormal numbers have fewer bits
		step := new(big.Float).SetMantExp(big.NewFloat(1), -133)
		q := new(big.Float).SetPrec(4000).Quo(x, step)
		i, _ := new(big.Float).SetPrec(4000).Add(q, big.NewFloat(math.Copysign(.5, float64(v)))).Int(nil)
		exact := new(big.Float).SetPrec(4000).SetInt(i)
		if half := new(big.Float).Sub(exact, q); half.Cmp(big.NewFloat(.5)) == 0 || half.Cmp(big.NewFloat(-.5)) == 0 {
			if i.Bit(0) == 1 {
				i.Sub(i, big.NewInt(int64(math.Copysign(1, float64(v)))))
			}
		}
		f, _ := new(big.Float).SetMantExp(new(big.Float).SetInt(i), -133).Float32()
		return f
	}
	return v
}

// TestExactSumOfWhatIsNotFinite compares sums with infinities, NaNs, zeros and overflows with
// the expected results.
func TestExactSumOfWhatIsNotFinite(t *testing.T) {
	inf, zero, big := math.Inf(1), 0.0, math.MaxFloat64
	for _, k := range []struct {
		x    []float64
		want float64
	}{
		{[]float64{1, inf, 1}, inf},
		{[]float64{big, big, -inf}, -inf},
		{[]float64{inf, -inf}, math.NaN()},
		{[]float64{1, math.NaN()}, math.NaN()},
		{[]float64{big, big, -big}, big}, // a partial sum is out of range
		{[]float64{big, big}, inf},
		{[]float64{-zero, zero}, 0},
		{[]float64{math.Copysign(0, -1), math.Copysign(0, -1)}, math.Copysign(0, -1)},
		{[]float64{1, 0x1p-53, 0x1p-107}, 1 + 0x1p-52}, // just above the midpoint
		{[]float64{1, 0x1p-53, -0x1p-107}, 1},
		{[]float64{1, 0x1p-53}, 1},
	} {
		got := sumOf(t, k.x)
		if math.Float64bits(got) != math.Float64bits(k.want) && !(got != got && k.want != k.want) {
			t.Errorf("sum of %v is %v, want %v", k.x, got, k.want)
		}
	}
}
