package tests

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// must runs a command that must not fail.
func must(t *testing.T, dir, args string) outcome {
	t.Helper()
	o := run(t, dir, strings.Fields(args)...)
	if o.code != 0 {
		t.Fatalf("wdlrun %s: exit code %d\n%s%s", args, o.code, o.stdout, o.stderr)
	}
	return o
}

// described is data stats --json.
type described struct {
	Records   int64
	Bad       int64
	LabelRate float64 `json:"label_rate"`
	Columns   []struct {
		Name, Type string
		Missing    float64
		Distinct   int64
		Sum        float64
	}
}

func describe(t *testing.T, dir, args string) (d described) {
	t.Helper()
	if err := json.Unmarshal([]byte(must(t, dir, "data stats --json "+args).stdout), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestAdultInEveryFormat: what is known of the built-in set is what is read from
// every file that it was converted to. The sums of age and hours_per_week are
// those of UCI's file.
func TestAdultInEveryFormat(t *testing.T) {
	dir := t.TempDir()
	files := []string{"builtin:adult.data"}
	for _, to := range []string{"a.csv", "a.tsv.gz", "a.parquet", "a.tfrecord.zst"} {
		must(t, dir, "data convert -out "+to+" "+files[len(files)-1]) // of a chain of formats
		files = append(files, to)
	}
	for _, f := range files {
		d := describe(t, dir, f)
		if d.Records != 32561 || d.Bad != 0 || len(d.Columns) != 15 || math.Abs(d.LabelRate-7841./32561) > 1e-9 {
			t.Errorf("%s: %d records, %d bad, %d columns, label rate %v", f, d.Records, d.Bad, len(d.Columns), d.LabelRate)
		}
		found := 0
		for _, c := range d.Columns {
			switch c.Name {
			case "age":
				if found++; c.Sum != 1256257 || c.Type != "integer" || c.Missing != 0 {
					t.Errorf("%s: age: %+v", f, c)
				}
			case "hours_per_week":
				if found++; c.Sum != 1316684 {
					t.Errorf("%s: hours_per_week: %+v", f, c)
				}
			case "workclass":
				if found++; math.Abs(c.Missing-1836./32561) > 1e-9 || c.Distinct != 8 {
					t.Errorf("%s: workclass: %+v", f, c)
				}
			}
		}
		if found != 3 {
			t.Errorf("%s: the columns are %+v", f, d.Columns)
		}
	}
	if o := must(t, dir, "data show -records 2 a.parquet"); !strings.Contains(o.stdout, "\nhours_per_week  40             13\n") {
		t.Error(o.stdout)
	}
	if o := run(t, dir, "data", "convert", "-out", "a.csv", "builtin:adult.data"); o.code != 1 || !strings.Contains(o.stderr, "a.csv exists") {
		t.Errorf("convert overwrote a file: %s", o.stderr)
	}
}

// TestGenInEveryFormat: the same rows, whatever they are written in.
func TestGenInEveryFormat(t *testing.T) {
	dir := t.TempDir()
	var want float64
	for _, f := range []string{"c.tsv", "c.csv", "c.tsv.zst", "c.tfrecord.gz", "c.parquet", "c.libsvm", "c.libffm.sz"} {
		must(t, dir, "gen -rows 300 -out "+f)
		d := describe(t, dir, f)
		sum := 0.0
		for _, c := range d.Columns {
			if c.Name == "label" {
				sum = c.Sum
			}
		}
		if want == 0 {
			want = sum
		}
		if d.Records != 300 || sum != want || sum == 0 {
			t.Errorf("%s: %d records, %v clicks, want %v", f, d.Records, sum, want)
		}
	}
}

func TestDataCheck(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "c.csv", "y,city,age\n1,Oslo,3\n0,Bergen\n1,\"Voss,5\n0,Voss,tall\n0,Moss,4\n")
	write(t, dir, "c.yaml", strings.Replace(clicksYAML, "clicks.csv", "c.csv", 1))
	o := run(t, dir, "data", "check", "c.csv")
	for _, w := range []string{"c.csv:3: the record has 2 fields", "c.csv:4: ", "5 records", "3 good, 2 bad"} {
		if o.code != 1 || !strings.Contains(o.stdout, w) {
			t.Errorf("exit code %d, no %q in\n%s%s", o.code, w, o.stdout, o.stderr)
		}
	}
	o = run(t, dir, "data", "check", "-config", "c.yaml")
	if w := `c.csv:5: column age: "tall" is no number`; o.code != 1 || !strings.Contains(o.stdout, w) || !strings.Contains(o.stdout, "2 good, 3 bad") {
		t.Errorf("exit code %d, no %q in\n%s%s", o.code, w, o.stdout, o.stderr)
	}
	if o := must(t, dir, "data check -max-bad 2 --json c.csv"); !strings.Contains(o.stdout, `"line":3`) || !strings.Contains(o.stdout, `"ok":true`) {
		t.Error(o.stdout)
	}
	must(t, dir, "gen -rows 3000 -out c.tsv.gz")
	b, err := os.ReadFile(filepath.Join(dir, "c.tsv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "cut.tsv.gz", string(b[:len(b)/2]))
	if o := run(t, dir, "data", "check", "cut.tsv.gz"); o.code != 1 || !strings.Contains(o.stderr, "ends early") || !strings.Contains(o.stderr, "cut.tsv.gz") {
		t.Errorf("exit code %d, %s%s", o.code, o.stdout, o.stderr)
	}
}

// TestUnknownValuesAreCounted, over all ranks: what training has not seen shares
// one key, and the result says how often that came.
func TestUnknownValuesAreCounted(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "clicks.csv", "y,city,age\n1,Oslo,3\n0,Bergen,4\n1,Oslo,5\n0,Bergen,6\n")
	write(t, dir, "new.csv", "y,city,age\n1,Voss,3\n0,Bergen,4\n1,Moss,5\n0,,6\n0,Voss,2\n")
	write(t, dir, "c.yaml", strings.Replace(clicksYAML, "encode: hash", "encode: vocabulary", 1))
	o := must(t, dir, "-np 2 train --json -config c.yaml -set train.epochs=1 -set data.test=[new.csv]")
	if !strings.Contains(o.stdout, `"test_unknown":{"city":3}`) {
		t.Error(o.stdout)
	}
	runs, err := filepath.Glob(filepath.Join(dir, "runs", "*"))
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	if o := must(t, dir, "-np 3 eval -resume runs/"+filepath.Base(runs[0])+" -data new.csv"); !strings.Contains(o.stdout, "does not hold: city 3\n") {
		t.Error(o.stdout)
	}
}

// TestAdultTrainsAlikeFromEveryFormat: what is learned does not depend on the
// format that the records are kept in. Categories have numbers here, for LibSVM
// holds nothing else.
func TestAdultTrainsAlikeFromEveryFormat(t *testing.T) {
	dir := t.TempDir()
	columns := strings.Fields("age workclass education_num marital_status occupation relationship sex hours_per_week")
	must(t, dir, "data convert -codes codes -fields income,"+strings.Join(columns, ",")+" -out a.csv builtin:adult.data")
	if b, err := os.ReadFile(filepath.Join(dir, "codes")); err != nil || !strings.Contains(string(b), "income\t2\t>50K\n") {
		t.Fatalf("%v: the codes are %s", err, b)
	}
	var want trained
	for i, file := range []string{"a.csv", "a.libsvm", "a.tfrecord", "a.csv.gz", "a.parquet", "a.libsvm.zst"} {
		if i > 0 {
			must(t, dir, "data convert -out "+file+" a.csv")
		}
		format := strings.Split(file, ".")[1]
		text := "data: {train: [" + file + "], test: [" + file + "], format: " + format + ", header: " + map[bool]string{true: "true", false: "false"}[format == "csv"] + "}\n"
		label, features := "income", ""
		if format == "libsvm" {
			label = "label"
		}
		for i, c := range columns {
			encode, field := "vocabulary", c
			if c == "age" || c == "hours_per_week" {
				encode = "standardise"
			}
			if format == "libsvm" {
				field = strconv.Itoa(i + 1)
			}
			features += fmt.Sprintf("  - {name: %s, field: %q, encode: %s}\n", c, field, encode)
		}
		text += "label: {field: " + label + ", positive: [\"2\"]}\nfeatures:\n" + features + "train: {epochs: 1, shuffle: false, batch: 512}\n"
		write(t, dir, format+".yaml", text)
		got := train(t, dir, 1, "-config", format+".yaml")
		if format == "csv" {
			want = got // plain files are read from many places, packed ones and Parquet from the beginning
		}
		if got.Samples != 32561 || got.AUC < .85 || got.AUC != want.AUC || got.LogLoss != want.LogLoss {
			t.Errorf("%s: %d samples, AUC %v, log-loss %v; from csv %v, %v", file, got.Samples, got.AUC, got.LogLoss, want.AUC, want.LogLoss)
		}
	}
}
