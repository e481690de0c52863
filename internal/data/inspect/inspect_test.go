package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/signal"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
)

func TestInspect(t *testing.T) {
	files := map[string]string{
		"people.csv":    datatest.People,
		"noheader.tsv":  "1\ta\t0.5\n0\tb\t\\N\n1\tc\t2\n",
		"semicolon.csv": "# made by hand\nname;clicked;n\nx, y;yes;1\nz;no;NA\nw;no;3\n",
		"strings.csv":   "city,outcome\nBern,low\nBasel,high\nZug,low\n",
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
			fatal.If(t, os.WriteFile(path, []byte(content), 0o644))
		}
		show(&out, name, path, dir)
	}
	show(&out, "adult", "builtin:adult.test", dir)
	golden.Check(t, "inspect.txt", out.String())
}

// exampleFrame returns a TFRecord of one feature with one string.
func exampleFrame(name, text string) string {
	lists := []value.List{{Kind: value.Text, Texts: [][]byte{[]byte(text)}}}
	return string(tfrecord.AppendFrame(nil, tfrecord.AppendExample(nil, []string{name}, lists)))
}

func show(out *strings.Builder, name, path, dir string) {
	in, err := First(path, 0)
	if err != nil {
		fmt.Fprintf(out, "%s\n\t%s\n", name, strings.ReplaceAll(err.Error(), dir, "DIR"))
		return
	}
	fmt.Fprintf(out, "%s: %s %q header %v comment %q, %d rows, %d ragged, missing %q, label %s %q\n",
		name, in.Format, in.Delimiter, in.Header, in.Comment, in.Rows, in.Ragged, in.Missing, in.Label, in.Positive)
	for _, c := range in.Columns {
		c.Signal = signal.Signal{} // see TestMeasure
		b, _ := json.Marshal(c)
		fmt.Fprintf(out, "\t%s\n", b)
	}
}

func FuzzInspect(f *testing.F) {
	f.Add(datatest.People)
	f.Add("a;b\n\"\n;")
	f.Fuzz(func(t *testing.T, content string) {
		if len(content) > 1<<16 {
			t.Skip()
		}
		path := filepath.Join(t.TempDir(), "f.csv")
		fatal.If(t, os.WriteFile(path, []byte(content), 0o644))
		in, err := First(path, 100)
		if err == nil && (in.Rows == 0 || len(in.Columns) == 0 || in.Label == "" && in.Columns[len(in.Columns)-1].Name != "") {
			t.Fatalf("%+v", in)
		}
	})
}

// TestAllRecordsBad: if no record is usable, the first flaw is reported.
func TestAllRecordsBad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.jsonl")
	fatal.If(t, os.WriteFile(path, []byte(`{"y":1,"a":1e999}`+"\n"), 0o644))
	s := schema.Schema{Label: schema.Label{Field: "y", Positive: []string{"1"}}, Features: []schema.Feature{{Name: "a", Field: "a", Encode: "standardise"}}}
	d, err := data.Open(schema.Source{Format: "jsonl", MaxBad: 1}, s, []string{path})
	fatal.If(t, err)
	n, err := d.Scan(t.Context(), 0, 1, nil, nil)
	fatal.If(t, err)
	if err := d.Use(n); !errors.Is(err, data.ErrNoRecords) || !strings.Contains(err.Error(), "none of the 1 records can be used; the first: "+path+":1: 1e999") {
		t.Error(err)
	}
}

// TestInspectRejectsProse: text and YAML, whose lines have no common number of fields, are
// not records separated by blanks or colons. A few faulty lines are left out.
func TestInspectRejectsProse(t *testing.T) {
	for name, want := range map[string]string{
		"../../config/adult.yaml": "lines have the most frequent number of fields",
		"inspect.go":              "lines have the most frequent number of fields",
	} {
		if _, err := First(name, 0); err == nil || !strings.HasPrefix(err.Error(), name+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	path := filepath.Join(t.TempDir(), "blanks.txt")
	text := strings.Repeat("1 2 c\n", 18) + strings.Repeat("1 2\n", 2)
	fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
	if in, err := First(path, 0); err != nil || in.Rows != 18 || in.Ragged != 2 {
		t.Error(in, err)
	}
}

// TestInspectLooksAllOver: values that begin late in a file are seen, unless it is packed;
// a small file is read completely.
func TestInspectLooksAllOver(t *testing.T) {
	write := func(name string, rows int, record func(i int) string) string {
		var b strings.Builder
		for i := range rows {
			b.WriteString(record(i))
		}
		path := filepath.Join(t.TempDir(), name)
		fatal.If(t, os.WriteFile(path, []byte(b.String()), 0o666))
		return path
	}
	const rows = 60_000
	objects := func(i int) string {
		if i < rows*2/3 {
			return `{"label": 1, "n": 7, "text": "aaaaaaaaaaaaaaa"}` + "\n"
		}
		return `{"label": 0, "n": 7.5, "text": "aaaaaaaaaaaaa", "late": 3}` + "\n"
	}
	lines := func(i int) string {
		if i < rows*2/3 {
			return "1,7,aaaaaaaaaaaaaaa,\n"
		}
		return "0,7.5,aaaaaaaaaaaaa,3\n"
	}
	pairs := func(i int) string {
		if i < rows*2/3 {
			return "1 1:7 2:5.5\n"
		}
		return "0 1:7.5 2:3 9:3\n"
	}
	for name, record := range map[string]func(int) string{"a.jsonl": objects, "a.csv": lines, "a.libsvm": pairs} {
		in, err := First(write(name, rows, record), 1000)
		if err != nil || in.Rows != 1000 {
			t.Fatalf("%s: %+v, %v", name, in, err)
		}
		last := in.Columns[len(in.Columns)-1]
		if in.Columns[0].Distinct != 2 || in.Columns[1].Kind != "float" || last.Distinct != 1 || last.Missing < .5 || last.Missing > .99 {
			t.Errorf("%s: what comes late was not seen: %+v", name, in.Columns)
		}
		if in.Records < rows*3/4 || in.Records > rows*3/2 {
			t.Errorf("%s: %d records estimated, of %d", name, in.Records, rows)
		}
		if in, err := First(write(name, 9_990, record), 0); err != nil || in.Rows != 9_990 {
			t.Errorf("%s: %d rows of a small file, %v", name, in.Rows, err)
		}
	}
}

// TestInspectAll: all of several files are read, or 16 from the first to the last, and
// features of later ones are seen.
func TestInspectAll(t *testing.T) {
	datatest.EveryFormat(t, func(t *testing.T, format, packing string) {
		var parts [][]byte
		for i := range 20 {
			parts = append(parts, datatest.Pack(t, packing, datatest.Numbered(t, format, 100*i, 100*i+100)))
		}
		dir := datatest.Files(t, packing, parts...)
		for _, x := range []struct{ rows, want, names int }{{0, 1600, 16}, {200, 200, 16}} {
			in, err := All([]string{dir}, x.rows)
			fatal.If(t, err)
			if in.Rows != x.want || len(in.Names) != x.names || in.Files != 20 || in.All || !strings.HasSuffix(in.Names[15], "part-19"+packing) {
				t.Errorf("%d rows of %d, all %v: %q", in.Rows, in.Files, in.All, in.Names)
			}
			for _, c := range in.Columns {
				if strings.Trim(c.Name, "column_") == "1" && c.Max < 1900 && format != "libsvm" && format != "libffm" {
					t.Errorf("the last file was not looked at: %+v", c)
				}
			}
		}
		if in, err := All([]string{dir + "/part-0*"}, 0); err != nil || !in.All || in.Rows != 1000 || in.Files != 10 {
			t.Errorf("of ten files: %+v, %v", in, err)
		}
	})
}

// TestInspectAllOfSeveral: headers and comments begin each file, fields may occur only in
// a later one, and files of other kinds are rejected by name.
func TestInspectAllOfSeveral(t *testing.T) {
	objects := strings.Repeat(`{"label": 1, "n": 7}`+"\n"+`{"label": 0, "n": 8}`+"\n", 10)
	for name, x := range map[string]struct {
		files []string
		want  string // columns, or an error
		rows  int
	}{
		"header":   {[]string{"site,label\na,1\nb,0\n", "site,label\na,1\n"}, "site label", 3},
		"none":     {[]string{"1,a\n0,b\n", "1,a\n"}, "column_1 column_2", 3},
		"comment":  {[]string{"1,a\n0,b\n", "|1x3\n1,a\n"}, "column_1 column_2", 3},
		"late":     {[]string{objects, objects + `{"label": 1, "rare": 7}` + "\n"}, "label n rare", 41},
		"order":    {[]string{"site,label\na,1\nb,0\n", "label,site\n1,a\n"}, "site label", 3},
		"absent":   {[]string{"site,label\na,1\nb,0\n", "os,label\nios,1\n"}, "site label os", 3},
		"records":  {[]string{"a,b,yes\nc,d,no\na,d,no\n", "a,b,no\n"}, "column_1 column_2 column_3", 4},
		"headers":  {[]string{"site,label\na,1\nb,0\n", "x,y\n1,a\n"}, "part-01: its header differs from the header of", 0},
		"formats":  {[]string{objects, "PAR1 and so on"}, "part-01 like parquet; name files of one format", 0},
		"texts":    {[]string{"1,2\n3,4\n", objects}, "part-01 like jsonl", 0},
		"foreign":  {[]string{objects, "read me first\n"}, "part-01: none of its first lines is a JSON object", 0},
		"numbers":  {[]string{"1 1:0.5\n0 2:0.5\n", "read me first\n"}, "part-01: none of the records read can be used", 0},
		"foreign2": {[]string{"site,label\na,1\nb,0\n", "read me first\n"}, "part-01: none of the lines read has 2 fields", 0},
	} {
		var parts [][]byte
		for _, f := range x.files {
			parts = append(parts, []byte(f))
		}
		dir := datatest.Files(t, "", parts...)
		fatal.If(t, os.WriteFile(filepath.Join(dir, "_SUCCESS"), []byte("x"), 0o666))
		in, err := All([]string{dir}, 0)
		if x.rows == 0 {
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%s: %v, want %s", name, err, x.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, c := range in.Columns {
			got = append(got, c.Name)
		}
		if strings.Join(got, " ") != x.want || in.Rows != x.rows || !in.All || (name == "comment") != (in.Comment == "|") {
			t.Errorf("%s: %+v; want %s, %d rows", name, in, x.want, x.rows)
		}
	}
}

// TestStrays: a few strings in a numeric column are reported with the line of the first
// and proposed as missing; a column of identifiers, or of more strings, keeps them.
func TestStrays(t *testing.T) {
	column := func(of func(i int) string) string {
		return tableOf("x,clicked\n", 300, func(i int) string { return fmt.Sprintf("%s,%d", of(i), i%2) })
	}
	sometimes := func(at func(i int) bool, text string) string {
		return column(func(i int) string {
			if at(i) {
				return text
			}
			return fmt.Sprintf("%d.5", i)
		})
	}
	for name, x := range map[string]struct{ content, kind, missing, note string }{
		"one":         {sometimes(func(i int) bool { return i == 150 }, "n.a."), "float", "n.a.", `:152: column x holds "n.a." among 299 numbers`},
		"infinities":  {sometimes(func(i int) bool { return i%3 == 1 }, "-Infinity"), "float", "-Infinity", `:3: column x holds "-Infinity" among 200 numbers`},
		"many":        {sometimes(func(i int) bool { return i%10 == 1 }, "n.a."), "string", "", ""},
		"identifiers": {strings.Replace(strings.Replace(column(func(i int) string { return fmt.Sprint(i) }), "x,", "user_id,", 1), "\n7,", "\nadmin,", 1), "string", "", ""},
		"usual word":  {sometimes(func(i int) bool { return i == 150 }, "NA"), "float", "NA", ""},
	} {
		in, err := First(datatest.Write(t, "x.csv", x.content), 0)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		notes := strings.Join(in.Notes, "; ")
		if c := in.Columns[0]; c.Kind != x.kind || strings.Join(in.Missing, " ") != x.missing || !strings.Contains(notes, x.note) || x.note == "" && notes != "" {
			t.Errorf("%s: kind %s, missing %q, notes %q; want %s, %q, %q", name, c.Kind, in.Missing, notes, x.kind, x.missing, x.note)
		}
	}
}

// TestSampleOfLists: records with lists are written as JSON lines, without the lists that are missing, and
// others as CSV.
func TestSampleOfLists(t *testing.T) {
	for content, want := range map[string]string{
		`{"y":0,"a":"x","l":["p","q"]}` + "\n" + `{"y":1,"a":null,"l":null}` + "\n" + `{"y":1,"a":"z","l":["p"]}` + "\n": `{"a":"x","l":["p","q"],"y":"0"}` + "\n" + `{"l":[],"y":"1"}` + "\n" + `{"a":"z","l":["p"],"y":"1"}` + "\n",
		`{"y":0,"a":"x"}` + "\n" + `{"y":1,"a":"u,v"}` + "\n":                                                            "y,a\n0,x\n1,\"u,v\"\n",
	} {
		in, err := First(datatest.Write(t, "x.jsonl", content), 0)
		fatal.If(t, err)
		if b, format := in.Sample(); string(b) != want {
			t.Errorf("%s: %s, want %s", format, b, want)
		}
	}
}
