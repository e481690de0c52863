package f32

import "math"

// A layer with one output, the usual last layer of a click model, would fill a tile with 31
// columns of zeros. Reading x bounds its products, so they have separate kernels in vectors
// of 32, on the same rounded values.
//
// Order of additions. An output is 32 chains over every 32nd product. The chains are added
// by halves, 16 and 16, 8 and 8 and so on, and then the bias. The gradient of a weight is
// one chain over the rows, starting from the accumulated value.

// firstColumn returns the first column of a matrix of rows rows as floats.
func firstColumn(buf []float32, m []BF16, rows, stride int) []float32 {
	buf = grow(buf, rows)
	for r := range buf {
		buf[r] = widenBF16(m[r*stride])
	}
	return buf
}

func widenBF16(v BF16) float32 { return math.Float32frombits(uint32(v) << 16) }

func (k *WorkBF16) forwardOne(y []float32, x []BF16, w *PackedBF16, bias []float32, rows int) {
	var b float32
	if bias != nil {
		b = bias[0]
	}
	if rows > 0 {
		dotRows(y, x, StrideBF16(w.in), w.column, b)
	}
}

func (k *WorkBF16) gradInputOne(dx, dy []BF16, w *PackedBF16, rows int, gate []BF16) {
	checkBF16("GradInput", "its input", len(dy), rows, 1)
	checkBF16("GradInput", "its result", len(dx), rows, w.in)
	k.factor = firstColumn(k.factor, dy, rows, StrideBF16(1))
	if rows > 0 && w.in > 0 {
		outerRows(dx, StrideBF16(w.in), k.factor, w.column, gate)
	}
	clearBelow(dx, rows, w.in)
}

func (k *WorkBF16) gradWeightOne(dw, db []float32, x, dy []BF16, rows, in int) {
	k.factor = firstColumn(k.factor, dy, rows, StrideBF16(1))
	for j := 0; j < in && rows > 0; j += tile {
		addScaledRows(dw[j:min(j+tile, in)], x[j:], StrideBF16(in), k.factor)
	}
	for _, v := range k.factor {
		if db != nil {
			db[0] += v
		}
	}
}
