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
	for range 2 * rows {
		m.at = append(m.at, uint32(rng.IntN(n)*TileColumns))
	}
	return m
}

// run computes everything by the package, spec by plain loops.
func (m *tiled) run() {
	var w Packed
	w.Pack(m.w, m.in, m.out)
	TileForward(m.tile, m.x, &w, m.n, m.from, m.dim, m.j)
	TileSum(m.y, m.bias, m.tile, m.at, m.rows, m.out, m.j, 0)
	TileSum(m.y, nil, m.tile, m.at[:m.rows], m.rows, m.out, m.j, float32(math.Inf(-1)))
	TileCut(m.dy, m.y, m.rows, m.out, m.j)
	TileAdd(m.tile, m.dy, m.at[:m.rows], len(m.tile))
	TileGradInput(m.dx, m.tile, &w, new(TileRoom), m.n, m.from, m.dim, m.j)
	TileGradWeight(m.dw, m.x, m.tile, m.n, m.dim, m.out, m.j)
}

func (m *tiled) spec(add multiplyAdd) {
	cols := min(TileColumns, m.out-m.j)
	for i := range m.n {
		for c := range cols {
			var sum float32
			for l := range m.dim {
				sum = add(m.x[i*m.dim+l], m.w[(m.from+l)*m.out+m.j+c], sum)
			}
			m.tile[i*TileColumns+c] = sum
		}
	}
	for r := range m.rows {
		for c := range TileColumns {
			if m.dy[r*TileColumns+c] = 0; c < cols {
				sum := max(m.bias[m.j+c]+m.tile[int(m.at[r])+c]+m.tile[int(m.at[m.rows+r])+c], 0)
				m.dy[r*TileColumns+c] = sum + m.tile[int(m.at[r])+c]
				m.y[r*m.out+m.j+c] = m.dy[r*TileColumns+c]
			}
		}
	}
	for r := range m.rows {
		for c := range TileColumns {
			m.tile[int(m.at[r])+c] += m.dy[r*TileColumns+c]
		}
	}
	for i := range m.n {
		for l := range m.dim {
			var sum float32
			for c := range cols {
				sum = add(m.tile[i*TileColumns+c], m.w[(m.from+l)*m.out+m.j+c], sum)
				at := l*m.out + m.j + c
				m.dw[at] = add(m.x[i*m.dim+l], m.tile[i*TileColumns+c], m.dw[at])
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
	} {
		eachBackend(func(name string) {
			t.Run(fmt.Sprintf("%s %+v", name, x), func(t *testing.T) {
				m := newTiled(x.rows, x.n, x.in, x.out, x.from, x.dim, x.j)
				want := newTiled(x.rows, x.n, x.in, x.out, x.from, x.dim, x.j)
				add := multiplyAdd(fused)
				if active == nil {
					add = rounded
				}
				for _, v := range []*[]float32{&m.x, &m.w, &m.dw, &m.tile, &m.dx, &m.y, &m.dy, &m.bias} {
					*v = guarded(t, *v, true)
				}
				m.run()
				want.spec(add)
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

// TestTileAddSets: what lies in rows that hold nothing yet is of no matter, from one call
// to the next.
func TestTileAddSets(t *testing.T) {
	const rows, held = 90, 2
	eachBackend(func(name string) {
		rng := rand.New(rand.NewPCG(5, 6))
		var at []uint32
		n := uint32(held)
		for range rows {
			row := uint32(rng.IntN(int(n) + 1))
			at, n = append(at, row*TileColumns), max(n, row+1)
		}
		tile, x := make([]float32, n*TileColumns), make([]float32, rows*TileColumns)
		want := make([]float32, len(tile))
		for i := range tile {
			if tile[i] = float32(math.NaN()); i < held*TileColumns {
				tile[i], want[i] = float32(i), float32(i)
			}
		}
		for i := range x {
			x[i] = float32(rng.IntN(1000))
			want[int(at[i/TileColumns])+i%TileColumns] += x[i]
		}
		tile, x = guarded(t, tile, true), guarded(t, x, true)
		set := TileAdd(tile, x[:40*TileColumns], at[:40], held*TileColumns)
		set = TileAdd(tile, x[40*TileColumns:], at[40:], set)
		if set != len(tile) || !slices.Equal(tile, want) {
			t.Errorf("%s: %d of %d floats are set, to %v, want %v", name, set, len(tile), tile, want)
		}
	})
}
