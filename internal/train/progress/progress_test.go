package progress

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestRate: the factor of steps 1, 2, … of a run, worked out by hand.
func TestRate(t *testing.T) {
	for _, x := range []struct {
		s     config.Schedule
		total int64
		want  string
	}{
		{config.Schedule{Kind: "constant"}, 3, "1 1 1"},
		{config.Schedule{Kind: "constant", Warmup: 4}, 6, "0.25 0.5 0.75 1 1 1"},
		{config.Schedule{Kind: "linear"}, 5, "1 0.75 0.5 0.25 0"},
		{config.Schedule{Kind: "linear", Min: 0.2}, 5, "1 0.8 0.6 0.4 0.2"},
		{config.Schedule{Kind: "linear", Warmup: 2}, 5, "0.5 1 1 0.5 0"},
		{config.Schedule{Kind: "linear"}, 1, "1"},
		{config.Schedule{Kind: "linear", Warmup: 3}, 2, "0.3333 0.6667"},
		{config.Schedule{Kind: "cosine"}, 5, "1 0.8536 0.5 0.1464 0"},
		{config.Schedule{Kind: "cosine", Min: 0.5, Warmup: 1}, 4, "1 1 0.75 0.5"},
		{config.Schedule{Kind: "step", Factor: 0.5, EverySteps: 2}, 7, "1 1 0.5 0.5 0.25 0.25 0.125"},
		{config.Schedule{Kind: "step", Factor: 0.5, EverySteps: 2, Min: 0.2, Warmup: 1}, 7, "1 1 1 0.5 0.5 0.25 0.25"},
		{config.Schedule{Kind: "step", Factor: 0.1, EverySteps: 1, Min: 0.01}, 4, "1 0.1 0.01 0.01"},
		{config.Schedule{Kind: "plateau", Factor: 0.1, Patience: 1}, 3, "1 1 1"},
	} {
		var got []string
		for step := int64(1); step <= x.total; step++ {
			got = append(got, fmt.Sprint(math.Round(Rate(x.s, step, x.total)*1e4)/1e4))
		}
		if text := strings.Join(got, " "); text != x.want {
			t.Errorf("%+v over %d steps: %s, want %s", x.s, x.total, text, x.want)
		}
	}
}

// TestRateStaysInRange: for any schedule and step, the factor is in [0, 1], and a step after
// the end has the factor of the last one.
func TestRateStaysInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := config.Schedule{
			Kind:   rapid.SampledFrom([]string{"constant", "linear", "cosine", "step", "plateau"}).Draw(t, "kind"),
			Warmup: rapid.Int64Range(0, 1000).Draw(t, "warmup"), Min: rapid.Float64Range(0, 1).Draw(t, "min"),
			Factor: rapid.Float64Range(0.01, 0.99).Draw(t, "factor"), EverySteps: rapid.Int64Range(1, 1000).Draw(t, "every"),
		}
		total := rapid.Int64Range(0, 5000).Draw(t, "total")
		step := rapid.OneOf(rapid.Int64Range(0, 6000), rapid.Int64()).Draw(t, "step")
		if r := Rate(s, step, total); !(r >= 0 && r <= 1) {
			t.Fatalf("%+v: factor %v at step %d of %d", s, r, step, total)
		}
		if past := Rate(s, total+1+s.Warmup, total); (s.Kind == "linear" || s.Kind == "cosine") && total > s.Warmup+1 && math.Abs(past-s.Min) > 1e-12 {
			t.Fatalf("%+v: factor %v past step %d", s, past, total)
		}
	})
}

// TestProgress reads conversations: metrics of epochs 1, 2, … and the verdict after each: +
// improved, - not, ! stop, and the rate if it is not 1.
func TestProgress(t *testing.T) {
	plateau := config.Schedule{Kind: "plateau", Factor: 0.1, Patience: 1, Min: 0.001}
	for _, x := range []struct {
		name    string
		stop    config.EarlyStop
		s       config.Schedule
		metrics []float64
		want    string
		best    int
	}{
		{"no early stop", config.EarlyStop{Metric: "auc"}, config.Schedule{}, []float64{.7, .6, .5, .8, .1}, "+ - - + -", 4},
		{"patience 2", config.EarlyStop{Metric: "auc", Patience: 2}, config.Schedule{}, []float64{.7, .6, .71, .7, .71}, "+ - + - -!", 3},
		{"log-loss falls", config.EarlyStop{Metric: "logloss", Patience: 1}, config.Schedule{}, []float64{.5, .4, .45}, "+ + -!", 2},
		{"delta", config.EarlyStop{Metric: "auc", Patience: 3, MinDelta: .05}, config.Schedule{}, []float64{.7, .74, .76, .8}, "+ - + -", 3},
		{"log-loss delta", config.EarlyStop{Metric: "logloss", Patience: 3, MinDelta: .05}, config.Schedule{}, []float64{.7, .66, .64}, "+ - +", 3},
		{"not finite", config.EarlyStop{Metric: "auc", Patience: 3}, config.Schedule{}, []float64{math.NaN(), .6, math.Inf(1), .61}, "- + - +", 4},
		{"log-loss not finite", config.EarlyStop{Metric: "logloss", Patience: 2}, config.Schedule{}, []float64{math.Inf(-1), math.NaN()}, "- -!", 0},
		{"the published recipe", config.EarlyStop{Metric: "auc", Patience: 2, MinDelta: 1e-6}, plateau,
			[]float64{.90, .95, .94, .96, .96, .959}, "+ + - 0.1 + 0.1 - 0.01 -! 0.001", 4},
		{"the rate has a floor", config.EarlyStop{Metric: "auc"}, plateau, []float64{.9, .8, .8, .8, .8}, "+ - 0.1 - 0.01 - 0.001 - 0.001", 1},
		{"plateau of patience 2", config.EarlyStop{Metric: "auc"}, config.Schedule{Kind: "plateau", Factor: 0.5, Patience: 2},
			[]float64{.9, .8, .8, .8, .95, .9, .9}, "+ - - 0.5 - 0.5 + 0.5 - 0.5 - 0.25", 5},
	} {
		train := &config.Train{EarlyStop: x.stop, Schedule: x.s}
		var p State
		var got []string
		for i, metric := range x.metrics {
			p = throughJSON(t, p) // as a checkpoint in between would do
			before := p
			next, v := p.Observe(train, i+1, int64(10*i+10), metric)
			if p != before {
				t.Errorf("%s: Observe changed its receiver", x.name)
			}
			p = next
			word := map[bool]string{true: "+", false: "-"}[v.Improved]
			if v.Stop {
				word += "!"
			}
			got = append(got, word)
			if rate := p.RateFactor(x.s); rate != 1 {
				got = append(got, fmt.Sprintf("%.4g", rate))
			}
		}
		if text := strings.Join(got, " "); text != x.want || p.BestEpoch != x.best || p.BestStep != int64(10*x.best) {
			t.Errorf("%s: %s, best epoch %d; want %s, %d", x.name, text, p.BestEpoch, x.want, x.best)
		}
	}
}

func throughJSON(t *testing.T, p State) (q State) {
	b, err := json.Marshal(p)
	fatal.If(t, err)
	if err := json.Unmarshal(b, &q); err != nil || !reflect.DeepEqual(p, q) {
		t.Fatalf("%+v became %+v: %v", p, q, err)
	}
	return q
}
