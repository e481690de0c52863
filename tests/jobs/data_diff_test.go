package jobs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// diffed is a field in the output of data diff -json.
type diffed struct {
	Field      string
	Records    int64
	Share      float64
	SameNumber int64 `json:"same_number"`
	First      int64
	A, B       []any
}

// diffOf runs data diff -json. want is the exit code.
func diffOf(t *testing.T, dir, a, b string, want int) (d struct {
	A, B struct {
		Records int64
		Only    []string
	}
	Fields, Compared int64
	Differing        []diffed
	Equal            bool
	Code             int `json:"exit_code"`
}) {
	t.Helper()
	o := run(t, dir, "data", "diff", "-json", a, b)
	if err := json.Unmarshal([]byte(o.stdout), &d); err != nil || o.code != want || d.Code != want || d.Equal != (want == 0) {
		t.Fatalf("data diff %s %s: %v, exit code %d, want %d\n%s%s", a, b, err, o.code, want, o.stdout, o.stderr)
	}
	return d
}

// TestDiffOfEqualTables: a table is equal to itself in every format, also if it has lists, nulls
// and NaN, or is split into files. A late field is one that no first record has.
func TestDiffOfEqualTables(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.csv", "id,price,rate,note\n1,52.6,0.5,x\n2,7.25,NA,\n9007199254740993,0.1,3.5,\" y \"\n")
	write(t, dir, "l.jsonl", `{"id":1,"tags":["x",null,"y"],"w":[1.5,2.0],"r":NaN}`+"\n"+`{"id":2,"tags":[],"w":[3.5],"r":0.5}`+"\n"+`{"id":3,"tags":null,"w":[0.1,0.2,0.3]}`+"\n")
	write(t, dir, "h.jsonl", `{"id":1,"h":null,"u":null}`+"\n"+`{"id":2,"h":[{"k":1},{"k":3}],"u":{"v":[]}}`+"\n"+`{"id":3,"h":[],"u":{"v":[4,5]}}`+"\n")
	fatal.If(t, os.Mkdir(filepath.Join(dir, "parts"), 0o755))
	write(t, dir, "parts/0.csv", "id,price,rate,note\n1,52.6,0.5,x\n")
	write(t, dir, "parts/1.csv", "id,price,rate,note\n2,7.25,,\n9007199254740993,0.1,3.5,\" y \"\n")
	write(t, dir, "order.csv", "price,note,id,rate\n52.6,x,1,0.5\n7.25,,2,\n0.1,\" y \",9007199254740993,3.5\n")
	late := strings.Repeat("{\"id\":1}\n", 20000) + `{"id":1,"late":7}` + "\n"
	write(t, dir, "late.jsonl", late)
	for _, pair := range [][2]string{
		{"a.csv", "a.parquet"}, {"a.csv", "a.tfrecord.gz"}, {"a.csv", "a.jsonl"}, {"l.jsonl", "l.csv"}, {"a.csv", "parts"}, {"a.csv", "order.csv"},
		{"l.jsonl", "l.parquet"}, {"l.jsonl", "l.jsonl.zst"}, {"h.jsonl", "h.parquet"}, {"late.jsonl", "late.csv"}, {"late.jsonl", "late.parquet"},
	} {
		a, b := pair[0], pair[1]
		if _, err := os.Stat(filepath.Join(dir, b)); err != nil {
			must(t, dir, "data convert -out "+b+" "+a)
		}
		for _, x := range [][2]string{{a, b}, {b, a}} {
			if d := diffOf(t, dir, x[0], x[1], 0); d.Compared < 3 || d.A.Records != d.Compared || d.B.Records != d.Compared || len(d.Differing) > 0 || d.Fields < 2 {
				t.Errorf("%v: %+v", x, d)
			}
		}
	}
	if o := must(t, dir, "data diff a.csv a.parquet"); o.stdout != "a.csv      csv      3 records  4 fields\na.parquet  parquet  3 records  4 fields\n"+
		"equal only by rule  missing in two forms  a|b for a list\nrate                1                     0\nthey are equal\n" {
		t.Error(o.stdout)
	}
	write(t, dir, "other.jsonl", strings.Replace(late, "7", "8", 1))
	want := []diffed{{"late", 1, 1. / 20001, 0, 20001, []any{"7"}, []any{"8"}}}
	if d := diffOf(t, dir, "late.jsonl", "other.jsonl", 1); !reflect.DeepEqual(d.Differing, want) {
		t.Errorf("late field: %+v", d)
	}
}

// TestDiffOfInfinities: infinities are numbers, also in a column in which training takes them as missing.
func TestDiffOfInfinities(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, word := range map[string]string{"a.csv": "inf", "b.csv": "-inf", "c.csv": ""} {
		text := "id,r\n"
		for i := range 300 {
			r := fmt.Sprint(float64(i)*.37 + .01)
			if i%10 == 0 {
				r = word
			}
			text += fmt.Sprintf("%d,%s\n", i, r)
		}
		write(t, dir, name, text)
	}
	for _, other := range []string{"b.csv", "c.csv"} {
		if d := diffOf(t, dir, "a.csv", other, 1); len(d.Differing) != 1 || d.Differing[0].Records != 30 {
			t.Errorf("%s: %+v", other, d.Differing)
		}
	}
	must(t, dir, "data convert -out a.parquet a.csv")
	if d := diffOf(t, dir, "a.csv", "a.parquet", 0); len(d.Differing) > 0 {
		t.Errorf("converted: %+v", d.Differing)
	}
}

// TestDiff: each kind of difference is counted, with the first example.
func TestDiff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const a = "id,price,note\n1,2.5,x\n2,3.5,y\n3,4.5,z\n4,5.5,\n"
	write(t, dir, "a.csv", a)
	write(t, dir, "a.jsonl", `{"id":1,"tags":["x","y"],"r":NaN}`+"\n"+`{"id":2,"tags":["x",null,"y"],"r":1.5}`+"\n"+`{"id":3,"tags":["a","b"],"r":NaN}`+"\n")
	for i, x := range []struct {
		from, to string
		want     []diffed
		a, b     []string // fields of one table only
		rows     int64    // of the second table
	}{
		{a, strings.Replace(a, "3,4.5", "3,4.75", 1), []diffed{{"price", 1, .25, 0, 3, []any{"4.5"}, []any{"4.75"}}}, nil, nil, 4},
		{a, strings.ReplaceAll(a, ".5,", ".50,"), []diffed{{"price", 4, 1, 4, 1, []any{"2.5"}, []any{"2.50"}}}, nil, nil, 4},
		{a, strings.Replace(a, "2,3.5,y", "2,3.5,", 1), []diffed{{"note", 1, .25, 0, 2, []any{"y"}, []any{}}}, nil, nil, 4},
		{a, "id,note\n1,x\n2,y\n3,z\n4,\n", []diffed{}, []string{"price"}, nil, 4},
		{a, a + "5,6.5,x\n6,7.5,\n", []diffed{}, nil, nil, 6},
		{a, "id,price,note\n2,3.5,y\n", []diffed{
			{"id", 1, 1, 0, 1, []any{"1"}, []any{"2"}}, {"price", 1, 1, 0, 1, []any{"2.5"}, []any{"3.5"}}, {"note", 1, 1, 0, 1, []any{"x"}, []any{"y"}},
		}, nil, nil, 1},
		{"id\n9007199254740993\n", "id\n9007199254740992\n", []diffed{{"id", 1, 1, 0, 1, []any{"9007199254740993"}, []any{"9007199254740992"}}}, nil, nil, 1},
	} {
		one, two := fmt.Sprintf("x%d.csv", i), fmt.Sprintf("y%d.csv", i)
		write(t, dir, one, x.from)
		write(t, dir, two, x.to)
		for _, b := range []string{two, fmt.Sprintf("y%d.parquet", i)} {
			if b != two {
				if i == 1 {
					continue // 2.50 is text
				}
				must(t, dir, "data convert -out "+b+" "+two)
			}
			d := diffOf(t, dir, one, b, 1)
			if !reflect.DeepEqual(d.Differing, x.want) || strings.Join(d.A.Only, ",") != strings.Join(x.a, ",") || strings.Join(d.B.Only, ",") != strings.Join(x.b, ",") || d.B.Records != x.rows {
				t.Errorf("%s, %s: %+v\nwant %+v", x.from, b, d, x)
			}
		}
	}
	for i, x := range []struct {
		from, to string
		want     diffed
	}{
		{`["x","y"]`, `["y","x"]`, diffed{"tags", 1, 1. / 3, 0, 1, []any{"x", "y"}, []any{"y", "x"}}},
		{`["x",null,"y"]`, `["x","y"]`, diffed{"tags", 1, 1. / 3, 0, 2, []any{"x", nil, "y"}, []any{"x", "y"}}},
		{`["a","b"]`, `["a","c"]`, diffed{"tags", 1, 1. / 3, 0, 3, []any{"a", "b"}, []any{"a", "c"}}},
		{`["a","b"]`, `["a,b"]`, diffed{"tags", 1, 1. / 3, 0, 3, []any{"a", "b"}, []any{"a,b"}}},
		{`"r":1.5`, `"r":NaN`, diffed{"r", 1, 1. / 3, 0, 2, []any{"1.5"}, []any{}}},
	} {
		b, err := os.ReadFile(filepath.Join(dir, "a.jsonl"))
		fatal.If(t, err)
		to := fmt.Sprintf("l%d.jsonl", i)
		write(t, dir, to, strings.Replace(string(b), x.from, x.to, 1))
		if d := diffOf(t, dir, "a.jsonl", to, 1); !reflect.DeepEqual(d.Differing, []diffed{x.want}) {
			t.Errorf("%s, %s: %+v", x.from, x.to, d)
		}
	}
	// NaN is missing, unless a configuration says otherwise.
	write(t, dir, "n.jsonl", `{"id":1,"r":NaN,"w":[0.5,NaN]}`+"\n"+`{"id":2,"r":1.5}`+"\n")
	write(t, dir, "null.csv", "id,r,w\n1,,0.5|\n2,1.5,\n")
	if d := diffOf(t, dir, "n.jsonl", "null.csv", 0); d.Compared != 2 {
		t.Errorf("NaN and missing: %+v", d)
	}
	write(t, dir, "null.jsonl", `{"id":1,"r":null,"w":[0.5,null]}`+"\n"+`{"id":2,"r":1.5}`+"\n")
	write(t, dir, "c.yaml", "data:\n  format: jsonl\n  train: [n.jsonl]\n  missing: []\nlabel: {field: r}\nfeatures: [{field: id, encode: vocabulary}]\n")
	if o := run(t, dir, "data", "diff", "-config", "c.yaml", "n.jsonl", "null.jsonl"); o.code != 1 || !strings.Contains(o.stdout, "\nr      1          50.00 %  0            1      nan            ·\nw      1          50.00 %  0            1      [\"0.5\",\"nan\"]  [\"0.5\",null]\n") {
		t.Errorf("NaN is not missing: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}

// TestDiffOutput: the table names the first of the fields and the number of others. A table that
// cannot be compared is no difference: the exit code is 2.
func TestDiffOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	same := strings.Repeat("s", 40)
	write(t, dir, "a.csv", "id,url,d,e,f\n1,"+same+"1,1,1,1\n2,u,2,2,2\n")
	write(t, dir, "b.csv", "id,url,d,g,h\n1,"+same+"2,3,1,1\n2,v,2,2,2\n3,w,3,3,3\n")
	const want = `a.csv  csv  2 records  5 fields
b.csv  csv  3 records  5 fields
fields only in a.csv: e, and 1 more
fields only in b.csv: g, and 1 more
field  differing  share     same number  first  a.csv               b.csv
url    2          100.00 %  0            1      …ssssssssssssssss1  …ssssssssssssssss2
fields that differ, and 1 more; -show 2 prints all
only in b.csv: 1 record, from record 3 on
they differ in the numbers of records, the names of fields, the values of 2 of 3 fields
`
	if o := run(t, dir, "data", "diff", "a.csv", "-show", "1", "b.csv"); o.code != 1 || o.stderr != "" || o.stdout != want {
		t.Errorf("exit code %d\n%s%s\nwant\n%s", o.code, o.stdout, o.stderr, want)
	}
	nested, err := filepath.Abs("../../internal/data/table/testdata/nested.parquet")
	fatal.If(t, err)
	if o := must(t, dir, "data diff "+nested+" "+nested); !strings.Contains(o.stdout, "they are equal in the fields that can be read\n") || !strings.Contains(o.stderr, "not read: ll is a list of lists or maps") {
		t.Errorf("%s%s", o.stdout, o.stderr)
	}
	write(t, dir, "bad.csv", "id,url,d,e,f\n1,u\n2,u,2,2,2\n3,u,2,2,2\n4,u,2,2,2\n")
	for args, want := range map[string]string{
		"a.csv":               "data diff: give two tables, not 1",
		"a.csv b.csv a.csv":   "give two tables, not 3; put a glob in quotes",
		"a.csv c.csv":         "c.csv: file does not exist",
		"a.csv bad.csv":       "data diff: bad.csv: 1 record cannot be read, so that the others have no counterpart; the first: bad.csv:2: the record has 2 fields, expected 5",
		"-nosuch a.csv b.csv": "flag provided but not defined: -nosuch",
		"-show 0 a.csv b.csv": "data diff: -show 0 must be at least 1",
	} {
		o := run(t, dir, append([]string{"data", "diff", "-json"}, strings.Fields(args)...)...)
		if o.code != 2 || !strings.Contains(o.stderr, want) || !strings.Contains(o.stdout, `"exit_code":2`) {
			t.Errorf("%s: exit code %d\n%s%s", args, o.code, o.stdout, o.stderr)
		}
	}
}
