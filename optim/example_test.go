package optim_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/wdlrun/wdlrun/optim"
)

// A rule performs steps on a vector of parameters with the gradient and its own state.
func Example() {
	rule := optim.Rule{Kind: "adagrad", LearningRate: 0.5}.Default()
	if err := errors.Join(rule.Validate()...); err != nil {
		log.Fatal(err)
	}
	w := []float32{1, -2}
	state := make([]float32, rule.StateLen(len(w)))
	rule.InitState(w, state)
	for step := int64(1); step <= 100; step++ {
		g := []float32{2 * w[0], 2 * w[1]} // the gradient of w₀² + w₁²
		update := rule.At(optim.Step{N: step, Rate: 1})
		update.Apply(0, w, g, state)
	}
	fmt.Printf("w₀² + w₁² = %.4f\n", w[0]*w[0]+w[1]*w[1])
	// Output: w₀² + w₁² = 0.0000
}
