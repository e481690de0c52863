package jobs

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// clickLog writes clicks.csv with the given number of records and a configuration, and trains a
// model.
func clickLog(t *testing.T, rows int) (dir, model string) {
	t.Helper()
	dir = t.TempDir()
	var b strings.Builder
	b.WriteString("y,city,age\n")
	for i := range rows {
		fmt.Fprintf(&b, "%d,c%d,%d\n", i%3%2, i%17, 20+i%40)
	}
	write(t, dir, "clicks.csv", b.String())
	write(t, dir, "c.yaml", clicksYAML)
	r := train(t, dir, 1, "-config", "c.yaml", "-set", "train.epochs=1")
	return dir, r.RunDir
}

// TestPredictFormats: the predictions do not depend on the input format or on the number of
// ranks. Every output format contains the same values.
func TestPredictFormats(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir, model := clickLog(t, 3000)
	predict := "predict -resume " + model + " -columns city -logit "
	must(t, dir, "-np 2 "+predict+"-data clicks.csv -out want.csv")
	want, err := os.ReadFile(filepath.Join(dir, "want.csv"))
	fatal.If(t, err)
	for i, file := range []string{"in.parquet", "in.jsonl", "in.tfrecord", "in.csv.gz"} {
		must(t, dir, "data convert -out "+file+" clicks.csv")
		if o := must(t, dir, fmt.Sprintf("-np %d %s-data %s -out -", i%3+1, predict, file)); o.stdout != string(want) {
			t.Errorf("%s: the output differs from the output for clicks.csv: %.200s", file, o.stdout)
		}
	}
	for _, file := range []string{"out.parquet", "out.jsonl", "out.tsv.zst"} {
		must(t, dir, predict+"-data clicks.csv -out "+file)
		must(t, dir, "data convert -out back.csv "+file)
		got, err := os.ReadFile(filepath.Join(dir, "back.csv"))
		fatal.If(t, err)
		if string(got) != string(want) {
			t.Errorf("%s contains other values: %.200s", file, got)
		}
		os.Remove(filepath.Join(dir, "back.csv"))
	}
	must(t, dir, "predict -resume "+model+" -data clicks.csv -columns city,age -out typed.jsonl")
	typed, err := os.ReadFile(filepath.Join(dir, "typed.jsonl"))
	if err != nil || !strings.HasPrefix(string(typed), `{"city":"c0","age":20,"score":0.`) {
		t.Errorf("typed.jsonl: %v, %.100s", err, typed)
	}
	var r struct {
		Rows    int64    `json:"rows"`
		Columns []string `json:"columns"`
	}
	o := must(t, dir, predict+"-data clicks.csv -label -out json.csv --json")
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil || r.Rows != 3000 || !slices.Equal(r.Columns, []string{"city", "label", "score", "logit"}) {
		t.Errorf("%v: %s", err, o.stdout)
	}
	rows, err := csv.NewReader(strings.NewReader(string(want))).ReadAll()
	if err != nil || len(rows) != 3001 {
		t.Fatal(err, len(rows))
	}
	for i, r := range rows[1:] {
		if score, err := strconv.ParseFloat(r[1], 64); err != nil || r[0] != fmt.Sprintf("c%d", i%17) || score <= 0 || score >= 1 {
			t.Fatalf("line %d: %q", i+2, r)
		}
	}
}

// TestPredictFaults: a fault gives a one-line error and leaves no file.
func TestPredictFaults(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir, model := clickLog(t, 200)
	write(t, dir, "there.csv", "")
	write(t, dir, "bad.csv", "city,age\nOslo,3\nOslo,old\n")
	predict := "predict -resume " + model + " "
	for flags, want := range map[string]string{
		"-data clicks.csv -out there.csv":           "there.csv exists; remove it first",
		"-data clicks.csv -out none/x.csv":          "none",
		"-data clicks.csv -out x.libsvm":            "libsvm cannot hold predictions",
		"-data clicks.csv -out x":                   "has no known extension",
		"-data clicks.csv":                          "-out FILE",
		"-data clicks.csv -out - -json":             "-json and -out - both write to standard output",
		"-data clicks.csv -out - -format parquet":   "standard output takes",
		"-data clicks.csv -out x.csv -columns user": `there is no field "user"`,
		"-data bad.csv -out x.csv":                  "predict -max-bad N",
		"-data bad.csv -out x.csv -label":           "y",
		"-data gone.csv -out x.csv":                 "gone.csv",
		"-data clicks.csv -out x.csv stray":         `takes no arguments, but got "stray"`,
	} {
		o := run(t, dir, strings.Fields("-np 2 "+predict+flags)...)
		if o.code == 0 || !strings.Contains(o.stderr, want) || strings.Contains(o.stderr, "goroutine ") {
			t.Errorf("%s: code %d, want %q: %s", flags, o.code, want, o.stderr)
		}
	}
	must(t, dir, "export -resume "+model+" -out models -name ctr")
	for folder, want := range map[string]string{
		"models": "this folder holds models: give the folder of one, such as models/ctr", model: "this is a run directory: give it as -resume",
		model + "/checkpoints": "neither an exported model nor", "models/none": "no such file",
	} {
		if o := run(t, dir, "predict", "-model", folder, "-data", "clicks.csv", "-out", "x.csv"); o.code != 1 || !strings.Contains(o.stderr, want) {
			t.Errorf("-model %s: code %d, want %q: %s", folder, o.code, want, o.stderr)
		}
	}
	if o := must(t, dir, "-np 2 "+predict+"-data bad.csv -max-bad 1 -columns age -out bad.out.csv"); !strings.Contains(o.stdout, "rows   2, 1 of them without a prediction (age, score) written to bad.out.csv") {
		t.Errorf("bad.csv: %s%s", o.stdout, o.stderr)
	}
	write(t, dir, "long.csv", "city,age\nOslo,3\n"+strings.Repeat("x", 70_000)+",4\n")
	if o := run(t, dir, strings.Fields("-np 2 "+predict+"-data long.csv -columns city -out -")...); o.code != 1 || !strings.Contains(o.stderr, "a line is longer than the 65536 bytes") {
		t.Errorf("a long line: code %d, %.300s", o.code, o.stderr)
	}
	must(t, dir, predict+"-data long.csv -columns city -out long.out.csv")
	left, err := filepath.Glob(filepath.Join(dir, "*x.*"))
	if parts, _ := filepath.Glob(filepath.Join(dir, "*.part")); err != nil || len(left)+len(parts) > 0 {
		t.Errorf("files were left: %q %q, %v", left, parts, err)
	}
}

// TestPredictInterrupted: after Ctrl-C neither the output nor a part of it remains.
func TestPredictInterrupted(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("writes a large file")
	}
	dir, model := clickLog(t, 300_000)
	cmd := command(t, dir, "-np", "2", "predict", "-resume", model, "-data", "clicks.csv", "-columns", "city", "-out", "x.csv")
	fatal.If(t, cmd.Start())
	part := filepath.Join(dir, "x.csv.part")
	for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(part); err == nil {
			break
		}
	}
	fatal.If(t, cmd.Process.Signal(os.Interrupt))
	o := end(t, cmd)
	if o.code != 130 {
		t.Errorf("exit code %d: %s", o.code, o.stderr)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "x.csv*")); err != nil || len(left) > 0 {
		t.Errorf("files were left: %q, %v", left, err)
	}
}
