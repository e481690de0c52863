package optim

import (
	"math"
	"testing"
)

// TestPeers compares three steps of each rule with those of the optimizer of another trainer that has its name, as
// tests/peers/optimizers.py recorded them. Where a rule is another one, docs/migrating.md says how it differs.
func TestPeers(t *testing.T) {
	start := func(x float64) *float64 { return &x }
	for _, peer := range []struct {
		name string
		rule Rule
		same bool
		want []float32
	}{
		// torch 2.15.0
		{"torch SGD", Rule{Kind: "sgd"}, true, []float32{-0.5, -0.2, 0.125, 0.575, -0.25, 0.125, 0.55, -0.3, 0.125, 0.375, -0.3, 0}},
		{"torch Adagrad, start 0", Rule{Kind: "adagrad", Accumulator: start(0)}, true, []float32{-0.5, -0.2, 0.1, 0.6, -0.3, 0.08320504, 0.6, -0.3, 0.2, 0.3, -0.3, 0}},
		{"torch Adagrad, start 0.1", Rule{Kind: "adagrad", Accumulator: start(0.1)}, true, []float32{-0.5, -0.2, 0.1078557, 0.5921443, -0.2845154, 0.09399816, 0.5845155, -0.3, 0.1620174, 0.3379826, -0.3, 0}},
		{"torch Adagrad, start 1", Rule{Kind: "adagrad", Accumulator: start(1)}, true, []float32{-0.5, -0.2, 0.14, 0.56, -0.2447214, 0.1109872, 0.5447214, -0.3, 0.1242536, 0.3757464, -0.3, 0}},
		{"torch SparseAdam", Rule{Kind: "adam"}, true, []float32{-0.5, -0.2, 0.1361187, 0.657522, -0.2744136, 0.02477025, 0.5744137, -0.3, 0.1638813, 0.3361187, -0.3, 0}},
		{"torch Adam", Rule{Kind: "adam"}, false, []float32{-0.5, -0.2, 0.1361187, 0.7188016, -0.3319357, 0.04391762, 0.6319357, -0.3, 0.1638813, 0.3361187, -0.3, 0}},
		{"torch AdamW, decay 0.1", Rule{Kind: "adamw", WeightDecay: start(0.1)}, false, []float32{-0.4851495, -0.1940598, 0.1301785, 0.701291, -0.3252514, 0.04268982, 0.6163411, -0.2910897, 0.1609112, 0.3242383, -0.2910897, 0}},
		// tensorflow 2.21.0, keras 3.15.1
		{"Keras SGD", Rule{Kind: "sgd"}, true, []float32{-0.5, -0.2, 0.125, 0.575, -0.25, 0.125, 0.55, -0.3, 0.125, 0.375, -0.3, 0}},
		{"Keras Adagrad, start 0.1", Rule{Kind: "adagrad", Accumulator: start(0.1)}, false, []float32{-0.5, -0.2, 0.1439032, 0.6167748, -0.2845154, 0.09399817, 0.5845154, -0.3, 0.1620173, 0.3379827, -0.3, 0}},
		{"Keras Adam", Rule{Kind: "adam"}, false, []float32{-0.5, -0.2, 0.1630937, 0.7671285, -0.3319339, 0.04391845, 0.6319339, -0.3, 0.1638803, 0.3361197, -0.3, 0}},
		{"Keras Ftrl, start 0.1", Rule{Kind: "ftrl"}, false, []float32{0, 0, 0.08676032, 0.3705919, -0.08451542, 0.04054592, 0.08451542, 0, 0.06201737, -0.06201737, 0, 0}},
		{"TF1 SGD", Rule{Kind: "sgd"}, true, []float32{-0.5, -0.2, 0.125, 0.575, -0.25, 0.125, 0.55, -0.3, 0.125, 0.375, -0.3, 0}},
		{"TF1 Adagrad, start 0.1", Rule{Kind: "adagrad", Accumulator: start(0.1)}, true, []float32{-0.5, -0.2, 0.1078557, 0.5921443, -0.2845154, 0.09399817, 0.5845155, -0.3, 0.1620174, 0.3379826, -0.3, 0}},
		{"TF1 Adam", Rule{Kind: "adam"}, false, []float32{-0.5, -0.2, 0.1361191, 0.7188008, -0.331935, 0.04391744, 0.631935, -0.3, 0.1638808, 0.3361192, -0.3, 0}},
		{"TF1 Ftrl, start 0.1", Rule{Kind: "ftrl"}, false, []float32{-0.5, -0.2, -0.09214427, 0.3978871, -0.08451542, 0.04054592, 0.3172542, 0, 0.08357091, 0.02419682, -0.3, 0}},
		{"TF1 Ftrl, start 0, beta 1", Rule{Kind: "ftrl"}, false, []float32{-0.5, -0.2, -0.04285714, 0.2571429, -0.03333334, 0.03944487, 0.2, 0, 0.04, 0.06, -0.3, 0}},
	} {
		peer.rule.LearningRate = 0.1
		difference := 0.0
		for i, x := range threeSteps(peer.rule) {
			difference = max(difference, math.Abs(float64(x-peer.want[i])))
		}
		if peer.same && difference > 2e-6 {
			t.Errorf("%s: our %s differs by %v", peer.name, peer.rule.Kind, difference)
		}
		if !peer.same && difference < 1e-3 {
			t.Errorf("%s: our %s differs only by %v, but docs/migrating.md says that it is another rule", peer.name, peer.rule.Kind, difference)
		}
	}
}

// threeSteps is the training of tests/peers/optimizers.py with rows that move only if they are in the batch.
func threeSteps(rule Rule) []float32 {
	const rows, dim = 6, 2
	weights, state := make([]float32, rows*dim), make([][]float32, rows)
	for r := range rows {
		for c := range dim {
			weights[r*dim+c] = float32(float64((7*r+3*c)%11)/10 - 0.5)
		}
		state[r] = make([]float32, rule.StateLen(dim))
		rule.InitState(weights[r*dim:][:dim], state[r])
	}
	for step, batch := range [][]int{{1, 2, 1}, {2, 3}, {1, 1, 4}} {
		sums := map[int][]float32{}
		for place, r := range batch {
			if sums[r] == nil {
				sums[r] = make([]float32, dim)
			}
			for c := range dim {
				sums[r][c] += float32((5*step+3*place+2*c)%7-3) / 4
			}
		}
		update := rule.At(Step{N: int64(step + 1)})
		for r, sum := range sums {
			update.Apply(0, weights[r*dim:][:dim], sum, state[r])
		}
	}
	return weights
}
