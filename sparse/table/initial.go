package table

import "github.com/wdlrun/wdlrun/internal/kernel/f32"

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
