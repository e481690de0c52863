package config

import (
	"reflect"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
	"pgregory.net/rapid"
)

// configs draws configurations without faults, with unusual strings wherever any string is
// allowed, and with each alternative.
func configs(t *rapid.T) *Config {
	free := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "null", "true", "1e5", "~", "- a", "a: b", "#x", "'", "\"", "\\", "{", "[", "&a", "*", "? a", "a\u0085b", "\u2028", "\ufeff", "x\x00y", " a ", "\r\n", "0x1"}))
	texts := rapid.SliceOfNDistinct(free, 0, 4, rapid.ID[string])
	some := func(name string) bool { return rapid.Bool().Draw(t, name) }
	rate := rapid.Float64Range(1e-12, 1e12)
	c := &Config{}
	c.Data = schema.Source{Train: []string{"a", rapid.StringMatching(`[^\x00-\x1f]+`).Draw(t, "file")}, Missing: nonEmpty(texts.Draw(t, "missing"))}
	c.Data.Fields = []string{"y", "a", "b b", "1", "true", "é:", "#c", "d"}
	if some("tsv") {
		c.Data.Format = "tsv"
	}
	if some("header") {
		c.Data.Header, c.Data.Fields = true, nil
	}
	valid := some("valid")
	if valid {
		c.Data.ValidFraction = rapid.Float64Range(1e-9, 0.999).Draw(t, "fraction")
	}
	c.Label.Field = "y"
	if some("threshold") {
		c.Label.Threshold = ptr(rapid.Float64Range(-1e300, 1e300).Draw(t, "limit"))
	} else {
		c.Label.Positive = nonEmpty(texts.Draw(t, "positive"))
	}
	c.Features = features(t, some)
	c.Crosses = []schema.Cross{{Of: []string{"a", "b b"}, Buckets: rapid.Uint64().Draw(t, "buckets")}}
	c.Model = Model{Dropout: rapid.Float64Range(0, 0.999).Draw(t, "dropout"), BatchNorm: some("norm")}
	c.Model.Hidden = rapid.SliceOfN(rapid.IntRange(1, 65536), 0, 5).Draw(t, "hidden")
	if len(c.Model.Hidden) == 0 {
		c.Model.Hidden = nil
	}
	c.Model.Init.Kind = rapid.SampledFrom(append(initKinds(), "")).Draw(t, "init")
	c.Train = train(t, some, valid, &c.Data.Follow, rate)
	if some("table") {
		c.Tables = []Table{{
			Name: "a", Dim: rapid.IntRange(0, 4096).Draw(t, "dim"), Pooling: rapid.SampledFrom(append(poolings(), "")).Draw(t, "pooling"),
			Strategy: rapid.SampledFrom(append(strategies(), "")).Draw(t, "strategy"),
			Deep:     &optim.Rule{Kind: "ftrl", L1: rate.Draw(t, "l1"), L2: rapid.Float64Range(0, 1).Draw(t, "l2")}, L2: TableL2{Wide: ptr(0.0)},
		}}
	}
	return c
}

func nonEmpty(s []string) []string {
	if len(s) == 0 {
		return nil
	}
	return s
}

func features(t *rapid.T, some func(string) bool) []schema.Feature {
	fs := []schema.Feature{
		{Field: "a", Encode: "vocabulary", MinCount: rapid.Int64Range(0, 1<<60).Draw(t, "count")},
		{Field: "b b", Encode: "hash", Buckets: rapid.Uint64().Draw(t, "modulus"), Separator: rapid.String().Draw(t, "separator")},
		{Field: "a", Encode: "quantile"},
		{Field: "1", Encode: "standardise", Log: some("log")},
		{Field: "true", Encode: "boundaries", Boundaries: []float64{-1e300, -0.1, 1e-7, 3}},
		{Field: "#c", Encode: "id", Table: "a"},
		{Field: "é:", Encode: "raw"},
	}
	if some("not wide") {
		fs[1].Wide = ptr(false)
	}
	if some("not deep") {
		fs[2].Deep = ptr(false)
	}
	return fs
}

func train(t *rapid.T, some func(string) bool, valid bool, follow *schema.Follow, rate *rapid.Generator[float64]) Train {
	x := Train{Seed: rapid.Uint64().Draw(t, "seed"), Epochs: rapid.IntRange(0, 100).Draw(t, "epochs"), ClipNorm: rapid.Float64Range(0, 1e300).Draw(t, "clip")}
	if some("batch") {
		x.Batch = 100
	}
	if some("in order") {
		x.Shuffle = ptr(false)
	}
	x.Optimizer.Dense = optim.Rule{Kind: rapid.SampledFrom(append(optim.Kinds(), "")).Draw(t, "rule"), LearningRate: rate.Draw(t, "rate")}
	x.Schedule.Kind = rapid.SampledFrom([]string{"", "constant", "linear", "cosine", "step"}).Draw(t, "schedule")
	if x.Schedule.Kind == "step" {
		x.Schedule.EverySteps = rapid.Int64Range(1, 1<<62).Draw(t, "every")
	}
	if valid && some("plateau") {
		x.Schedule = Schedule{Kind: "plateau", Min: 0.5}
	}
	if valid {
		x.EarlyStop = EarlyStop{Patience: rapid.IntRange(0, 9).Draw(t, "patience"), Metric: "logloss", MinDelta: 1e-300}
	}
	if !valid && some("follow") {
		follow.On, follow.Idle, follow.Mark = true, rapid.Float64Range(0, 1e7).Draw(t, "idle"), rapid.SampledFrom([]string{"", "_DONE", "a b"}).Draw(t, "mark")
		x.Epochs, x.Schedule = 1, Schedule{}
	}
	if some("checkpoints") {
		x.Checkpoint.EverySteps = 5
	}
	return x
}

// TestYAMLReadsBack: the effective configuration parses to the same Config and package data
// accepts it. Filling and cloning change nothing.
func TestYAMLReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := configs(t)
		fatal.If(t, c.Validate())
		for _, err := range append(c.Data.Validate(), schema.Schema{Label: c.Label, Features: c.Features, Crosses: c.Crosses}.Validate(c.Data.Fields)...) {
			t.Fatalf("package data refuses it: %v", err)
		}
		before := c.Clone()
		b := c.YAML()
		if !reflect.DeepEqual(c, before) {
			t.Fatal("YAML changed its receiver")
		}
		got, err := Parse("effective", b)
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		c.Fill()
		if !reflect.DeepEqual(got, c) {
			t.Fatalf("changed from\n%s\nto\n%s", c.YAML(), got.YAML())
		}
		got.Fill()
		if !reflect.DeepEqual(got, c) || string(got.YAML()) != string(b) {
			t.Fatal("filling twice differs from once")
		}
	})
}

// TestCloneSharesNothing writes through every slice and pointer of a clone.
func TestCloneSharesNothing(t *testing.T) {
	c := Default()
	c.Label.Threshold = ptr(1.0)
	c.Fill()
	want := string(c.YAML())
	d := c.Clone()
	spoil(reflect.ValueOf(d).Elem())
	if got := string(c.YAML()); got != want {
		t.Errorf("writing to a clone changed\n%s\nto\n%s", want, got)
	}
}

func spoil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			spoil(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			spoil(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			spoil(v.Field(i))
		}
	default:
		v.SetZero()
	}
}
