package data

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// writeTable writes a table to a file.
func writeTable[T any](t *testing.T, path string, rows []T) {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, w.Close())
	fatal.If(t, os.WriteFile(path, b.Bytes(), 0o600))
}

// A column that only some files have is missing in the others, whichever file is first; a
// column that no file has is an error. Columns are found by name.
func TestColumnOfSomeFiles(t *testing.T) {
	type before struct {
		Click int32  `parquet:"click"`
		User  string `parquet:"user"`
	}
	type after struct {
		OS    string `parquet:"os"`
		User  string `parquet:"user"`
		Click int32  `parquet:"click"`
	}
	dir := t.TempDir()
	old, recent := filepath.Join(dir, "old.parquet"), filepath.Join(dir, "recent.parquet")
	writeTable(t, old, []before{{1, "u1"}, {0, "u2"}})
	writeTable(t, recent, []after{{"ios", "u3", 1}})
	src := schema.Source{Format: "parquet"}
	const missing = "column os is not in 1 of 2 files, such as "
	for _, paths := range [][]string{{old, recent}, {recent, old}} {
		files, err := record.OpenFiles(src, paths)
		fatal.If(t, err)
		var rows []string
		_, err = files.Walk(t.Context(), []string{"click", "user", "os"}, 1, func(l []value.List) error {
			row := ""
			for i := range l {
				if row += "·"; l[i].Len() > 0 {
					row += string(l[i].Append(nil, 0))
				}
			}
			rows = append(rows, row)
			return nil
		}, nil)
		fatal.If(t, err)
		if got := strings.Join(rows, " "); got != "·1·u1· ·0·u2· ·1·u3·ios" && got != "·1·u3·ios ·1·u1· ·0·u2·" {
			t.Errorf("%v: %s", paths, got)
		}
		s := schema.Schema{Label: schema.Label{Field: "click"}, Features: []schema.Feature{{Field: "user", Encode: "hash"}, {Field: "os", Encode: "hash"}}}
		d, err := Open(src, s, paths)
		fatal.If(t, err)
		for _, partial := range [][]string{Partial(d), files.Partial()} {
			if len(partial) != 1 || !strings.HasPrefix(partial[0], missing+old) {
				t.Errorf("%v: %q, want %s", paths, partial, missing)
			}
		}
		s.Features[1].Field = "nowhere"
		if _, err := Open(src, s, paths); err == nil || !strings.Contains(err.Error(), "nowhere") {
			t.Errorf("%v: a feature of a column that no file has: %v", paths, err)
		}
	}
	again := filepath.Join(dir, "again.parquet")
	writeTable(t, again, []before{{1, "u4"}})
	same, err := record.OpenFiles(src, []string{old, again})
	fatal.If(t, err)
	if p := fmt.Sprint(same.Partial()); p != "[]" {
		t.Errorf("files of the same columns: %s", p)
	}
}

// Columns of CSV and TSV are found by the names in the header of each file, with their quotes, escapes
// and line breaks, next to the fields of folders. Faults state the width of their own file.
func TestHeadersOfOtherOrder(t *testing.T) {
	for name, x := range map[string]struct {
		src   schema.Source
		files []string
		want  string
		fault string
	}{
		"csv": {schema.Source{Header: true}, []string{
			"click,user,os\n1,u1,ios\n",
			"os,user,click\n \"a,b\" , \"say \"\"x\"\"\",0\n,u3,1\nios,u4\nx,\"open,1\n",
			"user,age,click\nu5,7,0\n",
		}, `1·u1·ios· 0·say "x"·a,b· 1·u3·· 0·u5··7`, "the record has 2 fields, expected 3"},
		"tsv": {schema.Source{Format: "tsv", Header: true, Escape: "all"}, []string{
			"click\tuser\tos\n1\tu1\tios\n", "user\tclick\nu\\\t2\t0\nu3\n"}, "1·u1·ios 0·u\t2·", "the record has 1 field, expected 2"},
		"lines": {schema.Source{Header: true, Multiline: true}, []string{
			"click,user,os\n1,u1,ios\n", "user,click\n\"u\n2\",0\nu3\n"}, "1·u1·ios 0·u\n2·", "the record has 1 field, expected 2"},
		"folders": {schema.Source{Header: true}, []string{
			"click,user\n1,u1\n", "user,os,click\nu2,ios,0\nu3,1\n"}, "1·u1·d0· 0·u2·d1·ios", "the record has 2 fields, expected 3"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, paths := t.TempDir(), []string(nil)
			for i, text := range x.files {
				path := filepath.Join(dir, fmt.Sprintf("part-%d.csv", i))
				if name == "folders" {
					path = filepath.Join(dir, fmt.Sprintf("dt=d%d", i), "part.csv")
					fatal.If(t, os.Mkdir(filepath.Dir(path), 0o700))
				}
				fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
				paths = append(paths, path)
			}
			files, err := record.OpenFiles(x.src, paths)
			fatal.If(t, err)
			var rows []string
			w, err := files.Walk(t.Context(), files.Fields(), 3, func(l []value.List) error {
				row := make([]string, len(l))
				for i := range l {
					row[i] = string(l[i].Append(nil, 0))
				}
				rows = append(rows, strings.Join(row, "·"))
				return nil
			}, nil)
			fatal.If(t, err)
			if got := strings.Join(rows, " "); got != x.want {
				t.Errorf("%q, want %q", got, x.want)
			}
			if w.Bad == 0 || w.Faults[0].Want != x.fault {
				t.Errorf("%d bad, %+v; want %s", w.Bad, w.Faults, x.fault)
			}
			s := schema.Schema{Label: schema.Label{Field: "click"}, Features: []schema.Feature{{Field: "user", Encode: "hash"}, {Field: "os", Encode: "hash"}}}
			d, err := Open(x.src, s, paths)
			fatal.If(t, err)
			if p := Partial(d); len(p) != 1 || !strings.HasPrefix(p[0], "column os is not in 1 of") {
				t.Errorf("%q", p)
			}
		})
	}
}
