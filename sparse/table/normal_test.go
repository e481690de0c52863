package table

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// words returns words at the ends of the pieces of the approximation, and random ones.
func words(n int) (all []uint64) {
	const most = 1<<wordBits - 1
	for i := range uint64(1 << 8) {
		edge := i << (wordBits - 8)
		all = append(all, edge, edge+1, (edge-1)&most, most-i, i)
	}
	for i := range uint64(wordBits) {
		all = append(all, 1<<i, 1<<i-1)
	}
	for rng := rand.New(rand.NewPCG(1, 2)); len(all) < n; {
		all = append(all, rng.Uint64()>>(64-wordBits)>>rng.IntN(8))
	}
	return all
}

// TestNormalsKeepTheirBits compares the values with package math and the error of the
// approximation with its bound.
func TestNormalsKeepTheirBits(t *testing.T) {
	in := newInitial(Init{Kind: "normal", Scale: 0.01}, 1, "t", "p")
	all := words(patient.Size(20_000, 2_000_000))
	worst, inexact := 0.0, 0
	for i, a := range all {
		b := all[len(all)-1-i]
		radius, sin, cos, ok := in.curves.polar(a, b)
		if !ok {
			inexact++
			continue
		}
		r := math.Sqrt(-2 * math.Log(unit(a)))
		wantSin, wantCos := math.Sincos(2 * math.Pi * unit(b))
		worst = max(worst, math.Abs(float64(radius*sin)-float64(r*wantSin))/r, math.Abs(float64(radius*cos)-float64(r*wantCos))/r)
	}
	if worst > slack/4 || inexact > len(all)/10 {
		t.Errorf("the relative error is up to %g, want at most %g; %d of %d logarithms are too inexact", worst, slack, inexact, len(all))
	}
	var w [21]float32 // several groups of eight and a remainder
	for x := range uint64(patient.Size(2000, 200_000)) {
		x = f32.Mix(x)
		in.normal(x, w[:])
		for i := 0; i < len(w); i += 2 {
			at := x + uint64(i+1)*f32.Golden
			first, second := in.normalPlain(f32.Mix(at)>>(64-wordBits), f32.Mix(at+f32.Golden)>>(64-wordBits))
			if w[i] != first || i+1 < len(w) && w[i+1] != second {
				t.Fatalf("values %d and %d from state %#x are %v, want %v and %v", i, i+1, x, w, first, second)
			}
		}
	}
}

// TestSettled checks that a value is settled only if no number within its error rounds to
// other bits.
func TestSettled(t *testing.T) {
	const half = 0x1p-24 // half of the distance between 1 and the next float32
	for _, c := range []struct {
		v, err float64
		ok     bool
	}{{1, half / 4, true}, {1 + half, half / 4, false}, {1 + half*1.5, half / 4, true}, {1 + half*1.125, half / 4, false}, {0, 1e-300, false}} {
		if _, ok := settled(c.v, c.err); ok != c.ok {
			t.Errorf("%g ± %g is settled: %t", c.v, c.err, ok)
		}
	}
}
