package f32

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// runBF16 computes in bfloat16 what run does of a tile.
func (m *tiled) runBF16() {
	var x TileRowsBF16
	var scratch TileScratchBF16
	for range 2 { // the second time over what the first has left
		x.Pack(m.x, m.n, m.dim)
		TileForwardBF16(m.tile, &x, m.w, &scratch, m.out, m.from, m.j)
	}
	TileSum(m.y, m.bias, m.tile, m.at, TileStride(m.rows), m.rows, m.out, m.j, 0)
	half := make([]BF16, LenBF16(m.rows, m.out))
	ConvertBF16(half, m.y, m.rows, m.out)
	dy := make([]BF16, m.rows*TileColumns)
	TileCutBF16(dy, half, m.rows, m.out, m.j)
	FromBF16(m.dy, dy)
	var at, ends []uint32
	for i := range m.n {
		for r, from := range m.at[:m.rows] {
			if int(from) == i*TileColumns {
				at = append(at, uint32(r))
			}
		}
		ends = append(ends, uint32(len(at)))
	}
	t := slices.Repeat([]BF16{0x7fc0}, TileLenBF16(m.n))
	TileGatherBF16(t, dy, at, ends, m.n)
	FromBF16(m.tile, t[:len(m.tile)])
	TileGradInputBF16(m.dx, t, m.w, &scratch, m.n, m.out, m.from, m.dim, m.j)
	TileGradWeightBF16(m.dw, &x, t, m.out, m.j)
}

// specBF16 is runBF16 in loops of float64 between the roundings that are meant.
func (m *tiled) specBF16() {
	round := func(v float32) float64 { return float64(widenBF16(roundBF16(v))) }
	cols, stride := min(TileColumns, m.out-m.j), TileStride(m.rows)
	clear(m.tile)
	for i := range m.n {
		for c := range cols {
			var sum float64
			for l := range m.dim {
				sum += round(m.x[i*m.dim+l]) * round(m.w[(m.from+l)*m.out+m.j+c])
			}
			m.tile[i*TileColumns+c] = float32(sum)
		}
	}
	clear(m.dy)
	for r := range m.rows {
		for c := range cols {
			v := max(m.bias[m.j+c]+m.tile[int(m.at[r])+c]+m.tile[int(m.at[stride+r])+c], 0)
			m.y[r*m.out+m.j+c], m.dy[r*TileColumns+c] = v, float32(round(v))
		}
	}
	clear(m.tile)
	for r := range m.rows {
		for c := range TileColumns {
			m.tile[int(m.at[r])+c] += m.dy[r*TileColumns+c]
		}
	}
	for i, v := range m.tile {
		m.tile[i] = float32(round(v))
	}
	for i := range m.n {
		for l := range m.dim {
			sum := 0.0
			if m.j > 0 {
				sum = float64(m.dx[i*m.dim+l])
			}
			for c := range cols {
				v := float64(m.tile[i*TileColumns+c])
				sum += v * round(m.w[(m.from+l)*m.out+m.j+c])
				m.dw[l*m.out+m.j+c] += float32(v * round(m.x[i*m.dim+l]))
			}
			m.dx[i*m.dim+l] = float32(sum)
		}
	}
}

func (m *tiled) each(f func(name string, v *[]float32)) {
	for name, v := range map[string]*[]float32{"x": &m.x, "w": &m.w, "tile": &m.tile, "y": &m.y, "dy": &m.dy, "dx": &m.dx, "dw": &m.dw, "bias": &m.bias} {
		f(name, v)
	}
}

// TestTilesBF16 compares the kernels with the plain loops, bit by bit, and both with
// loops that know nothing of pairs; slices end at memory that must not be touched.
func TestTilesBF16(t *testing.T) {
	defer func() { plainBF16 = noUnit }()
	for _, x := range []struct{ rows, n, in, out, from, dim, j int }{
		{9, 5, 12, 64, 2, 10, 0}, {40, 31, 33, 130, 0, 33, 64}, {40, 17, 29, 130, 3, 7, 128}, {20, 6, 10, 90, 1, 9, 64},
		{3, 1, 1, 1, 0, 1, 0}, {100, 64, 48, 256, 32, 16, 192}, {30, 28, 20, 100, 1, 19, 64}, {50, 77, 24, 192, 4, 10, 64},
	} {
		t.Run(fmt.Sprintf("%+v", x), func(t *testing.T) {
			unrounded := newTiled(x.rows, x.n, x.in, x.out, x.from, x.dim, x.j)
			unrounded.specBF16()
			plainBF16 = vectors
			plain := newTiled(x.rows, x.n, x.in, x.out, x.from, x.dim, x.j)
			plain.runBF16()
			want := map[string][]float32{}
			unrounded.each(func(name string, v *[]float32) { want[name] = *v })
			plain.each(func(name string, v *[]float32) {
				for i, got := range *v {
					// Another order of sums may round what they give to the next bfloat16.
					if w := want[name][i]; math.Abs(float64(got-w)) > .02*(1+math.Abs(float64(w))) {
						t.Fatalf("%s: %d is %v by the plain loop, want %v", name, i, got, w)
					}
				}
				want[name] = *v
			})
			if plainBF16 = noUnit; orderBF16() != vectors {
				t.Skip("this machine does not multiply in bfloat16 by AVX512_BF16")
			}
			fast := newTiled(x.rows, x.n, x.in, x.out, x.from, x.dim, x.j)
			fast.each(func(_ string, v *[]float32) { *v = guarded(t, *v, true) })
			fast.runBF16()
			fast.each(func(name string, v *[]float32) {
				if !same(*v, want[name]) {
					t.Errorf("%s is %v, by the plain loop %v", name, *v, want[name])
				}
			})
		})
	}
}
