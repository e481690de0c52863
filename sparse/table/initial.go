package table

import (
	"math"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// initial computes the values of untrained rows, as a pure function of seed, table, part
// and key.
type initial struct {
	kind   byte // z, n or u
	scale  float64
	seed   uint64
	curves *curves
}

func newInitial(in Init, seed uint64, table, part string) initial {
	return initial{kind: in.Kind[0], scale: in.Scale, seed: f32.Mix(f32.Mix(seed^Salt(table)) + Salt(part)), curves: newCurves()}
}

func (in *initial) fill(key uint64, w []float32) {
	switch in.kind {
	case 'z':
		clear(w)
	case 'u':
		x := f32.Mix(f32.Mix(key) + in.seed)
		for i := range w {
			x += f32.Golden
			w[i] = float32((float64(2*unit(f32.Mix(x)>>(64-wordBits))) - 1) * in.scale)
		}
	default:
		in.normal(f32.Mix(f32.Mix(key)+in.seed), w)
	}
}

// unit maps a word of wordBits to (0, 1), without both ends, so that the logarithm of the
// result exists.
func unit(word uint64) float64 { return (float64(word) + 0.5) * 0x1p-52 }

// normal writes normally distributed values (Box and Muller 1958), from the state x on. The
// kernel ends before eight values that are not all settled.
func (in *initial) normal(x uint64, w []float32) {
	for len(w) > 0 {
		done := normals(in.curves, x, in.scale, w)
		if done == 0 {
			done = min(len(w), 8)
			in.normalPairs(x, w[:done])
		}
		x += uint64(done) * f32.Golden
		w = w[done:]
	}
}

// normalPairs is the specification of normals, without its limits.
func (in *initial) normalPairs(x uint64, w []float32) {
	for i := 0; i < len(w); i += 2 {
		x += f32.Golden
		a := f32.Mix(x) >> (64 - wordBits)
		x += f32.Golden
		b := f32.Mix(x) >> (64 - wordBits)
		radius, sin, cos, ok := in.curves.polar(a, b)
		radius *= in.scale
		first, ok1 := settled(float64(radius*cos), float64(radius*slack))
		second, ok2 := settled(float64(radius*sin), float64(radius*slack))
		if !ok || !ok1 || !ok2 {
			first, second = in.normalPlain(a, b)
		}
		if w[i] = first; i+1 < len(w) {
			w[i+1] = second
		}
	}
}

// normalPlain is the specification of two values of normalPairs.
func (in *initial) normalPlain(a, b uint64) (first, second float32) {
	r := math.Sqrt(-2*math.Log(unit(a))) * in.scale
	sin, cos := math.Sincos(2 * math.Pi * unit(b))
	return float32(r * cos), float32(r * sin)
}
