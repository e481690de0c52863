package jobs

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestExport: export writes a version, reports it, and refuses to overwrite it.
func TestExport(t *testing.T) {
	t.Parallel()
	dir, model := clickLog(t, 500)
	var r struct {
		Out, Checkpoint, Rows string
		Step, Version, Bytes  int64
		TableRows             int64 `json:"table_rows"`
	}
	o := must(t, dir, "export -resume "+model+" -out models -name ctr --json")
	fatal.If(t, json.Unmarshal([]byte(o.stdout), &r))
	if r.Out != filepath.Join("models", "ctr", "2") || r.Version != r.Step || r.TableRows != 17 || r.Bytes == 0 || r.Rows != "float32" {
		t.Errorf("export --json: %+v", r)
	}
	files, _ := filepath.Glob(filepath.Join(dir, r.Out, "*"))
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	if want := []string{"MANIFEST.json", "config.yaml", "dense.bin", "encoder.json", "table-0000.bin", "warmup.tfrecord"}; !slices.Equal(files, want) {
		t.Errorf("the version consists of %v, want %v", files, want)
	}
	if o := must(t, dir, "data show "+filepath.Join(r.Out, "warmup.tfrecord")); !strings.Contains(o.stdout, "c4") {
		t.Errorf("data show of the warm-up requests: %s", o.stdout)
	}
	for args, want := range map[string]string{
		"-out models -name ctr":                       "the model of step 2 of this run is already published as version 2; to write it again, give a number, such as -version 3; no model was written",
		"-out models":                                 "-name NAME",
		"-out models -name a/b":                       "letters, digits",
		"-out models -name ctr -version 2":            "this version exists",
		"-out models -name ctr -rows int4 -version 9": "not one of",
		"-out x.npy -format npy -rows int8":           "has no effect",
		"-out x -format pickle":                       "there are model",
		"-out models -name ctr -version -3":           "at least 0",
		"-out x -format npy -ids rows":                "has no effect",
		"-out models -name ctr -check":                "has no effect",
		"-out x -format onnx -ids numbers":            "there are values, rows",
		"-out x -format npy -data clicks.csv":         "has no effect",
		"-out x -format onnx -data nowhere.csv":       "nowhere.csv",
	} {
		o := run(t, dir, append(strings.Fields("export -resume "+model), strings.Fields(args)...)...)
		if o.code != 1 || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: exit code %d, %s, want %q", args, o.code, o.stderr, want)
		}
	}
	if o := run(t, dir, "export", "-resume", "nowhere", "-out", "m", "-name", "ctr"); o.code != 1 || !strings.Contains(o.stderr, "nowhere") {
		t.Errorf("export of a missing run directory: exit code %d: %s", o.code, o.stderr)
	}
}

// TestExportReportsRounding: export with int8 rows reports the metrics on the test data before
// and after rounding.
func TestExportReportsRounding(t *testing.T) {
	t.Parallel()
	dir, _ := clickLog(t, 500)
	m := train(t, dir, 1, "-config", "c.yaml", "-set", "train.epochs=1", "-set", "data.test=[clicks.csv]")
	type metrics struct {
		AUC     float64
		LogLoss float64
	}
	var r struct {
		Rounding struct{ Float32, Rounded metrics }
	}
	o := must(t, dir, "export -resume "+m.RunDir+" -out models -name ctr -rows int8 --json")
	fatal.If(t, json.Unmarshal([]byte(o.stdout), &r))
	a, b := r.Rounding.Float32, r.Rounding.Rounded
	if a.LogLoss == 0 || a.LogLoss == b.LogLoss || a.LogLoss-b.LogLoss > 0.01 || b.LogLoss-a.LogLoss > 0.01 {
		t.Errorf("metrics of float32 rows: %+v, of int8 rows: %+v; want a small difference", a, b)
	}
}

// TestPythonReadsTables runs the recipe of docs/serving.md.
func TestPythonReadsTables(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	interpreter := python(t, "numpy")
	dir, model := clickLog(t, 500)
	code := recipe(t, "../../docs/serving.md", "table.city.keys.npy")
	must(t, dir, "export -resume "+model+" -format npy -out arrays")
	code += "print((row == rows[3]).all(), len(row))"
	out := strings.Fields(inPython(t, interpreter, dir, code))
	if len(out) != 6 || !strings.HasPrefix(out[0], "deep:") || out[1] != "wide:1" || out[2] != "(17," || out[4] != "True" {
		t.Error(out)
	}
}

// TestExportChecksONNX: -check compares the model in the runtimes that are installed, and says what to install if there are
// none. It needs the records of the training.
func TestExportChecksONNX(t *testing.T) {
	t.Parallel()
	dir, model := clickLog(t, 500)
	for _, ids := range []string{"values", "rows"} {
		o := must(t, dir, "export -resume "+model+" -format onnx -ids "+ids+" -out "+ids)
		if want := "check  32 records with their logits: python3 " + filepath.Join(ids, "check.py"); !strings.Contains(o.stdout, want) || strings.Contains(o.stdout, "city:row are numbers of rows") != (ids == "rows") {
			t.Errorf("no %q in %s", want, o.stdout)
		}
	}
	inputs, err := os.ReadFile(filepath.Join(dir, "rows", "inputs.json"))
	fatal.If(t, err)
	if !strings.Contains(string(inputs), `"city:row"`) {
		t.Errorf("inputs of -ids rows: %s", inputs)
	}
	o := run(t, dir, strings.Fields("export -resume "+model+" -format onnx -check -out checked")...)
	if exec.Command("python3", "-c", "import numpy, onnxruntime").Run() == nil {
		if o.code != 0 || !strings.Contains(o.stdout, "0 of 32 records differ") {
			t.Errorf("exit code %d: %s %s", o.code, o.stdout, o.stderr)
		}
	} else if o.code != 1 || !strings.Contains(o.stderr, "pip install numpy onnxruntime, then: python3 checked/check.py") {
		t.Errorf("exit code %d: %s", o.code, o.stderr)
	}
	must(t, dir, "data convert -out later.jsonl clicks.csv")
	fatal.If(t, os.Remove(filepath.Join(dir, "clicks.csv")))
	for _, args := range []string{"onnx -out other", "model -name ctr -out models"} {
		if o := must(t, dir, "export -resume "+model+" -format "+args+" -data later.jsonl"); strings.Contains(o.stderr, "records") {
			t.Errorf("%s with other records: %s", args, o.stderr)
		}
	}
	for _, file := range []string{"check.json", "inputs.json"} {
		want, err := os.ReadFile(filepath.Join(dir, "values", file))
		fatal.If(t, err)
		if other, err := os.ReadFile(filepath.Join(dir, "other", file)); err != nil || !bytes.Equal(other, want) {
			t.Errorf("%s of the same records in another format differs: %v", file, err)
		}
	}
	if o := must(t, dir, "data show "+filepath.Join("models", "ctr", "2", "warmup.tfrecord")); !strings.Contains(o.stdout, "c4") {
		t.Errorf("warm-up of other records: %s", o.stdout)
	}
	o = run(t, dir, strings.Fields("export -resume "+model+" -format onnx -check -out none")...)
	if o.code != 1 || !strings.Contains(o.stderr, "has no records to check") || !strings.Contains(o.stderr, "the model has no check.json") || !strings.Contains(o.stderr, "with -data") {
		t.Errorf("exit code %d: %s", o.code, o.stderr)
	}
}
