package train

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/arrays"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
)

// torchFolder contains a model that PyTorch has trained, its data and its scores.
const torchFolder = "../data/arrays/testdata/"

// torchConfig returns the configuration of the model of torchFolder. from is its train.from.
func torchConfig(t *testing.T, from string) *config.Config {
	t.Helper()
	rows, err := filepath.Abs(torchFolder + "rows.jsonl")
	fatal.If(t, err)
	c, err := config.Parse("torch.yaml", []byte(fmt.Sprintf(`
data: {train: [%[1]q], test: [%[1]q], format: jsonl}
label: {field: click}
features:
  - {field: items, name: item, encode: vocabulary, min_count: 100}
  - {field: user, encode: vocabulary, min_count: 100}
  - {field: a, encode: raw}
  - {field: b, encode: raw}
model: {wide: false, embedding_dim: 4, hidden: [8, 8]}
train: {epochs: 1, global_batch: 40, from: {%s}}
`, rows, from)))
	fatal.If(t, err)
	return c
}

// torchNames is train.from of the model of torchFolder, with the given prefix of the arrays.
func torchNames(prefix string) string {
	all := []string{}
	for ours, theirs := range map[string]string{
		"deep/linear0/weight": "mlp.0.weight", "deep/linear0/bias": "mlp.0.bias", "deep/linear1/weight": "mlp.2.weight",
		"deep/linear1/bias": "mlp.2.bias", "deep/out/weight": "mlp.4.weight", "deep/out/bias": "mlp.4.bias",
		"item": "item.weight", "user": "user.weight",
	} {
		all = append(all, fmt.Sprintf("{name: %q, array: %q}", ours, prefix+theirs))
	}
	return "inputs: [a, b, user, item], names: [" + strings.Join(all, ", ") + "]"
}

// checkTorchScores compares the first scores of a training with those of PyTorch.
func checkTorchScores(t *testing.T, opt Options, size int) {
	t.Helper()
	b, err := os.ReadFile(torchFolder + "scores.json")
	fatal.If(t, err)
	var want []float64
	fatal.If(t, json.Unmarshal(b, &want))
	_, got := firstScores(t, size, opt)
	if len(got) != len(want) && size == 1 {
		t.Fatalf("%d scores, want %d", len(got), len(want))
	}
	for i := range got {
		if size == 1 && math.Abs(float64(got[i])-want[i]) > 1e-6*max(1, math.Abs(want[i])) {
			t.Errorf("score %d is %v, PyTorch has %v", i, got[i], want[i])
		}
	}
}

// TestFromPyTorch: a training that begins with a state dict of PyTorch gives its scores, with
// embedding bags of several values, rows of unknown and missing values, and another order of inputs.
func TestFromPyTorch(t *testing.T) {
	for path, prefix := range map[string]string{"model.pt": "model.", "model.safetensors": ""} {
		opt := Options{Config: torchConfig(t, torchNames(prefix)), From: torchFolder + path}
		said := listen(&opt)
		for _, size := range []int{1, 2} {
			checkTorchScores(t, opt, size)
		}
		all := strings.Join(said(), "\n")
		for _, want := range []string{"row 1 (__OOV__) is the row of unknown values", "row 0 (__PAD__) is the row of missing values", "weight [8 8], out_in", "item: kept, 10 values and 0 new"} {
			if !strings.Contains(all, want) {
				t.Errorf("no %q in\n%s", want, all)
			}
		}
	}
}

// TestFromTensorFlow: a training that begins with a checkpoint of TensorFlow with the same arrays, of which one
// is partitioned, gives these scores too.
func TestFromTensorFlow(t *testing.T) {
	from := strings.NewReplacer("mlp.0.", "mlp/0/", "mlp.2.", "mlp/2/", "mlp.4.", "mlp/4/").Replace(torchNames(""))
	from = strings.ReplaceAll(from, `weight"}`, `weight", order: in_out}`)
	for _, table := range []string{"item", "user"} {
		from = strings.ReplaceAll(from, table+`.weight", order: in_out}`, table+`/weight", values: "`+torchFolder+table+`.json"}`)
	}
	for _, path := range []string{"partitioned", "partitioned/model.ckpt"} {
		for _, size := range []int{1, 2} {
			checkTorchScores(t, Options{Config: torchConfig(t, from), From: torchFolder + path}, size)
		}
	}
}

// TestFromFuxiCTR: the state dict of a FuxiCTR model (*.model) next to its feature_vocab.json, in which the
// unknown value is not the last, gives the scores of PyTorch.
func TestFromFuxiCTR(t *testing.T) {
	dir := t.TempDir()
	all := map[string]json.RawMessage{}
	for _, name := range []string{"item", "user"} {
		b, err := os.ReadFile(torchFolder + name + ".json")
		fatal.If(t, err)
		if b[0] == '[' {
			var words []*string
			fatal.If(t, json.Unmarshal(b, &words))
			rows := map[string]int{}
			for i, w := range words {
				if w != nil {
					rows[*w] = i
				}
			}
			b, err = json.Marshal(rows)
			fatal.If(t, err)
		}
		all[name] = b
	}
	b, err := json.Marshal(all)
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(filepath.Join(dir, "feature_vocab.json"), b, 0o644))
	model, err := os.ReadFile(torchFolder + "model.pt")
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(filepath.Join(dir, "DNN.model"), model, 0o644))
	opt := Options{Config: torchConfig(t, torchNames("model.")), From: filepath.Join(dir, "DNN.model")}
	said := listen(&opt)
	for _, size := range []int{1, 2} {
		checkTorchScores(t, opt, size)
	}
	if all := strings.Join(said(), "\n"); !strings.Contains(all, "row 1 (__OOV__) is the row of unknown values") {
		t.Error(all)
	}
	fatal.If(t, os.WriteFile(filepath.Join(dir, "feature_vocab.json"), []byte(`{"city": {"a": 1}}`), 0o644))
	if err := refused(t, 1, opt); !strings.Contains(err.Error(), "it has vocabularies of city, and none of item or items") && !strings.Contains(err.Error(), "and none of user") {
		t.Error(err)
	}
}

// TestFromArraysIsConfirmed: what fits by its shape is proposed as a configuration, which then gives
// the same scores.
func TestFromArraysIsConfirmed(t *testing.T) {
	order := "inputs: [a, b, user, item]"
	opt := Options{Config: torchConfig(t, order), From: torchFolder + "model.pt"}
	err := refused(t, 1, opt)
	_, yaml, found := strings.Cut(err.Error(), "    names:\n")
	if !found {
		t.Fatal(err)
	}
	entries := []string{}
	for _, line := range strings.Split(yaml, "\n") {
		if entry, is := strings.CutPrefix(line, "      - "); is {
			entries = append(entries, entry)
		}
	}
	opt.Config = torchConfig(t, order+", names: ["+strings.Join(entries, ", ")+"]")
	checkTorchScores(t, opt, 1)
	r := runJob(t, 2, opt)
	if _, err := os.Stat(filepath.Join(r.RunDir, "source")); !os.IsNotExist(err) || r.Since != 0 {
		t.Errorf("%v, %+v", err, r)
	}
}

// TestFromExported: an exported model and the arrays of an export give the scores of their run.
func TestFromExported(t *testing.T) {
	path := traintest.Clicks(t, 600)
	c := traintest.ClicksConfig(t, path, "", ", optimizer: {deep: {kind: adam}, wide: {kind: ftrl}}")
	old := runJob(t, 2, Options{Config: c})
	_, want := firstScores(t, 1, Options{Resume: old.RunDir, Set: []string{"train.epochs=9"}})
	trained, err := OpenTrained(context.Background(), old.RunDir, func(string) {})
	fatal.If(t, err)
	src := export.Source{Checkpoint: trained.Checkpoint, Config: trained.Config, Encoder: trained.Encoder}
	dir := t.TempDir()
	w, err := export.Write(context.Background(), src, export.Options{Out: dir, Name: "ctr", Version: -1})
	fatal.If(t, err)
	npy, tensors := filepath.Join(dir, "npy"), filepath.Join(dir, "ctr.safetensors")
	fatal.If(t, export.WriteNPY(context.Background(), src, npy))
	fatal.If(t, export.WriteSafetensors(context.Background(), src, tensors))
	now, _, err := Options{From: w.Dir}.config(nil)
	fatal.If(t, err)
	was, err := config.ParseSaved("config.yaml", trained.Config)
	fatal.If(t, err)
	if got := config.Diff(was, now); len(got) > 0 {
		t.Errorf("settings of the training of an exported model: %q", got)
	}
	for _, from := range []string{w.Dir, npy, tensors} {
		opt := Options{From: from}
		if from != w.Dir {
			opt.Config = c
		}
		for _, size := range []int{1, 3} {
			_, got := firstScores(t, size, opt)
			for i := range got {
				if size == 1 && math.Abs(float64(got[i]-want[i])) > 1e-6*max(1, math.Abs(float64(want[i]))) {
					t.Fatalf("%s: logit %d is %v, before %v", from, i, got[i], want[i])
				}
			}
		}
	}
}

// TestFromArraysIsRefused: each fault of a source is one error.
func TestFromArraysIsRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	names := func(more string) string {
		return strings.Replace(torchNames("model."), `array: "model.item.weight"`, `array: "model.item.weight", `+more, 1)
	}
	for want, from := range map[string]string{
		"has row 12, the array model.item.weight has 12 rows":         names(fmt.Sprintf("values: %q", write("far.json", `{"x": 12}`))),
		"values \"a\" and \"a\" have one key":                         names(fmt.Sprintf("values: %q", write("twice.json", `["a", "a"]`))),
		"there is no array model.itm.weight; there are":               strings.Replace(torchNames("model."), "item.weight", "itm.weight", 1),
		"array model.mlp.0.weight [8 10] does not have its shape 8×8": strings.Replace(torchNames("model."), "mlp.2.weight", "mlp.0.weight", 1),
		"itm is no table or layer; there are":                         strings.Replace(torchNames("model."), `name: "item"`, `name: "itm"`, 1),
		"name each input once":                                        strings.Replace(torchNames("model."), "[a, b, user, item]", "[a, b, user]", 1),
	} {
		err := Check(context.Background(), Options{Config: torchConfig(t, from), From: torchFolder + "model.pt"}, 1)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := Check(context.Background(), Options{From: torchFolder + "model.pt"}, 1); err == nil || !strings.Contains(err.Error(), "give -config FILE too") {
		t.Error(err)
	}
}

// TestVectorsOfTables: the tables of a model are written as values and vectors, and a training takes
// them over with the same rows.
func TestVectorsOfTables(t *testing.T) {
	opt := Options{Config: torchConfig(t, torchNames("model.")), From: torchFolder + "model.pt", Set: []string{"train.optimizer.deep.kind=sgd", "train.optimizer.deep.learning_rate=1e-30"}}
	r := runJob(t, 2, opt)
	trained, err := OpenTrained(context.Background(), r.RunDir, func(string) {})
	fatal.If(t, err)
	dir := filepath.Join(t.TempDir(), "vectors")
	all, err := export.WriteTables(context.Background(), export.Source{Checkpoint: trained.Checkpoint, Config: trained.Config, Encoder: trained.Encoder}, dir)
	fatal.If(t, err)
	if len(all) != 2 || all[0].Rows != 10 || all[0].Others != 2 || all[1].Rows != 6 {
		t.Errorf("%+v", all)
	}
	was, err := arrays.Open(torchFolder + "model.pt")
	fatal.If(t, err)
	defer was.Close()
	now, err := arrays.Open(dir)
	fatal.If(t, err)
	defer now.Close()
	values, err := arrays.ReadValues(torchFolder + "item.json")
	fatal.If(t, err)
	item := now.Find("item")
	for i, value := range item.Values {
		got, want := make([]float32, 4), make([]float32, 4)
		fatal.If(t, item.Read(got, i))
		for _, v := range values {
			if string(v.Text) == value {
				fatal.If(t, was.Find("model.item.weight").Read(want, v.Row))
			}
		}
		if !slices.Equal(got, want) || want[0] == 0 {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

// TestFromLookupTables: a checkpoint of TensorFlow with embeddings and the hash tables of their values, with
// strings and with integers as keys. Row 0, which no string has, is the row of unknown values.
func TestFromLookupTables(t *testing.T) {
	const folder = "../data/arrays/testdata/lookup"
	rows := filepath.Join(t.TempDir(), "rows.csv")
	fatal.If(t, os.WriteFile(rows, []byte("click,item,shop\n"+strings.Repeat("1,i1,3\n0,i3,40\n1,new,3\n0,new,40\n", 10)), 0o644))
	const suffix = "/.ATTRIBUTES/table-keys"
	for values, fault := range map[string]string{"model/item_table" + suffix: "", "model/item_table": "no such file"} {
		c, err := config.Parse("lookup.yaml", fmt.Appendf(nil, `
data: {train: [%q], header: true}
label: {field: click}
features: [{field: item, encode: vocabulary}, {field: shop, encode: vocabulary}]
model: {wide: false, embedding_dim: 3, hidden: [4]}
train: {epochs: 1, global_batch: 8, from: {allow: [network], names: [{name: item, array: model/item, values: %q}, {name: shop, array: model/shop, values: "model/shop_table%s"}]}}
`, rows, values, suffix))
		fatal.If(t, err)
		opt := Options{Config: c, From: folder}
		if fault != "" {
			if err := refused(t, 1, opt); !strings.Contains(err.Error(), fault) {
				t.Errorf("%s: %v", values, err)
			}
			continue
		}
		said := listen(&opt)
		for _, size := range []int{1, 2} {
			got := embeddingsAtStart(t, size, opt, []string{"i1", "i3", "naïve\nline", "never"})
			if want := map[string][]float32{"i1": {9, 10, 11}, "i3": {3, 4, 5}, "naïve\nline": {6, 7, 8}}; fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%d ranks: %v, want %v", size, got, want)
			}
		}
		all := strings.Join(said(), "\n")
		for _, want := range []string{"table item: row 0 (__OOV__) is the row of unknown values", "shop: kept, 2 values and 0 new", "item: kept, 3 values and 1 new"} {
			if !strings.Contains(all, want) {
				t.Errorf("no %q in\n%s", want, all)
			}
		}
	}
}
