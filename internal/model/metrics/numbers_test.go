package metrics

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
)

// TestNumbers compares the metrics with plain sums, and several ranks with one.
func TestNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	logit, label, weight := make([]float32, 400), make([]float32, 400), make([]float32, 400)
	for i := range logit {
		logit[i], label[i], weight[i] = float32(rng.NormFloat64()), float32(rng.IntN(7)), rng.Float32()
	}
	for _, poisson := range []bool{false, true} {
		n := NewNumbers(poisson)
		n.Add(logit, label, weight)
		m := n.metrics()
		var w, loss, squares, absolute, sum, sumSquares float64
		for i, z := range logit {
			y, v, p := float64(label[i]), float64(weight[i]), float64(z)
			l := (p - y) * (p - y) / 2
			if poisson {
				p = math.Exp(p)
				l = p - y*float64(z)
			}
			w, loss, squares, absolute = w+v, loss+v*l, squares+v*(p-y)*(p-y), absolute+v*math.Abs(p-y)
			sum, sumSquares = sum+v*y, sumSquares+v*y*y
		}
		for _, x := range []struct {
			what      string
			got, want float64
		}{
			{"loss", m.LogLoss, loss / w}, {"RMSE", *m.RMSE, math.Sqrt(squares / w)}, {"MAE", *m.MAE, absolute / w},
			{"mean", m.BaseRate, sum / w}, {"RMSE of the mean", *m.BaseRMSE, math.Sqrt(sumSquares/w - sum/w*sum/w)},
		} {
			if math.Abs(x.got-x.want) > 1e-9*(1+math.Abs(x.want)) {
				t.Errorf("%s is %v, want %v", x.what, x.got, x.want)
			}
		}
		for _, size := range []int{2, 3} {
			if err := mem.Run(size, 1, func(c *collective.Comm) error {
				part := NewNumbers(poisson)
				for i := c.Rank(); i < len(logit); i += size {
					part.Add(logit[i:i+1], label[i:i+1], weight[i:i+1])
				}
				got, err := part.Reduce(c)
				if !reflect.DeepEqual(got, m) {
					t.Errorf("on %d ranks %+v, on one %+v", size, got, m)
				}
				return err
			}); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestNumbersOfTheMean: a model that predicts the mean has the base RMSE and causes no
// warning.
func TestNumbersOfTheMean(t *testing.T) {
	n := NewNumbers(false)
	n.Add([]float32{3, 3, 3}, []float32{1, 3, 5}, nil)
	m := n.metrics()
	if math.Abs(*m.RMSE-*m.BaseRMSE) > 1e-12 || math.Abs(m.LogLoss-m.BaseLogLoss) > 1e-12 || m.Warning("x") != "" {
		t.Errorf("%+v: %s", m, m.Warning("x"))
	}
	n.Reset()
	n.Add([]float32{9, 3, 3}, []float32{1, 3, 5}, nil)
	if n.metrics().Warning("x") == "" {
		t.Error("no warning of a model worse than the mean")
	}
}
