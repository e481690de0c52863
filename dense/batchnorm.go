package dense

import (
	"fmt"
	"math"
)

// NormEpsilon is the term that BatchNorm adds to a variance.
const NormEpsilon = 1e-5

const (
	// bnMomentum is the weight of a new batch in the running statistics. bnEpsilon keeps
	// the standard deviation of a constant unit above zero. The formula is the paper's.
	// The constants are PyTorch's, because published settings were tuned with them.
	bnMomentum = 0.1
	bnEpsilon  = NormEpsilon
)

// batchNorm normalises each unit to mean 0 and variance 1 over the global batch and then
// applies a learned scale and shift:
//
//	y = scale·(x − mean)/√(var + 1e-5) + shift.
//
// With Synchronise, mean and variance are computed over the rows of all ranks. Forward
// reduces twice: counts and sums, then squares around the mean, which avoids cancellation.
// Backward reduces once. Each reduction has width floats or twice as many. Every rank must
// then make the same Forward and Backward calls; a rank with 0 rows takes part and adds
// nothing. Evaluation reduces nothing: it uses the running statistics, running ←
// 0.9·running + 0.1·batch, with the unbiased variance n/(n−1), starting at mean 0 and
// variance 1. They are the same on every rank and are saved with the arena.
type batchNorm struct {
	Scale, Shift *Param

	name      string
	width     int
	reduce    func([]float32) error
	mean, vrn *buffer // running statistics

	x, y, dx []float32 // x is the caller's
	sums     []float32 // reduced: 2·width+1
	local    []float64 // this rank's sums: 2·width
	center   []float32 // mean of the last batch
	invStd   []float32 // 1/√(var + ε) of the last batch
	total    float32   // rows of the last global batch
}

// newBatchNorm declares a layer over width units: parameters name/scale (initially 1) and
// name/shift (initially 0) without L2, and running statistics.
func newBatchNorm(a *Arena, name string, width int) *batchNorm {
	return &batchNorm{
		Scale: a.Add(Param{Name: name + "/scale", Rows: 1, Cols: width, Init: Init{1, 1}}),
		Shift: a.Add(Param{Name: name + "/shift", Rows: 1, Cols: width}),
		name:  name, width: width,
		mean: a.addBuffer(name+"/running_mean", width, 0),
		vrn:  a.addBuffer(name+"/running_variance", width, 1),
		sums: make([]float32, 2*width+1), local: make([]float64, 2*width),
		center: make([]float32, width), invStd: make([]float32, width),
	}
}

// Synchronise sets reduce, a sum over ranks in place, to combine the statistics of all
// ranks. With nil, the default, statistics are local.
func (l *batchNorm) Synchronise(reduce func([]float32) error) { l.reduce = reduce }

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
		copy(l.center, l.mean.value)
		for j, v := range l.vrn.value {
			l.invStd[j] = float32(1 / math.Sqrt(float64(v)+bnEpsilon))
		}
	}
	for r := range rows {
		row, out := x[r*l.width:(r+1)*l.width], l.y[r*l.width:(r+1)*l.width]
		for j, v := range row {
			out[j] = float32((v-l.center[j])*l.invStd[j]*l.Scale.Value[j]) + l.Shift.Value[j]
		}
	}
	return l.y, nil
}

// statistics computes mean and deviation of the global batch and updates the running
// statistics. A global batch without rows changes nothing.
func (l *batchNorm) statistics(x []float32, rows int) error {
	w, sum := l.width, l.local[:l.width]
	clear(sum)
	for r := range rows {
		for j, v := range x[r*w : (r+1)*w] {
			sum[j] += float64(v)
		}
	}
	if err := l.sumOverRanks(l.sums[:w+1], sum, rows); err != nil {
		return err
	}
	l.total = l.sums[w]
	n := max(float64(l.total), 1)
	for j, s := range l.sums[:w] {
		l.center[j] = float32(float64(s) / n)
	}
	clear(sum)
	for r := range rows {
		for j, v := range x[r*w : (r+1)*w] {
			d := float64(v - l.center[j])
			sum[j] += float64(d * d)
		}
	}
	if err := l.sumOverRanks(l.sums[:w], sum, 0); err != nil {
		return err
	}
	for j, s := range l.sums[:w] {
		l.invStd[j] = float32(1 / math.Sqrt(float64(s)/n+bnEpsilon))
		if l.total > 0 {
			unbiased := float32(float64(s) / max(n-1, 1))
			l.mean.value[j] += float32(bnMomentum * (l.center[j] - l.mean.value[j]))
			l.vrn.value[j] += float32(bnMomentum * (unbiased - l.vrn.value[j]))
		}
	}
	return nil
}

// sumOverRanks fills dst with this rank's sums, followed by its number of rows if dst is
// longer by one, and reduces it.
func (l *batchNorm) sumOverRanks(dst []float32, sum []float64, rows int) error {
	for j, s := range sum {
		dst[j] = float32(s)
	}
	if len(dst) > len(sum) {
		dst[len(sum)] = float32(rows)
	}
	if l.reduce == nil {
		return nil
	}
	return l.reduce(dst)
}

// Backward implements Layer. The gradients of scale and shift are this rank's
// share. The gradient of the input includes the rows of all ranks.
func (l *batchNorm) Backward(dy []float32, rows int) ([]float32, error) {
	w := l.width
	if len(dy) != rows*w || len(l.x) != len(dy) {
		panic(fmt.Sprintf("dense: batch norm %s: Backward: %d values, Forward had %d", l.name, len(dy), len(l.x)))
	}
	clear(l.local)
	sumDy, sumDyX := l.local[:w], l.local[w:]
	for r := range rows {
		row := l.x[r*w : (r+1)*w]
		for j, g := range dy[r*w : (r+1)*w] {
			sumDy[j] += float64(g)
			sumDyX[j] += float64(g * (row[j] - l.center[j]) * l.invStd[j])
		}
	}
	for j := range w {
		l.Shift.Grad[j] += float32(sumDy[j])
		l.Scale.Grad[j] += float32(sumDyX[j])
	}
	if err := l.sumOverRanks(l.sums[:2*w], l.local, 0); err != nil {
		return nil, fmt.Errorf("dense: batch norm %s: backward: sum over ranks: %w", l.name, err)
	}
	meanDy, meanDyX := l.sums[:w], l.sums[w:2*w]
	for j := range w {
		meanDy[j] /= max(l.total, 1)
		meanDyX[j] /= max(l.total, 1)
	}
	l.dx = grow(l.dx, len(dy))
	for r := range rows {
		row, out := l.x[r*w:(r+1)*w], l.dx[r*w:(r+1)*w]
		for j, g := range dy[r*w : (r+1)*w] {
			xhat := (row[j] - l.center[j]) * l.invStd[j]
			out[j] = l.Scale.Value[j] * l.invStd[j] * (g - meanDy[j] - float32(xhat*meanDyX[j]))
		}
	}
	return l.dx, nil
}
