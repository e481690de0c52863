package step

import (
	"math"
	"slices"
	"testing"
)

// Samples without a label have no weight in its loss and do not occur in its metrics.
func TestPartialLabels(t *testing.T) {
	nan := float32(math.NaN())
	labels, weights := []float32{1, nan, 0, nan}, []float32{2, 3, 4, 5}
	var p partial
	p.fill(labels, nil)
	if !p.missing || !slices.Equal(p.label, []float32{1, 0, 0, 0}) || !slices.Equal(p.weight, []float32{1, 0, 1, 0}) {
		t.Errorf("%v", p)
	}
	p.fill(labels, weights)
	if !slices.Equal(p.weight, []float32{2, 0, 4, 0}) {
		t.Errorf("weights %v", p.weight)
	}
	logit, label, weight := p.known([]float32{.5, .6, .7, .8}, labels, weights)
	if !slices.Equal(logit, []float32{.5, .7}) || !slices.Equal(label, []float32{1, 0}) || !slices.Equal(weight, []float32{2, 4}) {
		t.Errorf("%v, %v, %v", logit, label, weight)
	}
	if p.fill([]float32{1, 0}, nil); p.missing {
		t.Error("a complete batch is partial")
	}
}
