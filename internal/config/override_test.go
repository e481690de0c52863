package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

func TestSet(t *testing.T) {
	for _, x := range []struct {
		path, text string
		want       any
		get        func(c *Config) any
	}{
		{"train.seed", "7", uint64(7), func(c *Config) any { return c.Train.Seed }},
		{"train.seed", "", uint64(0), func(c *Config) any { return c.Train.Seed }},
		{"model.hidden", "[256, 128]", []int{256, 128}, func(c *Config) any { return c.Model.Hidden }},
		{"model.batch_norm", "true", true, func(c *Config) any { return c.Model.BatchNorm }},
		{"model.wide", "true", true, func(c *Config) any { return *c.Model.Wide }},
		{"data.comment", "|", "|", func(c *Config) any { return c.Data.Comment }},
		{"data.delimiter", ";", ";", func(c *Config) any { return c.Data.Delimiter }},
		{"data.train", "[a.csv, 'b c.csv']", []string{"a.csv", "b c.csv"}, func(c *Config) any { return c.Data.Train }},
		{"label.positive[0]", "7", "7", func(c *Config) any { return c.Label.Positive[0] }},
		{"features[8].buckets", "10", uint64(10), func(c *Config) any { return c.Features[8].Buckets }},
		{"train.optimizer.dense", "{kind: sgd, learning_rate: 1e-2}", 0.01, func(c *Config) any { return c.Train.Optimizer.Dense.LearningRate }},
		{"train.optimizer.dense.kind", "adagrad", "adagrad", func(c *Config) any { return c.Train.Optimizer.Dense.Kind }},
		{"tables", "[{name: sex, deep: {kind: sgd}}]", "sgd", func(c *Config) any { return c.Tables[0].Deep.Kind }},
		// What excludes another wins over it.
		{"train.batch", "32", 0, func(c *Config) any { return c.Train.GlobalBatch }},
		{"label.threshold", "1.5", []string(nil), func(c *Config) any { return c.Label.Positive }},
		{"data.header", "true", []string(nil), func(c *Config) any { return c.Data.Fields }},
		{"model.wide", "false", 0, func(c *Config) any { return len(c.Crosses) }},
		{"model.deep", "false", 14, func(c *Config) any { return len(c.Features) }},
	} {
		c := Default()
		if err := Set(c, x.path, x.text); err != nil {
			t.Errorf("%s=%s: %v", x.path, x.text, err)
			continue
		}
		if got := x.get(c); !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s=%s: got %v, want %v", x.path, x.text, got, x.want)
		}
		c.Fill()
		if _, err := Parse("after", c.YAML()); err != nil {
			t.Errorf("%s=%s: the result has faults: %v", x.path, x.text, err)
		}
	}
}

func TestSetFaults(t *testing.T) {
	for _, x := range []struct{ path, text, want string }{
		{"train.sed", "7", "config: train.sed: unknown key; did you mean train.seed?"},
		{"trian.seed", "7", "config: trian: unknown key; did you mean train?"},
		{"", "7", "config: the key is empty; name one, such as train.epochs"},
		{"train.seed.x", "7", "config: train.seed.x: train.seed has no keys inside; it is an integer"},
		{"train.seed[0]", "7", "train.seed is not a list"},
		{"features[99].encode", "hash", "features has 20 entries; they are counted from 0"},
		{"tables[0].dim", "4", "tables has no entries: write them in the file, or all at once: tables=[{KEY: VALUE, …}, …]"},
		{"features[-1].encode", "hash", "features has 20 entries"},
		{"features[0.encode", "hash", "features has 20 entries"},
		{"features.encode", "hash", "features has no keys inside; it is a list of mappings"},
		{"train.seed", "seven", `config: train.seed: is the string "seven"; it must be an integer from 0 to 2^64-1`},
		{"train.seed", `"7"`, `is the string "7"`},
		{"train.epochs", "0", "config: train.epochs: is 0; it must be from 1 to 1000000"},
		{"train.epochs", "~", "has no value"},
		{"train.epochs", "# none", "has no value"},
		{"train.epochs", "{", "config: train.epochs: is not YAML"},
		{"model.dropout", "1", "config: model.dropout: is 1; it must be at least 0 and less than 1"},
		{"model.hidden", "64", "config: model.hidden: is the integer 64; it must be a list of integers: write [64]"},
		{"model.activation", "gelu", `config: model.activation: "gelu" is unknown`},
		{"train.early_stop.patience", "2", "needs validation data"},
		{"features[0].encode", "standardise", "a cross needs sparse features"},
	} {
		c := Default()
		if x.path == "features[0].encode" && x.text == "standardise" {
			c.Crosses[0].Of[0] = "workclass"
		}
		before := c.Clone()
		err := Set(c, x.path, x.text)
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s=%s: %v\nwant %s", x.path, x.text, err, x.want)
		}
		if !reflect.DeepEqual(c, before) {
			t.Errorf("%s=%s: the configuration changed in spite of the fault", x.path, x.text)
		}
	}
}

// TestKindOfARuleRemovesConstants: another kind of an update rule takes no constants of the one before, and keeps those that
// are set with it.
func TestKindOfARuleRemovesConstants(t *testing.T) {
	c := Default()
	c.Fill() // as saved
	removed, err := SetAll(c, []string{"train.optimizer.deep.kind=adam", "train.optimizer.wide.kind=sgd", "train.optimizer.wide.learning_rate=0.1"})
	fatal.If(t, err)
	c.Fill()
	if o := c.Train.Optimizer; !o.Deep.Equal(optim.Rule{Kind: "adam"}.Default()) || o.Wide.Kind != "sgd" || o.Wide.LearningRate != 0.1 || o.Wide.Beta != 0 {
		t.Errorf("%+v", o)
	}
	if all := strings.Join(removed, "\n"); !strings.Contains(all, "train.optimizer.deep.kind=adam removes train.optimizer.deep.learning_rate (0.05), train.optimizer.deep.") || !strings.Contains(all, "train.optimizer.deep.accumulator") {
		t.Errorf("removed: %s", all)
	}
	before := c.Clone()
	removed, err = SetAll(c, []string{"train.optimizer.deep.kind=adam"})
	if err != nil || removed != nil || !reflect.DeepEqual(c, before) {
		t.Errorf("the same kind: %v, %v", removed, err)
	}
}

// TestWithoutValidation: without the settings that need validation data, a configuration needs none.
func TestWithoutValidation(t *testing.T) {
	for _, set := range []string{"early_stop: {patience: 2}", "eval_steps: 5", "schedule: {kind: plateau}", "gate: {metric: auc}", "gate: {metric: auc, data: next}"} {
		c := Default()
		err := Set(c, "data.valid_fraction", "0.1")
		if err == nil {
			key, text, _ := strings.Cut(set, ": ")
			err = Set(c, "train."+key, text)
		}
		fatal.If(t, err)
		need := needValidation(&c.Train)
		if len(need) != 1 && !strings.Contains(set, "next") {
			t.Errorf("%s: needs validation data: %q", set, need)
		}
		c.Train.WithoutValidation()
		fatal.If(t, Set(c, "data.valid_fraction", "0"))
	}
}

// TestCheck: a fault of one setting is reported, and one that another setting can remove is
// not.
func TestCheck(t *testing.T) {
	for _, x := range []struct{ path, text, want string }{
		{"model.knd", "[1]", "did you mean model.kind?"},
		{"model.kind", "bogus", `"bogus" is unknown`},
		{"model.hidden", "[8, -1]", "model.hidden[1]: "},
		{"train.epochs", "1.5", "1.5"},
		{"model.dropout", "3", "3"},
		{"model.cross.layers", "3", ""}, // needs model.kind=dcn_v2
		{"model.kind", "dcn_v2", ""},
		{"train.epochs", "2", ""},
	} {
		c := Default()
		err := Check(c, x.path, x.text)
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s=%s: %v\nwant %q", x.path, x.text, err, x.want)
		}
		if !reflect.DeepEqual(c, Default()) {
			t.Errorf("%s=%s: the configuration changed", x.path, x.text)
		}
	}
}

// TestSetAll: settings are applied in order, and all their faults come at once.
func TestSetAll(t *testing.T) {
	c := Default()
	_, err := SetAll(c, []string{"train.epochs=3", "train.epochs = 4", "data.comment=a=b", "train.schedule.kind=step",
		"train.schedule.every_steps=10", "model.hidden=[8]", "train.batch=32"})
	fatal.If(t, err)
	if c.Train.Epochs != 4 || c.Data.Comment != "a=b" || c.Train.Schedule.EverySteps != 10 || c.Train.Batch != 32 || c.Train.GlobalBatch != 0 {
		t.Errorf("got\n%s", c.YAML())
	}
	before := c.Clone()
	_, err = SetAll(c, []string{"model.hidden=[16]", "train.epochs", "=3", "", "train.sed=1", "model.dropout=2", "train.batch=many", "label.field="})
	want := `config: 7 faults:
  "train.epochs" has no =: write KEY=VALUE, such as train.epochs=3
  "=3" has no key before the =: write KEY=VALUE, such as train.epochs=3
  "" has no =: write KEY=VALUE, such as train.epochs=3
  train.sed: unknown key; did you mean train.seed? (valid: epochs, batch, global_batch, seed, shuffle, slots, threads, precision, device, mode, backup, optimizer, scaling, l2, class_weight, clip_norm, schedule, eval_every, eval_steps, early_stop, refit, gate, from, retain, checkpoint, export)
  train.batch: is the string "many"; it must be an integer
  model.dropout: is 2; it must be at least 0 and less than 1
  label.field: is missing: name a field of the data`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if !reflect.DeepEqual(c, before) {
		t.Error("the configuration changed in spite of the faults")
	}
	for _, both := range [][]string{
		{"train.batch=64", "train.global_batch=512"}, {"train.global_batch=512", "train.batch=64"},
		{"label.threshold=1", "label.positive=[a]"}, {"model.cross.layers=2", "model.kind=deepfm"},
		{"model.cin=[4, 4]", "model.kind=deepfm"}, {"model.kind=deepfm", "model.cross.layers=2"},
		{"model.wide=false", "features[0].wide=true"},
	} {
		_, err := SetAll(c, both)
		first, _, _ := strings.Cut(both[0], "=")
		if err == nil || !strings.Contains(err.Error(), "contradicts "+first+", which is set too") || !reflect.DeepEqual(c, before) {
			t.Errorf("%q: %v", both, err)
		}
	}
	if _, err := SetAll(c.Clone(), []string{"train.batch=64", "train.batch=", "train.global_batch=512"}); err != nil {
		t.Errorf("a setting taken back: %v", err)
	}
	if _, err := SetAll(c, nil); err != nil {
		t.Errorf("no settings: %v", err)
	}
}

// TestSetRemoves: a setting that removes keys of the configuration names them, and the order of
// settings has no effect.
func TestSetRemoves(t *testing.T) {
	for _, x := range []struct {
		set  []string
		want []string
		kept int // crosses
	}{
		{[]string{"train.epochs=2"}, nil, 3},
		{[]string{"model.kind=dcn_v2"}, []string{"model.kind=dcn_v2 removes crosses (3 entries)"}, 0},
		{[]string{"model.kind=dcn_v2", "model.wide=true"}, nil, 3},
		{[]string{"model.wide=true", "model.kind=dcn_v2"}, nil, 3},
		{[]string{"model.kind=dcn_v2", "crosses=[]"}, nil, 0},
		{[]string{"train.batch=32"}, []string{"train.batch=32 removes train.global_batch (256)"}, 3},
		{[]string{"data.format=parquet"}, []string{"data.format=parquet removes data.fields ([age, workclass, fnlwgt, education, education_num, marital_s…), data.comment (\"|\")"}, 3},
	} {
		c := Default()
		c.Train.GlobalBatch = 256
		removed, err := SetAll(c, x.set)
		if err != nil || !slices.Equal(removed, x.want) || len(c.Crosses) != x.kept {
			t.Errorf("%q: %d crosses, removed %q, %v, want %d and %q", x.set, len(c.Crosses), removed, err, x.kept, x.want)
		}
	}
	c := Default()
	c.Data.Valid, c.Data.ValidFraction, c.Data.ValidTime = nil, 0.1, "age"
	removed, err := SetAll(c, []string{"data.valid_fraction=0", "train.early_stop.patience=0"})
	if want := []string{"data.valid_fraction=0 removes data.valid_time (age)"}; err != nil || !slices.Equal(removed, want) {
		t.Errorf("removed %q, %v, want %q", removed, err, want)
	}
}

// TestSetAblation: each part is disabled in a configuration with settings of both, as in an
// ablation study.
func TestSetAblation(t *testing.T) {
	for _, part := range []string{"model.wide", "model.deep"} {
		c, err := Load("../../examples/frappe.yaml")
		fatal.If(t, err)
		for _, set := range [][2]string{
			{"features[0].deep", "false"}, {"features[1].wide", "false"}, {"crosses", "[{of: [city, cost]}]"},
			{"tables", "[{name: user, wide: {kind: sgd}}, {name: item, dim: 3}, {name: city_x_cost, wide: {kind: sgd}}, {name: cost, l2: {deep: 0.1, wide: 0}}]"},
		} {
			fatal.If(t, Set(c, set[0], set[1]))
		}
		if err := Set(c, part, "false"); err != nil {
			t.Errorf("%s=false: %v", part, err)
		}
		if err := Set(c, part, "true"); err != nil {
			t.Errorf("%s=true again: %v", part, err)
		}
	}
}

// TestSetAnything: no path or text causes a panic, and an accepted setting gives a valid
// Config.
func TestSetAnything(t *testing.T) {
	var paths []string
	d := newGrammar()
	c := Default()
	c.Tables = []Table{{Name: "sex"}}
	d.walk(reflect.ValueOf(c).Elem(), "", key{}, func(path string, _ key, _ reflect.Value) { paths = append(paths, path) })
	texts := []string{"", "0", "1", "-1", "2.5", "true", "false", "[]", "[1]", "[a, b]", "{}", "{kind: adam}", "x", "~", "[", "adam", "plateau", "hash", "sex"}
	rapid.Check(t, func(t *rapid.T) {
		c := c.Clone()
		for range 5 {
			path := rapid.OneOf(rapid.SampledFrom(paths), rapid.String()).Draw(t, "path")
			text := rapid.OneOf(rapid.SampledFrom(texts), rapid.String()).Draw(t, "text")
			if err := Set(c, path, text); err != nil {
				continue
			}
			full := c.Clone()
			full.Fill()
			got, err := Parse("after", c.YAML())
			if err != nil || !reflect.DeepEqual(got, full) {
				t.Fatalf("after %s=%q: %v\n%s", path, text, err, c.YAML())
			}
		}
	})
}
