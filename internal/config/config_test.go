package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

// TestFrappeRecipe compares each value with the published recipe.
func TestFrappeRecipe(t *testing.T) {
	c, err := Load("../../examples/frappe.yaml")
	fatal.If(t, err)
	c.Fill()
	yes := ptr(true)
	adam := optim.Rule{Kind: "adam", LearningRate: 0.001, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
	want := &Config{
		Data: schema.Source{
			Train: []string{"frappe_x1/train.csv"}, Valid: []string{"frappe_x1/valid.csv"}, Test: []string{"frappe_x1/test.csv"},
			Format: "csv", Delimiter: ",", Header: true,
		},
		Label: schema.Label{Field: "label", Positive: []string{"1"}, Negative: []string{"0"}},
		Model: Model{
			Kind: "wide_deep", Wide: yes, Deep: yes, EmbeddingDim: 10, Pooling: "sum",
			Init:   Init{Kind: "normal", Scale: 1e-4},
			Hidden: []int{400, 400, 400}, Activation: "relu", Weights: "he", BatchNorm: true, Dropout: 0.6,
		},
		Train: Train{
			Epochs: 100, GlobalBatch: 4096, Seed: 2019, Shuffle: yes, Threads: 1, Precision: "fp32", Device: "cpu", Mode: "wait",
			Optimizer: Optimizer{Dense: adam, Deep: adam, Wide: adam}, Scaling: "none",
			L2:        L2{Deep: 0.1, Wide: 0.1, Mode: "dense"},
			ClipNorm:  10,
			Schedule:  Schedule{Kind: "plateau", Factor: 0.1, Patience: 1, Min: 0.001},
			EvalEvery: 1, EarlyStop: EarlyStop{Patience: 2, Metric: "auc", MinDelta: 1e-6},
			Checkpoint: Checkpoint{EverySeconds: 600, FullEvery: 10, Keep: 3, Copies: 1},
		},
	}
	for _, f := range strings.Fields("user item daytime weekday isweekend homework cost weather country city") {
		want.Features = append(want.Features, schema.Feature{
			Name: f, Field: f, Encode: "vocabulary", MinCount: 1, Table: f, Wide: yes, Deep: yes,
		})
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got\n%s\nwant\n%s", c.YAML(), want.YAML())
	}
}

func TestDefaultIsAdult(t *testing.T) {
	c := Default()
	c.Fill()
	count := map[string]int{}
	for _, f := range c.Features {
		count[f.Encode]++
		want := uint64(33)
		if strings.HasPrefix(f.Name, "capital_") {
			want = 256 // nearly an interval a value, for those that are not 0
		}
		if f.Encode == "quantile" && f.Buckets != want {
			t.Errorf("%s has %d quantiles, want %d", f.Name, f.Buckets, want)
		}
		if f.Log != (f.Name == "capital_gain_standardise" || f.Name == "capital_loss_standardise") {
			t.Errorf("%s: log is %v", f.Name, f.Log)
		}
	}
	if want := map[string]int{"vocabulary": 8, "quantile": 6, "standardise": 6}; !reflect.DeepEqual(count, want) {
		t.Errorf("encodings %v, want %v", count, want)
	}
	if got := c.Data.Train[0] + " " + c.Data.Test[0]; got != "builtin:adult.data builtin:adult.test" {
		t.Errorf("trains and tests on %s", got)
	}
	if len(c.Data.Fields) != 15 || c.Data.Fields[14] != c.Label.Field {
		t.Errorf("fields %v, label %s", c.Data.Fields, c.Label.Field)
	}
	if got := c.Train.Global(4); got != 256 {
		t.Errorf("global batch %d at 4 ranks, want 256", got)
	}
}

func TestCriteoLayout(t *testing.T) {
	c, err := Load("../../examples/criteo.yaml")
	fatal.If(t, err)
	c.Fill()
	if len(c.Data.Fields) != 40 || len(c.Features) != 39 || c.Data.Delimiter != "\t" {
		t.Errorf("%d fields, %d features, delimiter %q; want 40, 39, tab", len(c.Data.Fields), len(c.Features), c.Data.Delimiter)
	}
	for i, f := range c.Features {
		if want := map[bool]string{true: "log", false: "hash"}[i < 13]; f.Encode != want || f.Field != c.Data.Fields[i+1] {
			t.Errorf("features[%d] is %s by %s, want %s by %s", i, f.Field, f.Encode, c.Data.Fields[i+1], want)
		}
	}
	if got := c.Data.Train[0] + " " + c.Data.Test[0]; got != "train.tsv test.tsv" {
		t.Errorf("trains and tests on %s, not on the file of the example", got)
	}
	// 200,000 rows must give enough steps to learn.
	if got := c.Train.Global(2); got != 1024 || c.Train.Schedule.Warmup > 20 {
		t.Errorf("global batch %d at 2 ranks, want 1024; warmup %d", got, c.Train.Schedule.Warmup)
	}
}

// TestCriteoForRealLogs: the settings in the comment of the example are valid too.
func TestCriteoForRealLogs(t *testing.T) {
	b, err := os.ReadFile("../../examples/criteo.yaml")
	fatal.If(t, err)
	head, _, _ := strings.Cut(string(b), "\nmodel:")
	_, tail, found := strings.Cut(string(b), "\n# tables:")
	if !found {
		t.Fatal("there is no comment with tables")
	}
	c, err := Parse("real", []byte(head+"\ntables:"+strings.ReplaceAll(tail, "\n# ", "\n")))
	fatal.If(t, err)
	c.Fill()
	if got := c.Train.Global(4); got != 16384 || len(c.Tables) == 0 || c.Train.Schedule.Warmup != 2000 {
		t.Errorf("global batch %d at 4 ranks of 4096, %d tables, warmup %d", got, len(c.Tables), c.Train.Schedule.Warmup)
	}
}

func TestTablesInUse(t *testing.T) {
	c, err := Load("../../examples/criteo.yaml")
	fatal.If(t, err)
	c.Features[13].Deep = ptr(false) // C1
	c.Features[14].Wide = ptr(false) // C2
	c.Features[15].Table = "C12"     // C3 moves to the table of C12
	c.Tables = []Table{{Name: "C12", Dim: 32, Init: Init{Kind: "uniform"}, Wide: &optim.Rule{Kind: "sgd"}, L2: TableL2{Deep: ptr(0.5)}}}
	c.Fill()
	byName := map[string]Table{}
	tables := c.TablesInUse()
	for _, x := range tables {
		byName[x.Name] = x
	}
	if len(tables) != 26 || tables[0].Name != "C1" || tables[2].Name != "C12" || tables[25].Name != "C2_x_C17" {
		t.Errorf("%d tables: %+v", len(tables), tables)
	}
	deep, wide := c.Train.Optimizer.Deep, c.Train.Optimizer.Wide
	sgd := optim.Rule{Kind: "sgd"}.Default()
	for _, want := range []Table{
		{Name: "C1", Pooling: "sum", Wide: &wide, L2: TableL2{Wide: ptr(0.0)}},
		{Name: "C2", Pooling: "sum", Dim: 16, Init: c.Model.Init, Deep: &deep, L2: TableL2{Deep: ptr(0.0)}},
		{Name: "C12", Pooling: "sum", Dim: 32, Init: Init{Kind: "uniform", Scale: 0.05}, Deep: &deep, Wide: &sgd, L2: TableL2{ptr(0.5), ptr(0.0)}},
		{Name: "C2_x_C17", Pooling: "sum", Wide: &wide, L2: TableL2{Wide: ptr(0.0)}},
	} {
		want.Values, want.Wire, want.Strategy = "float32", Wire{"float32", "float32"}, "auto"
		if got := byName[want.Name]; !reflect.DeepEqual(got, want) {
			t.Errorf("table %s is %+v\nwant %+v", want.Name, got, want)
		}
	}
	// What it returns is the caller's.
	*byName["C1"].Wide = optim.Rule{}
	if c.Train.Optimizer.Wide != wide || *c.TablesInUse()[0].Wide != wide {
		t.Error("a table in use shares memory with the configuration")
	}
}

func TestLoad(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"))
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "wdlrun init") {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("a directory was loaded")
	}
	path := filepath.Join(t.TempDir(), "large.yaml")
	fatal.If(t, os.WriteFile(path, make([]byte, 2*MaxBytes), 0o644))
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("a file of 2 MiB: %v", err)
	}
}

// TestValidate: a Config made by a program has its faults without lines.
func TestValidate(t *testing.T) {
	c := Default()
	fatal.If(t, c.Validate())
	c.Train.Batch = 7
	c.Model.Dropout = 2
	c.Label.Positive[1] = "\xff"
	err := c.Validate()
	want := `config: 3 faults:
  label.positive[1]: is not UTF-8
  model.dropout: is 2; it must be at least 0 and less than 1
  train.global_batch: contradicts train.batch: the batch is given per rank or for all ranks together`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	var empty Config
	var all *Error
	if err := empty.Validate(); !errors.As(err, &all) || len(all.Faults) != 4 {
		t.Errorf("the empty configuration: %v", err)
	}
}

// TestNumbers tests the notations of numbers.
func TestNumbers(t *testing.T) {
	for text, want := range map[string]float64{"1": 1, "0.5": 0.5, ".5": 0.5, "1e-3": 1e-3, "1E2": 100, "2.": 2, "+3": 3, "0x10": 16, "0o17": 15, "18446744073709551616": 1 << 64} {
		c, err := Parse("x", []byte(strings.Replace(small, "global_batch: 64", "clip_norm: "+text, 1)))
		if err != nil || c.Train.ClipNorm != want {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
	c, err := Parse("x", []byte(strings.Replace(small, "global_batch: 64", "seed: 18446744073709551615", 1)))
	if err != nil || c.Train.Seed != 1<<64-1 {
		t.Errorf("the largest seed: %v", err)
	}
}

// PyTorch's and DLRM's Adagrad starts at 0, which is not the default.
func TestAnAccumulatorOfZeroIsGiven(t *testing.T) {
	c := Default()
	fatal.If(t, Set(c, "train.optimizer.deep", "{kind: adagrad, accumulator: 0}"))
	for range 2 {
		if a := c.Train.Optimizer.Deep.Accumulator; a == nil || *a != 0 {
			t.Fatalf("the accumulator is %v, want 0", a)
		}
		again, err := Parse("effective.yaml", c.YAML())
		fatal.If(t, err)
		c = again
	}
}
