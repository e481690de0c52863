package write_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/data/write"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// list returns a list of one value.
func list(x any) (l value.List) {
	switch x := x.(type) {
	case int64:
		l.Begin(value.Int)
		l.Ints = append(l.Ints, x)
	case string:
		l.SetText([]byte(x))
	}
	return l
}

// A column that only some files of a set have is missing in the others, whichever file is first, and one
// line names it. Columns are found by name, whatever their order and their type in the other file.
func TestColumnsOfSomeFiles(t *testing.T) {
	for _, format := range []string{"parquet", "arrow", "avro"} {
		older := []write.Column{{Name: "click", Kind: value.Int}, {Name: "user", Kind: value.Text}, {Name: "day", Kind: value.Text}}
		newer := []write.Column{{Name: "os", Kind: value.Text}, {Name: "day", Kind: value.Int, Time: write.Time{Type: "DATE"}}, {Name: "user", Kind: value.Int}, {Name: "click", Kind: value.Int}}
		dir := t.TempDir()
		for name, x := range map[string]struct {
			columns []write.Column
			rows    [][]value.List
		}{
			"older": {older, [][]value.List{{list(int64(1)), list("7"), list("2026-11-29")}, {list(int64(0)), list("u2"), {}}}},
			"newer": {newer, [][]value.List{{list("ios"), list("2026-11-30"), list(int64(7)), list(int64(1))}}},
		} {
			path, err := written(t.TempDir(), write.Layout{Format: format}, "none", x.columns, x.rows)
			fatal.If(t, err)
			fatal.If(t, os.Rename(path, filepath.Join(dir, name+"."+format)))
		}
		for _, first := range []string{"older", "newer"} {
			paths := []string{filepath.Join(dir, "older."+format), filepath.Join(dir, "newer."+format)}
			if first == "newer" {
				slices.Reverse(paths)
			}
			f, err := record.OpenFiles(schema.Source{Format: format}, paths)
			fatal.If(t, err)
			const missing = "column os is not in 1 of 2 files, such as "
			if p := f.Partial(); len(p) != 1 || !strings.HasPrefix(p[0], missing+filepath.Join(dir, "older."+format)) {
				t.Errorf("%s, first %s: %q", format, first, p)
			}
			var rows []string
			_, err = f.Walk(t.Context(), []string{"click", "user", "day", "os"}, 1, func(l []value.List) error {
				rows = append(rows, strings.ReplaceAll(texts(l), "\x1f", "·"))
				return nil
			}, nil)
			fatal.If(t, err)
			slices.Sort(rows)
			if got := strings.Join(rows, " "); got != "0·u2··· 1·7·2026-11-29·· 1·7·2026-11-30·ios·" {
				t.Errorf("%s, first %s: %s", format, first, got)
			}
		}
	}
}
