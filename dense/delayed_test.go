package dense

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestFakeNegativeLossIsUnbiased: samples are negatives first, and are repeated as positives after random delays, with the rates .02, .2
// and .6. Gradient descent on the weighted loss finds the rates; on the plain log-loss it finds p/(1+p).
func TestFakeNegativeLossIsUnbiased(t *testing.T) {
	for _, rate := range []float64{.02, .2, .6} {
		rng := rand.New(rand.NewPCG(7, uint64(1000*rate)))
		counts := []float32{0, 0} // negatives, positives
		due := map[int]int{}      // positives by the time at which their feedback arrives
		const n, longest = 40_000, 500
		for now := range n + longest {
			counts[1] += float32(due[now])
			if now >= n {
				continue
			}
			counts[0]++
			if rng.Float64() < rate {
				due[now+1+rng.IntN(longest-1)]++
			}
		}
		find := func(loss func(grad, logit, label, weight []float32) float64) float64 {
			z, grad := 0.0, make([]float32, 2)
			for range 400 {
				loss(grad, []float32{float32(z), float32(z)}, []float32{0, 1}, counts)
				p := 1 / (1 + math.Exp(-z))
				z -= float64(grad[0]+grad[1]) / float64(counts[0]) / (p * (1 - p) * 4)
			}
			return 1 / (1 + math.Exp(-z))
		}
		real := float64(counts[1]) / n
		if got := find(FakeNegativeLoss); math.Abs(got-real) > .002 {
			t.Errorf("rate %v: the weighted loss finds %.4f, the real rate is %.4f", rate, got, real)
		}
		plain := find(WeightedLogLoss)
		if want := real / (1 + real); math.Abs(plain-want) > .002 {
			t.Errorf("rate %v: the log-loss finds %.4f, want %.4f", rate, plain, want)
		}
	}
}

// TestFakeNegativeLoss compares loss and gradient with their definition, at extreme logits, too.
func TestFakeNegativeLoss(t *testing.T) {
	for _, z := range []float32{-90, -3, 0, .5, 4, 90} {
		for _, y := range []float32{0, 1} {
			p := 1 / (1 + math.Exp(-float64(z)))
			w := 2 * (1 + p)
			if y == 0 {
				w *= 1 - p
			}
			grad := []float32{0}
			got := FakeNegativeLoss(grad, []float32{z}, []float32{y}, []float32{2})
			if want := w * LogLoss(nil, []float32{z}, []float32{y}); math.Abs(got-want) > 1e-6*(1+want) || math.Abs(float64(grad[0])-w*(p-float64(y))) > 1e-6 {
				t.Errorf("logit %v, label %v: %v, %v, want %v, %v", z, y, got, grad[0], want, w*(p-float64(y)))
			}
		}
	}
}
