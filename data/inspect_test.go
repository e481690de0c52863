package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/data/tfrecord"
	"github.com/wdlrun/wdlrun/data/value"
	"github.com/wdlrun/wdlrun/internal/golden"
)

func TestInspect(t *testing.T) {
	files := map[string]string{
		"people.csv":    people,
		"noheader.tsv":  "1\ta\t0.5\n0\tb\t\\N\n1\tc\t2\n",
		"semicolon.csv": "# made by hand\nname;clicked;n\nx, y;yes;1\nz;no;NA\nw;no;3\n",
		"strings.csv":   "city,income\nBern,low\nBasel,high\nZug,low\n",
		"one.csv":       "5\n6\n7\n",
		"ragged.csv":    "a,b,label\n1,2,1\n3,4\n5,6,0\n\"7,8,0\n",
		"header.csv":    "a,b\n",
		"blank.csv":     "\n\n",
		"lines.json":    `{"a": 1, "click": true, "user": {"id": 7}}` + "\n\n" + `{"a": 2.5, "click": false, "tags": ["x", "y"]}` + "\n",
		"pretty.json":   "{\n  \"a\": 1\n}\n",
		"array.json":    `[{"a": 1}, {"a": 2}]`,
		"dup.csv":       "a,a,label\n1,2,0\n3,4,1\n1,2,1\n",
		"bad.jsonl":     `{"label":1,"a":1e999}` + "\n" + `{"label":1,"a":[}` + "\n",
		"first.jsonl":   `{"label":` + "\n" + `{"label":1,"a":3}` + "\n" + `{"label":0,"a":4}` + "\n",
		"arrays.ndjson": "[1,2]\n[3,4]\n",
		"cut.tfrecord":  "damaged!" + exampleFrame("label", "1")[8:] + exampleFrame("label", "0") + exampleFrame("label", "1"),
		"all.tfrecords": "damaged from its first byte on\n",
		"odd.json":      `{"a": nan}` + "\n" + `{"a": 2}` + "\n",
	}
	dir := t.TempDir()
	var out strings.Builder
	for _, name := range []string{"people.csv", "noheader.tsv", "semicolon.csv", "strings.csv", "one.csv", "ragged.csv", "header.csv", "blank.csv", "lines.json", "pretty.json", "array.json", "odd.json",
		"dup.csv", "bad.jsonl", "first.jsonl", "arrays.ndjson", "cut.tfrecord", "all.tfrecords", "none.csv"} {
		path := filepath.Join(dir, name)
		if content, ok := files[name]; ok {
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		show(&out, name, path, dir)
	}
	show(&out, "adult", "builtin:adult.test", dir)
	golden.Check(t, "inspect.txt", out.String())
}

// exampleFrame is a TFRecord of one feature of one text.
func exampleFrame(name, text string) string {
	lists := []value.List{{Kind: value.Text, Texts: [][]byte{[]byte(text)}}}
	return string(tfrecord.AppendFrame(nil, tfrecord.AppendExample(nil, []string{name}, lists)))
}

func show(out *strings.Builder, name, path, dir string) {
	in, err := Inspect(path, 0)
	if err != nil {
		fmt.Fprintf(out, "%s\n\t%s\n", name, strings.ReplaceAll(err.Error(), dir, "DIR"))
		return
	}
	fmt.Fprintf(out, "%s: %s %q header %v comment %q, %d rows, %d ragged, missing %q, label %s %q\n",
		name, in.Format, in.Delimiter, in.Header, in.Comment, in.Rows, in.Ragged, in.Missing, in.Label, in.Positive)
	for _, c := range in.Columns {
		b, _ := json.Marshal(c)
		fmt.Fprintf(out, "\t%s\n", b)
	}
}

func FuzzInspect(f *testing.F) {
	f.Add(people)
	f.Add("a;b\n\"\n;")
	f.Fuzz(func(t *testing.T, content string) {
		if len(content) > 1<<16 {
			t.Skip()
		}
		path := filepath.Join(t.TempDir(), "f.csv")
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		in, err := Inspect(path, 100)
		if err == nil && (in.Rows == 0 || len(in.Columns) == 0 || in.Label == "" && in.Columns[len(in.Columns)-1].Name != "") {
			t.Fatalf("%+v", in)
		}
	})
}

// TestAllRecordsBad: where all were left out, the first of them is told, and there are
// no records.
func TestAllRecordsBad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.jsonl")
	if err := os.WriteFile(path, []byte(`{"y":1,"a":1e999}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := Schema{Label: Label{Field: "y", Positive: []string{"1"}}, Features: []Feature{{Name: "a", Field: "a", Encode: "standardise"}}}
	d, err := Open(Source{Format: "jsonl", MaxBad: 1}, s, []string{path})
	if err != nil {
		t.Fatal(err)
	}
	n, err := d.Scan(t.Context(), 0, 1, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Use(n); !errors.Is(err, ErrNoRecords) || !strings.Contains(err.Error(), "beside 1 that cannot be used, the first: "+path+":1: 1e999") {
		t.Error(err)
	}
}
