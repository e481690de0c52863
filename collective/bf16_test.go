package collective

import (
	"math"
	"testing"
)

// TestToBF16IsTheNearest compares the result with the distance to both neighbours.
func TestToBF16IsTheNearest(t *testing.T) {
	for i := range 1 << 16 {
		b := BF16(i)
		f := b.Float32()
		if f != f {
			if g := ToBF16(f).Float32(); g == g {
				t.Fatalf("NaN %#x is converted to %v", i, g)
			}
			continue
		}
		if ToBF16(f) != b {
			t.Fatalf("%v is converted to %v", f, ToBF16(f).Float32())
		}
		up := BF16(i + 1).Float32()
		if b&0x7fff >= 0x7f7f { // the next value is infinite or NaN
			continue
		}
		half := float32((float64(f) + float64(up)) / 2)
		even := b
		if b&1 == 1 {
			even = b + 1
		}
		toward := func(g float32) float32 { return math.Nextafter32(half, g) }
		if ToBF16(half) != even || ToBF16(toward(f)) != b || ToBF16(toward(up)) != b+1 {
			t.Fatalf("between %v and %v: the midpoint is rounded to %v, below it to %v, above it to %v", f, up,
				ToBF16(half).Float32(), ToBF16(toward(f)).Float32(), ToBF16(toward(up)).Float32())
		}
	}
	if ToBF16(math.MaxFloat32) != ToBF16(float32(math.Inf(1))) {
		t.Error("the largest float32 does not round to infinity")
	}
	if low := ToBF16(math.Float32frombits(0x7f800001)); low.Float32() == low.Float32() {
		t.Error("a NaN with the upper 16 bits of infinity is converted to another value than NaN")
	}
}
