package f32

import "math"

// The plain loops of the bfloat16 layer. They specify the products in tiles and in vectors,
// and the kernels around them.

// roundTile is roundBF16 with subnormal numbers replaced by 0.
func roundTile(v float32) BF16 {
	return roundBF16(flush(v))
}

// flush replaces a subnormal number by 0.
func flush(v float32) float32 {
	const exponent = 0xff << 23
	if math.Float32bits(v)&exponent == 0 {
		return float32(math.Copysign(0, float64(v)))
	}
	return float32(v)
}

func roundRowsPlain(dst []BF16, ldd int, src []float32, lds, rows, cols int) {
	for r := range rows {
		row := dst[r*ldd:][:padTile(cols)]
		for j, v := range src[r*lds:][:cols] {
			row[j] = roundTile(v)
		}
		clear(row[cols:])
	}
}

// joinRowsPlain writes rows of n pairs.
func joinRowsPlain(dst []uint32, ldd int, src []BF16, lds, pairs, n int) {
	for i := range pairs {
		for j := range n {
			dst[i*ldd+j] = uint32(src[2*i*lds+j]) | uint32(src[(2*i+1)*lds+j])<<16
		}
	}
}

// transposePairsPlain transposes n blocks of 8×8, which are side by side in src and one
// below the other in dst.
func transposePairsPlain(dst, src []uint32, n, ldd, lds int) {
	for i := range 8 {
		for j := range 8 * n {
			dst[j*ldd+i] = src[i*lds+j]
		}
	}
}

// transposeRowsPlain transposes 32 rows of 8·n columns.
func transposeRowsPlain(dst []BF16, ldd int, src []BF16, lds, n int) {
	for i := range tile {
		for j := range 8 * n {
			dst[j*ldd+i] = src[i*lds+j]
		}
	}
}

// sumPlain returns start plus the product of a row and column j of b.
func sumPlain(start float32, row []BF16, b *pairs, j int) float32 {
	column := b.data[min(b.at(j), len(b.data)):]
	if b.unit == vectors {
		return chainPlain(start, row, column, b)
	}
	for d := range b.depth {
		var even, odd float32
		for i := d * tile / 2; i < (d+1)*tile/2; i++ {
			y0, y1 := widenPair(column[i*b.stride])
			// The products are exact.
			even += float32(widenBF16(row[2*i]) * y0)
			odd += float32(widenBF16(row[2*i+1]) * y1)
		}
		start += even + odd
	}
	return start
}

// chainPlain returns the same sum in the order of vectors.
func chainPlain(sum float32, row []BF16, column []uint32, b *pairs) float32 {
	for i := range b.depth * tile / 2 {
		sum = addPair(sum, row[2*i], row[2*i+1], column[i*b.stride])
	}
	return sum
}

// addPair adds the products of two values and a pair to sum.
func addPair(sum float32, even, odd BF16, pair uint32) float32 {
	y0, y1 := widenPair(pair)
	sum = flush(addOnce(flush(widenBF16(odd)), flush(y1), flush(sum)))
	return flush(addOnce(flush(widenBF16(even)), flush(y0), sum))
}

func widenPair(pair uint32) (even, odd float32) {
	return math.Float32frombits(pair << 16), math.Float32frombits(pair &^ 0xffff)
}

// addOnce returns a·b + c, rounded once, for values of bfloat16, whose product is usually
// exact.
func addOnce(a, b, c float32) float32 {
	if p := float32(a * b); float64(p) == float64(a)*float64(b) {
		return p + c
	}
	return fused(a, b, c)
}

func toFloatPlain(c []float32, ldc int, a []BF16, b *pairs, j int, init []float32, ldi, blocks int) {
	for r := range tile {
		for i := range blocks * tile {
			c[r*ldc+i] = sumPlain(init[r*ldi+i], a[r*b.lda():], b, j+i)
		}
	}
}

func (k *WorkBF16) toHalfPlain(c []BF16, ldc int, a []BF16, b *pairs, gate []BF16, blocks int, floor float32) {
	for r := range tile {
		for i := range blocks * tile {
			v := sumPlain(k.row[i], a[r*b.lda():], b, i)
			if v < floor {
				v = floor
			}
			if gate != nil && gate[r*ldc+i]&0x7fff == 0 {
				v = 0
			}
			c[r*ldc+i] = roundTile(v)
		}
	}
}

func addColumnSumsPlain(sum []float32, a []BF16, rows, stride int) {
	for i := range rows {
		for j := range sum {
			sum[j] += widenBF16(a[i*stride+j])
		}
	}
}

func dotRowsPlain(y []float32, x []BF16, ldx int, w []float32, bias float32) {
	for r := range y {
		var sum [tile]float32
		for j, v := range w {
			sum[j%tile] += float32(widenBF16(x[r*ldx+j]) * v) // exact
		}
		for n := tile / 2; n > 0; n /= 2 {
			for j := range n {
				sum[j] += sum[j+n]
			}
		}
		y[r] = sum[0] + bias
	}
}

func outerRowsPlain(dst []BF16, ldd int, factor, w []float32, gate []BF16) {
	for r, f := range factor {
		for j, v := range w {
			if dst[r*ldd+j] = roundTile(f * v); gate != nil && gate[r*ldd+j]&0x7fff == 0 {
				dst[r*ldd+j] = 0
			}
		}
	}
}

func addScaledRowsPlain(sum []float32, x []BF16, ldx int, factor []float32) {
	for r, f := range factor {
		for j := range sum {
			sum[j] += float32(widenBF16(x[r*ldx+j]) * f) // exact
		}
	}
}
