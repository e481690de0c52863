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
