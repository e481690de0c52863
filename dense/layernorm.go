package dense

import (
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/internal/kernel/norm"
)

// layerNorm normalises groups of adjacent columns of each row to mean 0 and variance 1 and then
// applies a learned scale and shift (Ba et al. 2016, "Layer Normalization", §3):
//
//	y = scale·(x − mean)/√(var + 1e-5) + shift,   mean and var over the group's columns of the row
//
// A row does not depend on other rows, so evaluation equals training. Columns after the last group
// are copied.
type layerNorm struct {
	Scale, Shift *Param

	name   string
	width  int
	groups []int

	unit   []float32 // rows × columns of the groups: (x − mean)/√(var + 1e-5)
	invStd []float32 // rows × groups
	y, dx  []float32
}

// NewLayerNorm declares a layer that normalises groups of columns of each row (Ba et al. 2016),
// over rows of width columns that begin with groups of the given
// widths. The parameters name/scale (initially 1) and name/shift (initially 0) have no L2.
// NewLayerNorm panics if the groups do not fit or one is empty.
func NewLayerNorm(a *Arena, name string, width int, groups []int) Layer {
	sum := 0
	for _, n := range groups {
		if sum += n; n < 1 || sum > width {
			panic(fmt.Sprintf("dense: NewLayerNorm: %s: groups of %v columns in rows of %d", name, groups, width))
		}
	}
	return &layerNorm{
		Scale: a.Add(Param{Name: name + "/scale", Rows: 1, Cols: sum, Init: Init{1, 1}}),
		Shift: a.Add(Param{Name: name + "/shift", Rows: 1, Cols: sum}),
		name:  name, width: width, groups: groups,
	}
}

// Name implements Layer.
func (l *layerNorm) Name() string { return l.name }

// Forward implements Layer; x and the result are rows×width.
func (l *layerNorm) Forward(x []float32, rows int, _ bool) ([]float32, error) {
	scale, shift := l.Scale.Value, l.Shift.Value
	l.y, l.unit, l.invStd = grow(l.y, len(x)), grow(l.unit, rows*len(scale)), grow(l.invStd, rows*len(l.groups))
	for r := range rows {
		in, out, unit := x[r*l.width:(r+1)*l.width], l.y[r*l.width:(r+1)*l.width], l.unit[r*len(scale):(r+1)*len(scale)]
		at := 0
		for g, n := range l.groups {
			var sum, squares float64
			for _, v := range in[at : at+n] {
				sum += float64(v)
			}
			mean := sum / float64(n)
			for _, v := range in[at : at+n] {
				d := float64(v) - mean
				squares += float64(d * d)
			}
			invStd := 1 / math.Sqrt(squares/float64(n)+norm.Epsilon)
			l.invStd[r*len(l.groups)+g] = float32(invStd)
			for j := at; j < at+n; j++ {
				unit[j] = float32((float64(in[j]) - mean) * invStd)
				out[j] = float32(scale[j]*unit[j]) + shift[j]
			}
			at += n
		}
		copy(out[at:], in[at:])
	}
	return l.y, nil
}

// Backward implements Layer; dy and the result are rows×width.
func (l *layerNorm) Backward(dy []float32, rows int) ([]float32, error) {
	scale := l.Scale.Value
	l.dx = grow(l.dx, len(dy))
	for r := range rows {
		g, out, unit := dy[r*l.width:(r+1)*l.width], l.dx[r*l.width:(r+1)*l.width], l.unit[r*len(scale):(r+1)*len(scale)]
		at := 0
		for k, n := range l.groups {
			var sum, product float64
			for j := at; j < at+n; j++ {
				l.Shift.Grad[j] += g[j]
				l.Scale.Grad[j] += float32(g[j] * unit[j])
				d := float64(float32(g[j] * scale[j]))
				sum += d
				product += float64(d * float64(unit[j]))
			}
			mean, slope, invStd := float32(sum/float64(n)), float32(product/float64(n)), l.invStd[r*len(l.groups)+k]
			for j := at; j < at+n; j++ {
				out[j] = invStd * (float32(g[j]*scale[j]) - mean - float32(unit[j]*slope))
			}
			at += n
		}
		copy(out[at:], g[at:])
	}
	return l.dx, nil
}

// NonFinite is MLP.NonFinite for the layer.
func (l *layerNorm) NonFinite() (place string, found bool) {
	return nonFinite([]*Param{l.Scale, l.Shift})
}
