package export_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/apply"
	"github.com/wdlrun/wdlrun/trace"
)

// trained trains a model of the built-in data on some ranks and opens it.
func trained(t testing.TB, ranks int, set ...string) (run string, m train.Trained) {
	t.Helper()
	opt := train.Options{Out: t.TempDir(), Set: append([]string{"train.epochs=1", "model.hidden=[16,8]"}, set...)}
	err := mem.Run(ranks, 2, func(comm *collective.Comm) error {
		r, err := train.NewJob(comm, trace.New(0), opt).Run(context.Background())
		if comm.Rank() == 0 {
			run = r.RunDir
		}
		return err
	})
	if err == nil {
		m, err = train.OpenTrained(context.Background(), run, func(line string) { t.Error(line) })
	}
	fatal.If(t, err)
	return run, m
}

func source(m train.Trained) export.Source {
	return export.Source{Checkpoint: m.Checkpoint, Config: m.Config, Encoder: m.Encoder}
}

// write exports a model and opens it.
func write(t testing.TB, m train.Trained, rows string) *export.Model {
	t.Helper()
	r, err := export.Write(context.Background(), source(m), export.Options{Out: t.TempDir(), Name: "ctr", Version: -1, Rows: rows})
	fatal.If(t, err)
	model, err := export.Open(r.Dir)
	fatal.If(t, err)
	t.Cleanup(func() { model.Close() })
	return model
}

// evaluate calls each with every batch of the test data and the logits of an evaluation.
func evaluate(t *testing.T, run string, each func(b *encode.Batch, logit []float32) error) apply.EvalResult {
	t.Helper()
	opt := apply.EvalOptions{Resume: run, Each: each, Warn: func(line string) { t.Error(line) }}
	r, err := apply.NewEvaluation(collective.New(mem.New(1, 2)[0]), trace.New(0), opt).Run(context.Background())
	fatal.If(t, err)
	return r
}

// differences compares the logits of a model with the logits of an evaluation.
func differences(t *testing.T, run string, model *export.Model) (rows int, most float64) {
	t.Helper()
	scorer, err := model.NewScorer()
	fatal.If(t, err)
	r := evaluate(t, run, func(b *encode.Batch, logit []float32) error {
		got, err := scorer.Score(b)
		if err != nil {
			return err
		}
		for i, want := range logit {
			most = max(most, math.Abs(float64(got[i]-want)))
			if math.Float32bits(got[i]) != math.Float32bits(want) && most == 0 {
				return fmt.Errorf("row %d: %v, the evaluation has %v", i, got[i], want)
			}
		}
		rows += len(logit)
		return nil
	})
	if int64(rows) != r.Samples || rows == 0 {
		t.Fatalf("%d rows of %d samples", rows, r.Samples)
	}
	return rows, most
}

// TestExportHasTheBitsOfEvaluation covers every kind of model and several numbers of
// ranks.
func TestExportHasTheBitsOfEvaluation(t *testing.T) {
	for ranks, set := range [][]string{
		1: {"model.kind=deepfm"},
		2: {"model.kind=dcn_v2", "model.batch_norm=true"},
		3: {"model.kind=wide_deep", "model.embedding_dim=1"},
	} {
		if ranks == 0 {
			continue
		}
		t.Run(set[0], func(t *testing.T) {
			run, m := trained(t, ranks, set...)
			model := write(t, m, "")
			if _, most := differences(t, run, model); most != 0 {
				t.Errorf("logits differ by %v", most)
			}
			if model.Version() != m.Checkpoint.Step() || model.Version() == 0 {
				t.Errorf("version %d, the step is %d", model.Version(), m.Checkpoint.Step())
			}
		})
	}
}

// TestDeltasAreExported: a checkpoint that builds upon another is exported completely.
func TestDeltasAreExported(t *testing.T) {
	run, _ := trained(t, 2, "train.checkpoint.full_every=4", "train.checkpoint.every_steps=20", "train.checkpoint.keep=10")
	found, _ := filepath.Glob(filepath.Join(run, "checkpoints", "step-*"))
	chains := 0
	for _, dir := range found {
		m, err := train.OpenTrained(context.Background(), dir, func(line string) { t.Error(line) })
		fatal.If(t, err)
		if len(m.Checkpoint.Chain()) < 3 {
			continue
		}
		chains++
		if _, most := differences(t, dir, write(t, m, "float32")); most != 0 {
			t.Errorf("%s: logits differ by %v", dir, most)
		}
	}
	if chains == 0 {
		t.Fatalf("none of %v builds upon two others", found)
	}
}

// TestTheBestEpochIsExported: after early stopping, export takes the same epoch as
// evaluation.
func TestTheBestEpochIsExported(t *testing.T) {
	patient.Long(t)
	run, m := trained(t, 1, "train.epochs=8", "train.early_stop.patience=2", "data.valid_fraction=0.2", "train.optimizer.deep.learning_rate=0.5")
	r := evaluate(t, run, nil)
	if r.Best == 0 || r.Best != m.Best || r.Step != m.Checkpoint.Step() || r.Step == m.Last {
		t.Fatalf("the evaluation takes epoch %d, step %d; the export epoch %d, step %d; the last step is %d", r.Best, r.Step, m.Best, m.Checkpoint.Step(), m.Last)
	}
	if _, most := differences(t, run, write(t, m, "")); most != 0 {
		t.Errorf("logits differ by %v", most)
	}
}

// TestRowsInFewerBits: the logits differ slightly.
func TestRowsInFewerBits(t *testing.T) {
	patient.Long(t)
	run, m := trained(t, 1)
	sizes := []int64{write(t, m, "float32").Bytes()}
	for _, x := range []struct {
		rows  string
		limit float64
	}{{"bfloat16", 0.03}, {"int8", 0.03}} {
		model := write(t, m, x.rows)
		_, most := differences(t, run, model)
		if !(most > 0 && most < x.limit) {
			t.Errorf("%s: logits differ by %v, expected above 0 and below %v", x.rows, most, x.limit)
		}
		sizes = append(sizes, model.Bytes())
	}
	if !(sizes[2] < sizes[1] && sizes[1] < sizes[0]) {
		t.Errorf("float32, bfloat16 and int8 take %v bytes", sizes)
	}
}

// TestEqualModelsAreEqualBytes: an export depends only on the model.
func TestEqualModelsAreEqualBytes(t *testing.T) {
	_, m := trained(t, 1)
	a, b := write(t, m, ""), write(t, m, "")
	for _, f := range []string{"MANIFEST.json", "table-0000.bin", "dense.bin"} {
		x, err := os.ReadFile(filepath.Join(a.Dir(), f))
		fatal.If(t, err)
		if y, err := os.ReadFile(filepath.Join(b.Dir(), f)); err != nil || !bytes.Equal(x, y) {
			t.Errorf("%s differs: %v", f, err)
		}
	}
}

func TestManifestDescribesTheModel(t *testing.T) {
	_, m := trained(t, 1)
	model := write(t, m, "")
	d := model.Manifest()
	if len(d.Outputs) != 1 || d.Outputs[0] != (export.Output{Label: "income", Kind: "probability"}) {
		t.Errorf("outputs %+v", d.Outputs)
	}
	types := map[string]string{}
	for _, in := range d.Inputs {
		types[in.Field] = in.Type
	}
	if types["age"] != "number" || types["occupation"] != "text" || types["income"] != "" {
		t.Errorf("inputs %+v", d.Inputs)
	}
	rows := int64(0)
	for _, table := range d.Tables {
		rows += table.Rows
	}
	if rows == 0 {
		t.Errorf("tables %+v", d.Tables)
	}
}

// TestVersionsAreNotReplaced also checks that the next export removes the files of a
// killed one.
func TestVersionsAreNotReplaced(t *testing.T) {
	_, m := trained(t, 1)
	opt := export.Options{Out: t.TempDir(), Name: "ctr", Version: 7}
	if _, err := export.Write(context.Background(), source(m), opt); err != nil {
		t.Fatal(err)
	}
	if _, err := export.Write(context.Background(), source(m), opt); err == nil || !strings.Contains(err.Error(), "this version exists") {
		t.Errorf("%v", err)
	}
	left := filepath.Join(opt.Out, "ctr", ".tmp-9")
	fatal.If(t, os.MkdirAll(filepath.Join(left, "x"), 0o755))
	opt.Version = 8
	if _, err := export.Write(context.Background(), source(m), opt); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("what an export that was killed had left is still there")
	}
}

// TestNumbersOfExportsRise: an export is the version that servers load, unless it is given another
// number. It undoes no rollback, and a model that the folder has is not written again.
func TestNumbersOfExportsRise(t *testing.T) {
	_, m := trained(t, 1)
	_, other := trained(t, 1) // of the same step
	step, out := m.Checkpoint.Step(), t.TempDir()
	root := filepath.Join(out, "ctr")
	var warned []string
	write := func(of train.Trained, version int64, rows string) (int64, error) {
		warned = nil
		r, err := export.Write(t.Context(), source(of), export.Options{Out: out, Name: "ctr", Version: version, Rows: rows, Warn: func(line string) { warned = append(warned, line) }})
		return r.Manifest.Version, err
	}
	again := func(version, next int64) string {
		return fmt.Sprintf("the model of step %d of this run is already published as version %d; to write it again, give a number, such as -version %d", step, version, next)
	}
	has := func(highest, n int64) string {
		return fmt.Sprintf("%s has version %d, so that this version, of step %d, is %d", root, highest, step, n)
	}
	for i, x := range []struct {
		of            train.Trained
		version, want int64
		rows, warning string
		err           string
	}{
		{m, step + 7, step + 7, "", "", ""},
		{m, -1, 0, "", "", again(step+7, step+8)},
		{other, -1, step + 8, "", has(step+7, step+8), ""},
		{other, -1, 0, "", "", again(step+8, step+9)},
		{other, -1, step + 9, "int8", has(step+8, step+9), ""},
		{other, -1, 0, "int8", "", again(step+9, step+10)},
		{m, step + 3, step + 3, "", "servers that load the latest version keep it", ""},
		{m, -1, 0, "", "", again(step+3, step+10)},
	} {
		got, err := write(x.of, x.version, x.rows)
		if (err == nil) != (x.err == "") || err != nil && !strings.Contains(err.Error(), x.err) {
			t.Fatalf("export %d: %v, want %q", i, err, x.err)
		}
		if got != x.want || len(warned) > 1 || !strings.Contains(strings.Join(warned, ""), x.warning) || (x.warning == "") != (len(warned) == 0) {
			t.Errorf("export %d: version %d, want %d; warnings %q, want %q", i, got, x.want, warned, x.warning)
		}
	}
	_, err := export.Hold(t.Context(), root, "rollback")
	fatal.If(t, err)
	if n, err := write(m, -1, ""); err == nil || !strings.Contains(err.Error(), "on hold (rollback): wdlrun publish") {
		t.Errorf("version %d was written into a folder on hold: %v", n, err)
	}
}

// TestTheStepOfAnotherRun: the model of another run with the same number of steps is published, too.
func TestTheStepOfAnotherRun(t *testing.T) {
	_, m := trained(t, 1)
	_, other := trained(t, 1)
	opt := export.Options{Out: t.TempDir(), Name: "ctr", Version: -1}
	for i, x := range []train.Trained{m, other} {
		r, err := export.Write(t.Context(), source(x), opt)
		fatal.If(t, err)
		if want := m.Checkpoint.Step() + int64(i); r.Manifest.Version != want {
			t.Errorf("version %d, want %d", r.Manifest.Version, want)
		}
	}
}

func TestOptionsAreRejected(t *testing.T) {
	_, m := trained(t, 1)
	for want, opt := range map[string]export.Options{
		"letters, digits":  {Out: t.TempDir(), Name: "a/b"},
		"are not one of":   {Out: t.TempDir(), Name: "ctr", Rows: "int4"},
		"context canceled": {Out: t.TempDir(), Name: "ctr"},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		if want == "context canceled" {
			cancel()
		}
		if _, err := export.Write(ctx, source(m), opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		cancel()
		if found, _ := filepath.Glob(filepath.Join(opt.Out, "*", "[0-9]*")); len(found) > 0 {
			t.Errorf("%v are there", found)
		}
	}
}

// TestWarmupOfLists: records of a format with lists are written for the warm-up.
func TestWarmupOfLists(t *testing.T) {
	text := ""
	for i := range 40 {
		text += fmt.Sprintf("{\"click\":%d,\"genres\":[\"a\",\"b%d\"],\"age\":%d}\n", i%2, i%3, i)
	}
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "x.jsonl"), []byte(text), 0o600))
	c, err := config.Parse("c.yaml", []byte("data: {train: ["+filepath.Join(dir, "x.jsonl")+"], format: jsonl}\nlabel: {field: click}\nfeatures:\n  - {field: genres, encode: vocabulary}\n  - {field: age, encode: standardise}\n"))
	fatal.If(t, err)
	opt := train.Options{Config: c, Out: dir}
	r, err := train.NewJob(collective.New(mem.New(1, 2)[0]), trace.New(0), opt).Run(context.Background())
	fatal.If(t, err)
	m, err := train.OpenTrained(context.Background(), r.RunDir, func(line string) { t.Error(line) })
	fatal.If(t, err)
	x, err := export.Write(context.Background(), source(m), export.Options{Out: dir, Name: "ctr", Version: -1, Warn: func(line string) { t.Error(line) }})
	fatal.If(t, err)
	if _, err := os.Stat(filepath.Join(x.Dir, "warmup.tfrecord")); err != nil {
		t.Error(err)
	}
}
