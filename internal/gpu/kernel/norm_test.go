//go:build gpu

package kernel

import (
	"fmt"
	"testing"
)

// TestNorm compares the kernels with the formulas of package dense, bit by bit. Sums are in double
// precision, so here their order does not change the result in single precision.
func TestNorm(t *testing.T) {
	for _, shape := range [][2]int{{0, 3}, {1, 1}, {64, 5}, {150, 37}} {
		rows, cols := shape[0], shape[1]
		n := rows * cols
		mem := newMemory(t, 100_000)
		x, dy, mean, inv := random(n, 3), random(n, 2), random(cols, 1), random(cols, 4)
		scale, shift, meanDy, meanDyX := random(cols, 5), random(cols, 6), random(cols, 7), random(cols, 8)
		var sums [3][]float64
		for i := range sums {
			sums[i] = make([]float64, cols)
		}
		y, dx := make([]float32, n), make([]float32, n)
		for i, v := range x {
			j := i % cols
			d := v - mean[j]
			sums[0][j] += float64(v)
			sums[1][j] += float64(d) * float64(d)
			sums[2][j] += float64(dy[i] * d * inv[j])
			y[i] = float32(d*inv[j]*scale[j]) + shift[j]
			dx[i] = scale[j] * inv[j] * (dy[i] - meanDy[j] - float32(d*inv[j]*meanDyX[j]))
		}
		on := Norm{
			Rows: rows, Cols: cols, Mean: mem.in(mean...), InvStd: mem.in(inv...), MeanDy: mem.in(meanDy...), MeanDyX: mem.in(meanDyX...),
			Scale: mem.in(scale...), Shift: mem.in(shift...), Partial: mem.pool.Cut(2 * PartialSums(rows, cols)),
		}
		in, grad, total := mem.in(x...), mem.in(dy...), mem.in(random(cols, 9)...)
		for i, what := range []string{"sums", "squares", "products"} {
			want := make([]float32, cols)
			for j, s := range sums[i] {
				want[j] = float32(s)
			}
			switch i {
			case 0:
				mem.do(on.Sums(gpu.set, gpu.stream, total, in))
			case 1:
				mem.do(on.Squares(gpu.set, gpu.stream, total, in))
			case 2:
				mem.do(on.Products(gpu.set, gpu.stream, total, grad, in))
			}
			mem.same(fmt.Sprint(shape, ": ", what), total, want)
		}
		out := mem.in(random(n, 1)...)
		mem.do(on.Forward(gpu.set, gpu.stream, out, in))
		mem.same(fmt.Sprint(shape, ": forward"), out, y)
		mem.do(on.Backward(gpu.set, gpu.stream, grad, in))
		mem.same(fmt.Sprint(shape, ": backward"), grad, dx)
	}
}
