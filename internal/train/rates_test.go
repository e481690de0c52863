package train

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// ratesConfig returns a configuration for records of ids, whose label depends on them with the given
// strength.
func ratesConfig(t *testing.T, strength float64) *config.Config {
	t.Helper()
	of := func(name string, seed uint64, rows int) string {
		r := rand.New(rand.NewPCG(seed, 1))
		var b strings.Builder
		b.WriteString("user,item,label\n")
		for range rows {
			user, item, y := int(r.ExpFloat64()*600), r.IntN(300), 0
			if r.Float64() < 1/(1+math.Exp(-strength*(math.Sin(float64(user))+math.Cos(float64(item))))) {
				y = 1
			}
			fmt.Fprintf(&b, "u%d,i%d,%d\n", user, item, y)
		}
		return datatest.Write(t, name, b.String())
	}
	c, err := config.Parse("rates.yaml", []byte(fmt.Sprintf(`
data: {train: [%q], test: [%q], valid_fraction: 0.1, header: true}
label: {field: label}
features: [{field: user, encode: rate}, {field: item, encode: rate}, {field: item, encode: hash, name: key}]
model: {embedding_dim: 4, hidden: [8]}
train: {global_batch: 128, epochs: 3, checkpoint: {every_steps: 60, keep: 100}}
`, of("train.csv", 1, 8000), of("test.csv", 2, 40000))))
	fatal.If(t, err)
	return c
}

// TestRatesDoNotLeak: labels that depend on nothing stay unpredictable, in training too.
func TestRatesDoNotLeak(t *testing.T) {
	t.Parallel()
	c := ratesConfig(t, 0)
	c.Features[2].Buckets = 2 // a model needs keys
	r := runJob(t, 1, Options{Config: c})
	if math.Abs(*r.Test.AUC-.5) > .01 || r.TrainLogLoss < .68 {
		t.Errorf("AUC %v of the test rows, log-loss %v of the training", *r.Test.AUC, r.TrainLogLoss)
	}
}

// TestRatesOnAnyRanks: rates are the same on any number of ranks, and after a resume.
func TestRatesOnAnyRanks(t *testing.T) {
	t.Parallel()
	one := runJob(t, 1, Options{Config: ratesConfig(t, 1)})
	if *one.Test.AUC < .65 {
		t.Errorf("AUC %v", *one.Test.AUC)
	}
	for _, size := range []int{2, 3} {
		r := runJob(t, size, Options{Config: ratesConfig(t, 1)})
		if math.Abs(r.Test.LogLoss-one.Test.LogLoss) > 1e-4 {
			t.Errorf("log-loss %v on %d ranks, %v on one", r.Test.LogLoss, size, one.Test.LogLoss)
		}
	}
	r := runJob(t, 2, Options{Resume: checkpoint.Dir(one.RunDir+"/checkpoints", 60)})
	if math.Abs(r.Test.LogLoss-one.Test.LogLoss) > 1e-4 {
		t.Errorf("log-loss %v after a resume, %v without", r.Test.LogLoss, one.Test.LogLoss)
	}
}
