package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

const spaceText = `
model.kind: [wide_deep, dcn_v2]
model.hidden: {choice: [[64, 32], [128]]}
train.l2: {log: [1e-6, 1e-2], steps: 3}
train.batch: {int: [64, 66]}
model.dropout: {uniform: [0, 0.5], steps: 2}
model.cross.layers: {int: [1, 2], if: model.kind=dcn_v2}
`

func space(t testing.TB, text string) Space {
	t.Helper()
	s, err := ParseSpace("s.yaml", []byte(text), nil)
	fatal.If(t, err)
	return s
}

func TestGrid(t *testing.T) {
	all, err := space(t, spaceText).Grid()
	fatal.If(t, err)
	if n := 2*3*3*2 + 2*3*3*2*2; len(all) != n {
		t.Errorf("%d combinations, want %d", len(all), n)
	}
	seen := map[string]bool{}
	for _, one := range all {
		seen[fmt.Sprint(one)] = true
	}
	if len(seen) != len(all) {
		t.Errorf("%d of %d combinations differ", len(seen), len(all))
	}
	if got := fmt.Sprint(all[0], all[len(all)-1]); got != "[{model.kind wide_deep} {model.hidden [64, 32]} {train.l2 1e-06} {train.batch 64} {model.dropout 0}] [{model.kind dcn_v2} {model.hidden [128]} {train.l2 0.01} {train.batch 66} {model.dropout 0.5} {model.cross.layers 2}]" {
		t.Error(got)
	}
	if _, err := space(t, "train.l2: {log: [1, 2]}").Grid(); err == nil || !strings.Contains(err.Error(), "train.l2") {
		t.Errorf("a range without steps: %v", err)
	}
}

// TestDraw: a larger number of trials begins with the same ones, values are within their
// ranges, and the logarithm of a log value is uniform.
func TestDraw(t *testing.T) {
	s := space(t, spaceText)
	few, many := s.Draw(7, 20), s.Draw(7, 2000)
	if !reflect.DeepEqual(few, many[:20]) || reflect.DeepEqual(few, s.Draw(8, 20)) {
		t.Errorf("draws %v and %v", few[:3], many[:3])
	}
	low := 0
	for _, one := range many {
		value := map[string]string{}
		for _, x := range one {
			value[x.Key] = x.Value
		}
		l2, err := strconv.ParseFloat(value["train.l2"], 64)
		batch, err2 := strconv.Atoi(value["train.batch"])
		if err != nil || err2 != nil || l2 < 1e-6 || l2 > 1e-2 || batch < 64 || batch > 66 || (value["model.cross.layers"] != "") != (value["model.kind"] == "dcn_v2") {
			t.Fatalf("drawn %v", one)
		}
		if l2 < 1e-4 {
			low++
		}
	}
	if low < 900 || low > 1100 {
		t.Errorf("%d of 2000 values are in the lower half of the logarithm", low)
	}
	if got := s[:2].Draw(1, 100); len(got) != 4 {
		t.Errorf("%d trials of 4 combinations", len(got))
	}
}

func TestBadSpaces(t *testing.T) {
	known := func(key, value string) error {
		if key == "d" && value != "1" {
			return fmt.Errorf("%s is unknown", value)
		}
		return nil
	}
	for _, c := range []struct{ text, want string }{
		{"", "map 1 to"},
		{"a: {log: [0, 1]}", "line 1: a: log: the numbers must be above 0"},
		{"a: [1]\nb: {unifrm: [0, 1]}", "line 2: b: \"unifrm\" is unknown, or a second kind; did you mean uniform?"},
		{"d: [1, bogus]\nb: {unifrm: [0, 1]}\nc: {int: [1, 2], if: b=1}\ne: 3", "s.yaml: line 1: d: bogus is unknown\ns.yaml: line 2: b: \"unifrm\" is unknown, or a second kind; did you mean uniform? (valid: choice, uniform, log, int, with steps and if)\ns.yaml: line 4: e: want a list"},
		{"d: {int: [1, 8]}", "line 1: d: 8 is unknown"},
		{"a: {uniform: [1, 1]}", "ascending"},
		{"a: {uniform: [.nan, 1]}", "ascending"},
		{"a: {int: [0.5, 3]}", "whole numbers"},
		{"a: 3", "want a list"},
		{"a: [1, 1]", "twice"},
		{"a: [1]\nb: {int: [1, 2], if: c=1}", "c is not a choice of an earlier line"},
		{"a: [1]\nb: {int: [1, 2], if: a=2}", "a never has the value 2"},
		{"a: {int: [1, 2], choice: [3]}", "a second kind"},
		{"a: {steps: 3}", "no values"},
		{"{{{", "YAML"},
	} {
		if _, err := ParseSpace("s.yaml", []byte(c.text), known); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "s.yaml: ") {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

// TestScheduler reads conversations: jobs as trial/repeat/rung, and their scores.
func TestScheduler(t *testing.T) {
	next := func(s *Scheduler) string {
		j, ok := s.Next()
		if !ok {
			return "-"
		}
		return fmt.Sprintf("%d/%d/%d", j.Trial, j.Repeat, j.Rung)
	}
	done := func(s *Scheduler, text string) {
		var j Job
		var score float64
		if _, err := fmt.Sscanf(text, "%d/%d/%d=%g", &j.Trial, &j.Repeat, &j.Rung, &score); err != nil {
			t.Fatal(err)
		}
		s.Done(j, score)
	}
	for name, c := range map[string]struct {
		trials, repeats, rungs, eta int
		talk                        string
	}{
		"random": {2, 1, 1, 3, "0/0/0 1/0/0 - 0/0/0=1 - 1/0/0=2 -"},
		"seeds":  {2, 2, 1, 3, "0/0/0 0/1/0 0/0/0=1 1/0/0 1/0/0=nan 0/1/0=2 -"}, // a failed trial is not trained with other seeds
		// One of three is promoted, then the best of five, then two of seven. The best of three
		// reaches the last rung.
		"asha": {9, 1, 3, 3, "0/0/0 0/0/0=5 1/0/0 1/0/0=6 2/0/0 2/0/0=4 1/0/1 3/0/0 3/0/0=1 4/0/0 4/0/0=nan 5/0/0 5/0/0=9 5/0/1 " +
			"6/0/0 1/0/1=6 6/0/0=2 7/0/0 7/0/0=8 7/0/1 8/0/0 5/0/1=7 8/0/0=0 - 7/0/1=8 7/0/2 -"},
		"asha at the top":      {9, 1, 3, 3, "0/0/0=1 1/0/0=2 2/0/0=3 3/0/0=4 4/0/0=5 5/0/0=6 6/0/0=7 7/0/0=8 8/0/0=9 8/0/1 7/0/1 6/0/1 - 8/0/1=1 7/0/1=3 6/0/1=2 7/0/2 - 7/0/2=1 -"},
		"seeds of a promotion": {2, 2, 2, 2, "0/0/0 0/1/0 1/0/0 1/1/0 - 0/0/0=1 0/1/0=4 1/0/0=2 - 1/1/0=2 0/0/1 0/1/1 -"},
		"none":                 {0, 1, 1, 3, "-"},
	} {
		s := NewScheduler(c.trials, c.repeats, c.rungs, c.eta)
		for i, word := range strings.Fields(c.talk) {
			if strings.Contains(word, "=") {
				done(s, word)
			} else if got := next(s); got != word {
				t.Errorf("%s: answer %d is %s, want %s", name, i, got, word)
				break
			}
		}
	}
}

// made returns a sweep in which the score of a trial is its value.
func made(t *testing.T, o Options) *Sweep {
	t.Helper()
	settings, err := o.Settings(space(t, "x: {uniform: [0, 1]}"))
	fatal.If(t, err)
	return New("1", o, settings)
}

func outcome(s *Sweep, j Job) Outcome {
	x, _ := strconv.ParseFloat(s.Trials[j.Trial].Settings[0].Value, 64)
	rungs := s.Options.Rungs()
	o := Outcome{Rung: j.Rung, Epochs: rungs[j.Rung], Repeat: j.Repeat, Seed: uint64(j.Repeat) + 1, Run: fmt.Sprint(j)}
	if x < .1 {
		o.Error = "failed"
		return o
	}
	o.Valid = map[string]float64{"logloss": x + float64(j.Repeat)/100}
	o.Test = map[string]float64{"logloss": 2 * x}
	return o
}

// TestRun: an interrupted and resumed sweep has each outcome once, and the best trial is the
// one with the smallest loss.
func TestRun(t *testing.T) {
	s := made(t, Options{Method: ASHA, Trials: 20, Repeats: 2, Seed: 3, Metric: "logloss", Eta: 2, MinEpochs: 1, Epochs: 5})
	var mu sync.Mutex
	most, now := 0, 0
	ctx, cancel := context.WithCancel(t.Context())
	work := func(_ context.Context, j Job) (Outcome, error) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		defer func() { mu.Lock(); now--; mu.Unlock() }()
		if ctx.Err() != nil {
			return Outcome{}, ctx.Err()
		}
		return outcome(s, j), nil
	}
	n := 0
	err := s.Run(ctx, 3, work, func(*Trial, Outcome) error {
		if n++; n == 17 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || n < 17 || n > 20 || most > 3 {
		t.Fatalf("interrupted: %v after %d outcomes, %d at a time", err, n, most)
	}
	b, err := json.Marshal(s)
	fatal.If(t, err)
	if s, err = Parse(b); err != nil {
		t.Fatal(err)
	}
	ctx = t.Context()
	fatal.If(t, s.Run(ctx, 3, work, func(*Trial, Outcome) error { return nil }))
	seen, top, failed := map[string]bool{}, 0, 0
	for _, x := range s.Trials {
		for _, o := range x.Outcomes {
			if seen[o.Run] {
				t.Errorf("%s was trained twice", o.Run)
			}
			seen[o.Run] = true
			if o.Rung == len(s.Options.Rungs())-1 {
				top++
			}
		}
		if x.Error() != "" {
			failed++
		}
	}
	best := s.Ranking()[0]
	if top == 0 || failed == 0 || best.Number != s.Best || s.At(best, 0) == nil {
		t.Errorf("%d outcomes at the top, %d trials failed, best %d", top, failed, s.Best)
	}
	mean, deviation := Spread(Of(s.Peak(best), "logloss", false))
	if want := math.Sqrt(2) / 200; math.Abs(deviation-want) > 1e-9 {
		t.Errorf("mean %v, deviation %v, want %v", mean, deviation, want)
	}
	for _, x := range s.Trials {
		if peak := s.Peak(x); peak != nil && Of(peak, "logloss", false)[0] < Of(s.Peak(best), "logloss", false)[0] {
			t.Errorf("trial %d is better than the best", x.Number)
		}
	}
	if slices.ContainsFunc(s.Peak(best), func(o Outcome) bool { return o.Error != "" }) {
		t.Error("the best has failed")
	}
}

// TestFaultsEndASweep: an error that no trial has caused ends the sweep.
func TestFaultsEndASweep(t *testing.T) {
	s := made(t, Options{Method: Random, Trials: 5, Repeats: 1, Metric: "logloss", Epochs: 1})
	full := errors.New("disk full")
	err := s.Run(t.Context(), 2, func(_ context.Context, j Job) (Outcome, error) { return outcome(s, j), nil }, func(*Trial, Outcome) error { return full })
	if !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
}

func FuzzSpace(f *testing.F) {
	f.Add(spaceText)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSpace("s", []byte(text), nil)
		if err != nil {
			return
		}
		s.Draw(1, 3)
		s.Grid()
	})
}

func FuzzSweep(f *testing.F) {
	f.Add([]byte(`{"format":1,"options":{"method":"asha","repeats":1,"eta":2,"min_epochs":1,"epochs":4},"trials":[{"number":1,"outcomes":[{"rung":1}]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := Parse(b); err == nil {
			s.Ranking()
		}
	})
}

// TestEpochsOf: epochs after the one that early stopping restored do not count.
func TestEpochsOf(t *testing.T) {
	for want, outcomes := range map[string][]Outcome{
		"9":            {{Epochs: 9}},
		"4 of 50":      {{Epochs: 50, Best: 4}},
		"3 to 5 of 50": {{Epochs: 50, Best: 5}, {Epochs: 50, Best: 3}},
		"3 to 9 of 9":  {{Epochs: 9, Best: 3}, {Epochs: 9}},
	} {
		if got := EpochsOf(outcomes); got != want {
			t.Errorf("%+v: %s, want %s", outcomes, got, want)
		}
	}
}

func TestNear(t *testing.T) {
	s := New("v", Options{Metric: "auc", Repeats: 2}, make([][]Setting, 4))
	for i, values := range [][]float64{{.80, .82}, {.81, .81}, {.79, .79}, {.805, .79}} {
		for r, v := range values {
			s.Trials[i].Outcomes = append(s.Trials[i].Outcomes, Outcome{Repeat: r, Valid: map[string]float64{"auc": v}})
		}
	}
	s.Best = 1 // .81 ± .014
	if got := s.Near(); !slices.Equal(got, []int{2, 4}) {
		t.Errorf("trials %v are near the best", got)
	}
	s.Best = 2 // no deviation
	if got := s.Near(); !slices.Equal(got, []int{1}) {
		t.Errorf("trials %v are near the best", got)
	}
	s.Trials[0].Outcomes, s.Best = s.Trials[0].Outcomes[:1], 1 // one seed
	if got := s.Near(); len(got) > 0 {
		t.Errorf("with one seed, trials %v are near the best", got)
	}
}
