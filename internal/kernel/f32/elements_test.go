package f32

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// odd are the values at which arithmetic breaks.
var odd = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1, math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32,
	float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1.00390625, 1.01171875, 3.3961775e38,
}

func random(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64() * math.Exp(3*rng.NormFloat64()))
	}
	return v
}

// alike compares bits; NaN is NaN.
func alike(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
	})
}

// TestElementsAreThePlainLoops compares every backend with the portable code,
// bit by bit.
func TestElementsAreThePlainLoops(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for n := range 70 {
		x, y := random(rng, n), random(rng, n)
		if n > 20 {
			copy(x[rng.IntN(n-len(odd)):], odd)
			copy(y[rng.IntN(n-len(odd)):], odd)
		}
		var want [][]float32
		for _, b := range append([]*backend{nil}, backends()...) {
			active = b
			half, back := make([]BF16, n), make([]float32, n)
			ToBF16(half, x)
			FromBF16(back, half)
			squares := float32(SumSquares(x))
			axpy, sum, scaled, gated := slices.Clone(y), slices.Clone(y), slices.Clone(x), slices.Clone(x)
			Axpy(axpy, 0.3, x)
			AddTo(sum, x)
			Scale(scaled, -3)
			ReLUGrad(gated, y)
			product, kept, mask := slices.Clone(x), make([]float32, n), make([]float32, n)
			MulTo(product, y)
			Dropout(kept, mask, x, uint64(n)<<56, 0xc0000000, 1.25)
			got := [][]float32{axpy, sum, scaled, gated, product, kept, mask, back, {squares, float32(FirstNonFinite(x))}}
			if b == nil {
				want = got
			}
			for i, name := range []string{"Axpy", "AddTo", "Scale", "ReLUGrad", "MulTo", "Dropout", "its mask", "BF16", "SumSquares and FirstNonFinite"} {
				if !alike(got[i], want[i]) {
					t.Fatalf("%s: %s of %d values gives\n%v, the plain loop\n%v", Backend(), name, n, got[i], want[i])
				}
			}
		}
		active = fastest()
	}
}

func TestBF16Rounds(t *testing.T) {
	for _, c := range []struct {
		in   float32
		want BF16
	}{
		{1, 0x3f80}, {1.00390625, 0x3f80}, {1.01171875, 0x3f82}, {1.004, 0x3f81}, {3.4e38, 0x7f80}, {-1.00390625, 0xbf80},
		{float32(math.Inf(-1)), 0xff80}, {math.Float32frombits(0x7f800001), 0x7fc0},
	} {
		eachBackend(func(name string) {
			in, got := slices.Repeat([]float32{c.in}, 17), make([]BF16, 17)
			if ToBF16(got, in); got[0] != c.want || got[16] != c.want {
				t.Errorf("%s: %v becomes %#x and %#x, want %#x", name, c.in, got[0], got[16], c.want)
			}
		})
	}
}

// reference is the loss and its gradient in float64.
func reference(z, y float64) (loss, grad float64) {
	loss = max(z, 0) - z*y + math.Log1p(math.Exp(-math.Abs(z)))
	return loss, 1/(1+math.Exp(-z)) - y
}

func TestSigmoidLoss(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	logit := []float32{0, 1e-6, -1e-6, 0.3, -2, 17, -40, 87.3, -87.3, 87.4, -87.4, 90, -100, 1e30, -1e30}
	for range 5000 {
		logit = append(logit, float32(rng.NormFloat64()*math.Exp(2*rng.NormFloat64())))
	}
	eachBackend(func(name string) {
		for i, z := range logit {
			for _, y := range []float32{0, 1, 0.25} {
				grad, p := []float32{9}, []float32{9}
				loss := SigmoidLoss(grad, []float32{z}, []float32{y})
				Sigmoid(p, []float32{z})
				want, d := reference(float64(z), float64(y))
				if !(math.Abs(loss-want) <= 3e-7*(1+want)) {
					t.Fatalf("%s: loss of logit %v, label %v is %v, want %v", name, z, y, loss, want)
				}
				if !(math.Abs(float64(grad[0])-d) <= 2e-7) || !(math.Abs(float64(p[0])-d-float64(y)) <= 2e-7) {
					t.Fatalf("%s: gradient of logit %v, label %v is %v, want %v; probability %v", name, z, y, grad[0], d, p[0])
				}
			}
			if i > 2000 && testing.Short() {
				break
			}
		}
		if two := SigmoidLoss(nil, []float32{0, 0}, []float32{1, 0}); math.Abs(two-2*math.Ln2) > 1e-8 {
			t.Errorf("%s: two logits of 0 lose %v, want 2·ln 2", name, two)
		}
		z := []float32{float32(math.NaN())}
		if loss := SigmoidLoss(z, z, []float32{1}); loss == loss || z[0] == z[0] {
			t.Errorf("%s: a NaN logit loses %v with gradient %v", name, loss, z[0])
		}
		p := []float32{-1e30, 0, 1e30, float32(math.Inf(1)), float32(math.Inf(-1))}
		if Sigmoid(p, p); p[0] != 0 || p[1] != 0.5 || p[2] != 1 || p[3] != 1 || p[4] != 0 {
			t.Errorf("%s: sigmoid is %v", name, p)
		}
	})
}

// TestLossHasTheSameBitsWithEveryBackend of this CPU and in plain loops.
func TestLossHasTheSameBitsWithEveryBackend(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for n := range 70 {
		z, y := random(rng, n), make([]float32, n)
		for i := range y {
			y[i] = float32(rng.IntN(2))
		}
		var want float64
		var wantGrad, wantP []float32
		eachBackend(func(name string) {
			grad, p := make([]float32, n), make([]float32, n)
			loss := SigmoidLoss(grad, z, y)
			if Sigmoid(p, z); wantGrad == nil {
				want, wantGrad, wantP = loss, grad, p
			} else if loss != want || !same(grad, wantGrad) || !same(p, wantP) {
				t.Fatalf("%d logits: %s loses %v, the first backend %v", n, name, loss, want)
			}
		})
	}
}
