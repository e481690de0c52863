package f32

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// tiled is a layer of which some columns of the input, dim from from on, hold n distinct
// rows, and what belongs to the tile from column j on.
type tiled struct {
	n, in, out, from, dim, j  int
	x, w, dw, tile, dx, y, dy []float32
	bias                      []float32
	at                        []uint32 // of two lists
	rows                      int
}

func newTiled(rows, n, in, out, from, dim, j int) *tiled {
	rng := rand.New(rand.NewPCG(uint64(n*dim+j), 3))
	fill := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	m := &tiled{n: n, in: in, out: out, from: from, dim: dim, j: j, rows: rows,
		x: fill(n * dim), w: fill(in * out), dw: fill(dim * out), tile: fill(n * TileColumns), dx: fill(n * dim),
		y: fill(rows * out), dy: fill(rows * TileColumns), bias: fill(out)}
	for range 2 * TileStride(rows) {
		m.at = append(m.at, uint32(rng.IntN(n)*TileColumns))
	}
	return m
}

// run computes everything by the package, spec by plain loops.
func (m *tiled) run() {
	var w Packed
	w.Pack(m.w, m.in, m.out)
	TileForward(m.tile, m.x, &w, m.n, m.from, m.dim, m.j)
	TileSum(m.y, m.bias, m.tile, m.at, TileStride(m.rows), m.rows, m.out, m.j, 0)
	TileSum(m.y, nil, m.tile, m.at[:m.rows], TileStride(m.rows), m.rows, m.out, m.j, float32(math.Inf(-1)))
	TileCut(m.dy, m.y, m.rows, m.out, m.j)
	set := []int{len(m.tile), len(m.tile)}
	TileAdd(m.tile, m.dy, m.at, TileStride(m.rows), m.rows, set)
	TileGradInput(m.dx, m.tile, &w, new(TileScratch), m.n, m.from, m.dim, m.j)
	TileGradWeight(m.dw, m.x, m.tile, m.n, m.dim, m.out, m.j)
}

func (m *tiled) spec() {
	cols := min(TileColumns, m.out-m.j)
	for i := range m.n {
		for c := range cols {
			var sum float32
			for l := range m.dim {
				sum = fused(m.x[i*m.dim+l], m.w[(m.from+l)*m.out+m.j+c], sum)
			}
			m.tile[i*TileColumns+c] = sum
		}
	}
	for r := range m.rows {
		for c := range TileColumns {
			if m.dy[r*TileColumns+c] = 0; c < cols {
				sum := max(m.bias[m.j+c]+m.tile[int(m.at[r])+c]+m.tile[int(m.at[TileStride(m.rows)+r])+c], 0)
				m.dy[r*TileColumns+c] = sum + m.tile[int(m.at[r])+c]
				m.y[r*m.out+m.j+c] = m.dy[r*TileColumns+c]
			}
		}
	}
	for r := range m.rows {
		for c := range TileColumns {
			for l := range 2 {
				m.tile[int(m.at[l*TileStride(m.rows)+r])+c] += m.dy[r*TileColumns+c]
			}
		}
	}
	for i := range m.n {
		for l := range m.dim {
			var sum float32
			for c := range cols {
				sum = fused(m.tile[i*TileColumns+c], m.w[(m.from+l)*m.out+m.j+c], sum)
				at := l*m.out + m.j + c
				m.dw[at] = fused(m.x[i*m.dim+l], m.tile[i*TileColumns+c], m.dw[at])
			}
			if m.j > 0 {
				sum += m.dx[i*m.dim+l]
			}
			m.dx[i*m.dim+l] = sum
		}
	}
}

// TestTiles compares tiles with plain loops, bit by bit; slices end at memory that must
// not be touched.
func TestTiles(t *testing.T) {
	for _, x := range []struct{ rows, n, in, out, from, dim, j int }{
		{9, 5, 12, 64, 2, 10, 0}, {40, 31, 33, 130, 0, 33, 64}, {40, 17, 29, 130, 3, 7, 128},
		{3, 1, 1, 1, 0, 1, 0}, {100, 64, 48, 256, 32, 16, 192}, {30, 28, 20, 100, 1, 19, 64}, {50, 77, 24, 192, 4, 10, 64},
		{20, 5, 8, 64, 0, 8, 0}, {40, 48, 30, 104, 5, 24, 64}, {40, 50, 41, 200, 1, 40, 128},
	} {
		eachBackend(func(name string) {
			t.Run(fmt.Sprintf("%s %+v", name, x), func(t *testing.T) {
				m := newTiled(x.rows, x.n, x.in, x.out, x.from, x.dim, x.j)
				want := newTiled(x.rows, x.n, x.in, x.out, x.from, x.dim, x.j)
				for _, v := range []*[]float32{&m.x, &m.w, &m.dw, &m.tile, &m.dx, &m.y, &m.dy, &m.bias} {
					*v = guarded(t, *v, true)
				}
				m.run()
				want.spec()
				for _, v := range []struct {
					name      string
					got, want []float32
				}{{"tile", m.tile, want.tile}, {"y", m.y, want.y}, {"dy", m.dy, want.dy}, {"dx", m.dx, want.dx}, {"dw", m.dw, want.dw}} {
					if !slices.Equal(v.got, v.want) {
						t.Errorf("%s is %v, want %v", v.name, v.got, v.want)
					}
				}
			})
		})
	}
}

// TestTileAddSets checks that the previous contents of unset rows have no effect, whichever
// list reaches them first.
func TestTileAddSets(t *testing.T) {
	const rows, held, lists, stride = 90, 2, 3, 97
	eachBackend(func(name string) {
		rng := rand.New(rand.NewPCG(5, 6))
		at, set, first := make([]uint32, lists*stride), make([]int, lists), uint32(0)
		for l := range lists {
			n := first + held
			set[l] = int(n) * TileColumns
			for r := range rows {
				row := first + uint32(rng.IntN(int(n-first)+1))
				at[l*stride+r], n = row*TileColumns, max(n, row+1)
			}
			first = n
		}
		tile, x := make([]float32, first*TileColumns), make([]float32, rows*TileColumns)
		want, ends := make([]float32, len(tile)), []int{}
		for i := range tile {
			tile[i] = float32(math.NaN())
		}
		for l := range lists {
			for i := set[l] - held*TileColumns; i < set[l]; i++ {
				tile[i], want[i] = float32(i), float32(i)
			}
			ends = append(ends, len(tile))
			if l > 0 {
				ends[l-1] = set[l] - held*TileColumns
			}
		}
		for i := range x {
			x[i] = float32(rng.IntN(1000))
			for l := range lists {
				want[int(at[l*stride+i/TileColumns])+i%TileColumns] += x[i]
			}
		}
		tile, x, at = guarded(t, tile, true), guarded(t, x, true), at[:(lists-1)*stride+rows]
		TileAdd(tile, x[:40*TileColumns], at, stride, 40, set)
		TileAdd(tile, x[40*TileColumns:], at[40:], stride, rows-40, set)
		if !slices.Equal(set, ends) || !slices.Equal(tile, want) {
			t.Errorf("%s: lists are set up to %d, want %d; rows are %v, want %v", name, set, ends, tile, want)
		}
	})
}
