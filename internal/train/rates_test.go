package train

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
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

// TestRatesInAnyOrder: with data.valid_time, records in another order than that of time give a model that
// is nearly as good as records in the order of time, and a line that says what happens.
func TestRatesInAnyOrder(t *testing.T) {
	t.Parallel()
	const rows = 8000
	r := rand.New(rand.NewPCG(5, 1))
	var lines []string
	for at := range rows {
		user, y := int(r.ExpFloat64()*300), 0
		if r.Float64() < 1/(1+math.Exp(2-2*math.Sin(float64(user)))) {
			y = 1
		}
		lines = append(lines, fmt.Sprintf("u%d,%d,%d", user, 1000000+at, y))
	}
	label := func(a, b string) int { return int(a[len(a)-1]) - int(b[len(b)-1]) }
	auc := map[string]float64{}
	for _, order := range []string{"time", "near", "shuffled", "label"} {
		own, said := slices.Clone(lines), ""
		switch order {
		case "near":
			for i := 0; i+100 <= rows; i += 100 {
				r.Shuffle(100, func(a, b int) { own[i+a], own[i+b] = own[i+b], own[i+a] })
			}
		case "shuffled":
			r.Shuffle(rows, func(a, b int) { own[a], own[b] = own[b], own[a] })
		case "label":
			slices.SortStableFunc(own, label)
		}
		c, err := config.Parse("rates.yaml", []byte(fmt.Sprintf(`
data: {train: [%q], valid_fraction: 0.2, valid_time: at, header: true}
label: {field: label}
features: [{field: user, encode: rate}, {field: user, encode: hash, name: key, buckets: 2}]
model: {embedding_dim: 4, hidden: [8]}
train: {global_batch: 128, epochs: 3}
`, datatest.Write(t, order+".csv", "user,at,label\n"+strings.Join(own, "\n")+"\n"))))
		fatal.If(t, err)
		got := runJob(t, 2, Options{Config: c, Say: func(line string) { said += line + "\n" }})
		auc[order] = *got.Valid.AUC
		if note, want := strings.Contains(said, "are not in the order of field at, so"), order == "shuffled" || order == "label"; note != want {
			t.Errorf("%s: %s", order, said)
		}
	}
	for order, x := range auc {
		if math.Abs(x-auc["time"]) > .015 || x < .6 {
			t.Errorf("%s: AUC %.4f, %.4f in the order of time", order, x, auc["time"])
		}
	}
	t.Log(auc)
}

// TestRatesOfCountedRecords: a training that begins with a model that was trained on the same records, to which a few came
// later, does not have their labels among its inputs.
func TestRatesOfCountedRecords(t *testing.T) {
	t.Parallel()
	c := ratesConfig(t, 0)
	c.Features[2].Buckets = 2 // a model needs keys
	one := runJob(t, 1, Options{Config: c})
	b, err := os.ReadFile(c.Data.Train[0])
	fatal.If(t, err)
	more := c.Clone()
	more.Data.Train = []string{datatest.Write(t, "more.csv", string(b)+"u1,i1,1\nu2,i2,0\n")}
	losses := map[bool]float64{}
	for _, counted := range []bool{true, false} {
		day := &Day{Day: "2026-11-01", Ledger: rundir.Days{By: "dt"}, Counted: counted}
		losses[counted] = runJob(t, 2, Options{Config: more, From: one.RunDir, Day: day}).TrainLogLoss
	}
	if losses[true] < .68 || losses[false] > .66 {
		t.Errorf("log-loss of the training %v; %v if the records are taken for new ones", losses[true], losses[false])
	}
}

// TestCountedRowsAreNamed: train -from on files of the source warns if there are rates, unless nothing is counted again.
func TestCountedRowsAreNamed(t *testing.T) {
	t.Parallel()
	c := ratesConfig(t, 1)
	one := runJob(t, 1, Options{Config: c})
	more := datatest.Write(t, "more.csv", "user,item,label\nu1,i1,1\nu2,i2,0\nu3,i1,1\nu4,i2,0\n")
	for _, x := range []struct {
		train []string
		want  bool
	}{{[]string{c.Data.Train[0], more}, true}, {c.Data.Train, false}} {
		next := c.Clone()
		next.Data.Train = x.train
		warned := false
		runJob(t, 1, Options{Config: next, From: one.RunDir, About: rundir.About{Version: "test"}, Warn: func(line string) {
			warned = warned || strings.Contains(line, "was trained on ["+c.Data.Train[0]+"] already")
		}})
		if warned != x.want {
			t.Errorf("%q: warned %v", x.train, warned)
		}
	}
}

// TestTheModelBeforeHasItsRates: train.gate evaluates the model before with its own counts, which the records of the
// new training do not change.
func TestTheModelBeforeHasItsRates(t *testing.T) {
	t.Parallel()
	c := ratesConfig(t, 1)
	one := runJob(t, 1, Options{Config: c})
	b, err := os.ReadFile(c.Data.Train[0])
	fatal.If(t, err)
	flipped := datatest.Write(t, "flipped.csv", strings.NewReplacer(",0\n", ",1\n", ",1\n", ",0\n").Replace(string(b)))
	bad := runJob(t, 2, Options{Config: c, From: one.RunDir, Set: []string{"data.train=[" + flipped + "]", "data.valid=[" + c.Data.Test[0] + "]", "data.valid_fraction=0", "train.gate.metric=auc"}})
	if g := bad.Gate; !g.Closed() || math.Abs(*g.Source.AUC-*one.Test.AUC) > 1e-6 {
		t.Errorf("gate %+v, and the model before has the AUC %v on these rows", g, *one.Test.AUC)
	}
}
