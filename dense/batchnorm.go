package dense

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/kernel/norm"
)

// batchNorm normalises each unit to mean 0 and variance 1 over the global batch and then
// applies a learned scale and shift:
//
//	y = scale·(x − mean)/√(var + 1e-5) + shift.
//
// With Synchronise, mean and variance are computed over the rows of all ranks. Forward
// reduces twice and Backward once, width floats or twice as many each time. Every rank must
// then make the same Forward and Backward calls; a rank with 0 rows takes part and adds
// nothing. Evaluation reduces nothing: it uses the running statistics, which are saved with
// the arena. Package norm has the formulas.
type batchNorm struct {
	Scale, Shift *Param

	name      string
	width     int
	batch     norm.Statistics // of the last batch
	mean, vrn *buffer         // running statistics

	x, y, dx []float32 // x is the caller's
	local    []float64 // this rank's sums: 2·width
}

// newBatchNorm declares a layer over width units: parameters name/scale (initially 1) and
// name/shift (initially 0) without L2, and running statistics.
func newBatchNorm(a *Arena, name string, width int) *batchNorm {
	return &batchNorm{
		Scale: a.Add(Param{Name: name + "/scale", Rows: 1, Cols: width, Init: Init{1, 1}}),
		Shift: a.Add(Param{Name: name + "/shift", Rows: 1, Cols: width}),
		name:  name, width: width, batch: norm.New(width),
		mean:  a.addBuffer(name+"/running_mean", width, 0),
		vrn:   a.addBuffer(name+"/running_variance", width, 1),
		local: make([]float64, 2*width),
	}
}

// Synchronise sets reduce, a sum over ranks in place, to combine the statistics of all
// ranks. With nil, the default, statistics are local.
func (l *batchNorm) Synchronise(reduce func([]float32) error) { l.batch.Reduce = reduce }

// Name implements Layer.
func (l *batchNorm) Name() string { return l.name }

// Forward implements Layer.
func (l *batchNorm) Forward(x []float32, rows int, train bool) ([]float32, error) {
	if len(x) != rows*l.width {
		panic(fmt.Sprintf("dense: batch norm %s: Forward: %d values for %d×%d", l.name, len(x), rows, l.width))
	}
	l.x, l.y = x, grow(l.y, len(x))
	if train {
		if err := l.statistics(x, rows); err != nil {
			return nil, fmt.Errorf("dense: batch norm %s: forward: sum over ranks: %w", l.name, err)
		}
	} else {
		copy(l.batch.Mean, l.mean.value)
		for j, v := range l.vrn.value {
			l.batch.InvStd[j] = norm.InvStd(float64(v))
		}
	}
	center, invStd := l.batch.Mean, l.batch.InvStd
	for r := range rows {
		row, out := x[r*l.width:(r+1)*l.width], l.y[r*l.width:(r+1)*l.width]
		for j, v := range row {
			out[j] = float32((v-center[j])*invStd[j]*l.Scale.Value[j]) + l.Shift.Value[j]
		}
	}
	return l.y, nil
}

// statistics computes mean and deviation of the global batch and updates the running
// statistics.
func (l *batchNorm) statistics(x []float32, rows int) error {
	w, sum := l.width, l.local[:l.width]
	clear(sum)
	for r := range rows {
		for j, v := range x[r*w : (r+1)*w] {
			sum[j] += float64(v)
		}
	}
	l.store(sum)
	if err := l.batch.Center(rows); err != nil {
		return err
	}
	clear(sum)
	for r := range rows {
		for j, v := range x[r*w : (r+1)*w] {
			d := float64(v - l.batch.Mean[j])
			sum[j] += float64(d * d)
		}
	}
	l.store(sum)
	return l.batch.Scale(l.mean.value, l.vrn.value)
}

// store rounds this rank's sums to float32.
func (l *batchNorm) store(sums []float64) {
	for j, s := range sums {
		l.batch.Sums[j] = float32(s)
	}
}

// Backward implements Layer. The gradients of scale and shift are this rank's
// share. The gradient of the input includes the rows of all ranks.
func (l *batchNorm) Backward(dy []float32, rows int) ([]float32, error) {
	w := l.width
	if len(dy) != rows*w || len(l.x) != len(dy) {
		panic(fmt.Sprintf("dense: batch norm %s: Backward: %d values, Forward had %d", l.name, len(dy), len(l.x)))
	}
	center, invStd := l.batch.Mean, l.batch.InvStd
	clear(l.local)
	sumDy, sumDyX := l.local[:w], l.local[w:]
	for r := range rows {
		row := l.x[r*w : (r+1)*w]
		for j, g := range dy[r*w : (r+1)*w] {
			sumDy[j] += float64(g)
			sumDyX[j] += float64(g * (row[j] - center[j]) * invStd[j])
		}
	}
	for j := range w {
		l.Shift.Grad[j] += float32(sumDy[j])
		l.Scale.Grad[j] += float32(sumDyX[j])
	}
	l.store(l.local)
	meanDy, meanDyX, err := l.batch.Backward()
	if err != nil {
		return nil, fmt.Errorf("dense: batch norm %s: backward: sum over ranks: %w", l.name, err)
	}
	l.dx = grow(l.dx, len(dy))
	for r := range rows {
		row, out := l.x[r*w:(r+1)*w], l.dx[r*w:(r+1)*w]
		for j, g := range dy[r*w : (r+1)*w] {
			xhat := (row[j] - center[j]) * invStd[j]
			out[j] = l.Scale.Value[j] * invStd[j] * (g - meanDy[j] - float32(xhat*meanDyX[j]))
		}
	}
	return l.dx, nil
}
