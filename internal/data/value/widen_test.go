package value

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// A float32 means its shortest decimal, as strconv writes it.
func TestWidenIsTheShortestDecimal(t *testing.T) {
	check := func(x float32) {
		want, err := strconv.ParseFloat(strconv.FormatFloat(float64(x), 'g', -1, 32), 64)
		if err != nil {
			t.Fatal(err)
		}
		if got := Widen(x); math.Float64bits(got) != math.Float64bits(want) && (got == got || want == want) {
			t.Fatalf("%x (%g) is %.17g, want %.17g", math.Float32bits(x), x, got, want)
		}
	}
	for e := uint32(0); e < 512; e++ { // powers of two, whose neighbours differ in distance
		for d := uint32(0); d < 5; d++ {
			check(math.Float32frombits(e<<23 + d - 2))
		}
	}
	for n := range 100_000 {
		check(float32(n) / 1000)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 1_000_000 {
		check(math.Float32frombits(r.Uint32()))
		check(math.Float32frombits(r.Uint32()%(37<<23) + 113<<23)) // without strconv
	}
	var l List
	l.AddFloat32(0.7)
	l.AddFloat32(math.MaxFloat32)
	if text := string(l.Append(nil, 0)); l.Kind != Float32 || l.Reals[0] != 0.7 || text != "0.7" {
		t.Errorf("0.7 of 32 bits is %v, text %s", l, text)
	}
	for _, x := range []float64{l.Reals[1], -l.Reals[1]} {
		if y, why := CheckNumber(x); why != "" || y != x {
			t.Errorf("%g, the largest float32: %s", x, why)
		}
		if y, why := ParseNumber(strconv.AppendFloat(nil, x, 'g', -1, 64)); why != "" || y != x {
			t.Errorf("the text of %g, the largest float32: %s", x, why)
		}
	}
}

func BenchmarkWiden(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, next := range map[string]func() float32{
		"price":  func() float32 { return float32(r.IntN(10000)) / 100 },
		"random": r.Float32,
	} {
		b.Run(name, func(b *testing.B) {
			x := make([]float32, 1024)
			for i := range x {
				x[i] = next()
			}
			sum := 0.0
			for i := range b.N {
				sum += Widen(x[i%len(x)])
			}
			if sum < 0 {
				b.Fatal(sum)
			}
		})
	}
}
