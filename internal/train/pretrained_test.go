package train

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/trace"
)

// itemsConfig returns a configuration with the given keys of its feature item.
func itemsConfig(t *testing.T, keys string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "items.csv")
	rows := strings.Builder{}
	rows.WriteString("click,item\n")
	for i := range 60 {
		fmt.Fprintf(&rows, "%d,%s\n", i%2, []string{"i1", "i2", "i3", "new", "\"naïve\nline\""}[i%5])
	}
	if strings.Contains(keys, "encode: id") {
		rows.Reset()
		rows.WriteString("click,item\n" + strings.Repeat("1,1\n0,2\n1,3\n0,4\n", 15))
	}
	fatal.If(t, os.WriteFile(path, []byte(rows.String()), 0o644))
	c, err := config.Parse("items.yaml", []byte(fmt.Sprintf("data: {train: [%q], header: true, multiline: true}\nlabel: {field: click}\nfeatures: [{field: item, %s}]\nmodel: {embedding_dim: 3, hidden: [4]}\ntrain: {epochs: 2, global_batch: 16, seed: 5, optimizer: {deep: {kind: adagrad}}}\n", path, keys)))
	fatal.If(t, err)
	return c
}

// embeddingsAtStart returns the embeddings of values before the first step; nil: no row.
func embeddingsAtStart(t *testing.T, size int, opt Options, values []string) map[string][]float32 {
	t.Helper()
	opt.Out = t.TempDir()
	all := make([]map[string][]float32, size)
	traintest.OnRanks(t, size, func(comm *collective.Comm) error {
		j := NewJob(comm, trace.New(100), opt)
		if err := j.start(context.Background()); err != nil {
			return err
		}
		defer j.close()
		own := map[string][]float32{}
		for _, v := range values {
			key, _ := encode.ValueKey(&j.config.Features[0], []byte(v))
			err := j.trainer.Store().Files().Put(0, key, func(rec []float32, held bool) {
				if held {
					own[v] = slices.Clone(rec[:3])
				}
			})
			if err != nil {
				return err
			}
		}
		all[comm.Rank()] = own
		return nil
	})
	for _, own := range all[1:] {
		for v, x := range own {
			all[0][v] = x
		}
	}
	return all[0]
}

// TestEmbeddingsBeginWithVectors: on any number of ranks, embeddings begin with the vectors of a file
// that pyarrow wrote. Values without a vector start as usual, vectors without a value are counted.
func TestEmbeddingsBeginWithVectors(t *testing.T) {
	const folder = "../data/arrays/testdata/"
	for _, size := range []int{1, 2, 4} {
		opt := Options{Config: itemsConfig(t, "encode: vocabulary, init: "+folder+"items.parquet")}
		said := listen(&opt)
		got := embeddingsAtStart(t, size, opt, []string{"i1", "i3", "naïve\nline", "new", "i4", "never seen"})
		if want := map[string][]float32{"i1": {.5, 0, 0}, "i3": {2.5, -2, .5}, "naïve\nline": {4.5, -4, 1}}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d ranks: %v, want %v", size, got, want)
		}
		if all := strings.Join(said(), "\n"); !strings.Contains(all, "item: 4 of 5 values begin with vectors of "+folder+"items.parquet; 2 vectors of it are left out, because their values are not in the vocabulary") {
			t.Errorf("said %s", all)
		}
		got = embeddingsAtStart(t, size, Options{Config: itemsConfig(t, "encode: id, init: "+folder+"ids.parquet")}, []string{"1", "2", "3", "40"})
		if want := map[string][]float32{"3": {.5, 0, 0}, "1": {1.5, -1, .25}, "40": {2.5, -2, .5}}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d ranks: %v, want %v", size, got, want)
		}
	}
	c := itemsConfig(t, "encode: vocabulary, init: "+folder+"items.parquet")
	first := runJob(t, 2, Options{Config: c})
	plain := runJob(t, 2, Options{Config: itemsConfig(t, "encode: vocabulary")})
	if first.TrainLogLoss == plain.TrainLogLoss {
		t.Error("the vectors have no effect on the training")
	}
	opt := Options{Config: c, From: first.RunDir}
	said := listen(&opt)
	if got := embeddingsAtStart(t, 2, opt, []string{"i1", "i2", "i3", "naïve\nline"}); fmt.Sprint(got["i1"], got["i2"], got["i3"], got["naïve\nline"]) == "[0.5 0 0] [1.5 -1 0.25] [2.5 -2 0.5] [4.5 -4 1]" || !strings.Contains(strings.Join(said(), "\n"), "; 4 have a row already and keep it") {
		t.Errorf("trained rows are replaced: %v; said %q", got, said())
	}
	for keys, want := range map[string]string{
		"encode: vocabulary, init: " + folder + "nan.parquet":           "number 1 of the vector of \"i2\" is NaN",
		"encode: id, init: " + folder + "items.parquet":                 "value \"i1\" is no integer, which encode: id needs",
		"encode: vocabulary, init: " + folder + "ids.parquet":           "none of the 5 values of the data, such as",
		"encode: hash, init: none.parquet":                              "no such file",
		"encode: hash, init: ../data/record/testdata/x.parquet":         "x.parquet",
		"encode: hash, init: " + folder + "item.json":                   "item.json",
		"encode: vocabulary, table: t, init: " + folder + "ids.parquet": "",
	} {
		opt := Options{Config: itemsConfig(t, keys)}
		if want == "" {
			opt.Config.Model.EmbeddingDim = 5
			want = "its vectors have 3 numbers, the embeddings of table t have 5"
		}
		if err := refused(t, 2, opt); !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "features[0].init") {
			t.Errorf("%s: %v, want %s", keys, err, want)
		}
	}
}

// TestEmbeddingsAreFrozen: with features[].freeze, embeddings keep the vectors of their file for that many
// steps of the training, also after a resume and after -from, and change afterwards. Wide weights change at
// once.
func TestEmbeddingsAreFrozen(t *testing.T) {
	const file = "../data/arrays/testdata/items.parquet"
	const vectors = "[0.5 0 0] [2.5 -2 0.5]"
	after := func(size int, run string) string {
		got := embeddingsAtStart(t, size, Options{Config: itemsConfig(t, "encode: vocabulary"), From: run}, []string{"i1", "i3"})
		return fmt.Sprint(got["i1"], got["i3"])
	}
	for _, size := range []int{1, 2} {
		for _, values := range []string{"float32", "bfloat16"} {
			of := func(freeze int) *config.Config { // of 8 steps
				c := itemsConfig(t, fmt.Sprintf("encode: vocabulary, freeze: %d, init: %s", freeze, file))
				c.Tables = []config.Table{{Name: "item", Values: values}}
				return c
			}
			whole := runJob(t, size, Options{Config: of(8)})
			if got := after(size, whole.RunDir); got != vectors {
				t.Errorf("%d ranks, %s: frozen embeddings became %s", size, values, got)
			}
			some := runJob(t, size, Options{Config: of(6)})
			if got := after(size, some.RunDir); got == vectors || some.TrainLogLoss == whole.TrainLogLoss {
				t.Errorf("%d ranks, %s: embeddings that are frozen for 6 of 8 steps stay %s", size, values, got)
			}
			half := of(6)
			half.Train.Epochs = 1
			opt := Options{Config: half}
			first := runJob(t, size, opt)
			again := runJob(t, size, Options{Resume: first.RunDir, Set: []string{"train.epochs=2"}})
			if got := after(size, again.RunDir); got != after(size, some.RunDir) || again.TrainLogLoss != some.TrainLogLoss {
				t.Errorf("%d ranks, %s: resumed, embeddings are %s and the loss %v, want %v", size, values, got, again.TrainLogLoss, some.TrainLogLoss)
			}
			next := runJob(t, size, Options{Config: of(8), From: whole.RunDir})
			if got := after(size, next.RunDir); got != vectors {
				t.Errorf("%d ranks, %s: frozen again, embeddings became %s", size, values, got)
			}
		}
	}
}

// TestRefitCountsFrozenSteps: with train.refit, the second training freezes embeddings for its own first steps.
func TestRefitCountsFrozenSteps(t *testing.T) {
	c := itemsConfig(t, "encode: vocabulary, freeze: 6, init: ../data/arrays/testdata/items.parquet")
	c.Train.Epochs = 4
	byHand := runJob(t, 1, Options{Config: c})
	c = c.Clone()
	c.Data.ValidFraction, c.Train.EarlyStop.Patience, c.Train.Refit = .25, 4, true
	res := runJob(t, 1, Options{Config: c})
	if res.Refit == nil || res.Refit.Epochs != 4 {
		t.Fatalf("second training %+v, want 4 epochs", res.Refit)
	}
	keys := []string{"i1", "i3"}
	var of [2]string
	for i, run := range []string{res.RunDir, byHand.RunDir} {
		of[i] = fmt.Sprint(embeddingsAtStart(t, 1, Options{Config: itemsConfig(t, "encode: vocabulary"), From: run}, keys))
	}
	if of[0] != of[1] {
		t.Errorf("embeddings %s, want those of one training on all rows: %s", of[0], of[1])
	}
}

// TestVectorsAreCheckedBeforeATraining: the plan, and the check before any rank starts, name a file that does
// not fit.
func TestVectorsAreCheckedBeforeATraining(t *testing.T) {
	const folder = "../data/arrays/testdata/"
	for file, want := range map[string]string{"none.parquet": "no such file", folder + "item.json": "item.json", folder + "items.parquet": "its vectors have 3 numbers, the embeddings of table item have 5"} {
		opt := Options{Config: itemsConfig(t, "encode: vocabulary, init: "+file), Here: 1}
		opt.Config.Model.EmbeddingDim = 5
		_, planned := Estimate(context.Background(), opt, 1, true)
		for _, err := range []error{Check(context.Background(), opt, 1), planned} {
			if err == nil || !strings.Contains(err.Error(), "features[0].init") || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", file, err, want)
			}
		}
		opt.Config.Model.EmbeddingDim = 3
		if err := CheckVectors(filled(opt.Config)); (err == nil) != strings.HasSuffix(file, "items.parquet") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func filled(c *config.Config) *config.Config {
	c = c.Clone()
	c.Fill()
	return c
}
