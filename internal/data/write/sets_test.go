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

// A column that contradicts the folder of its file is an error in every format with names; equal numbers,
// dates of a type of their own and missing values do not contradict.
func TestPartitionsThatContradict(t *testing.T) {
	day := func(c write.Column) write.Column { c.Name = "dt"; return c }
	texts, dates, ints := day(write.Column{Kind: value.Text}), day(write.Column{Kind: value.Int, Time: write.Time{Type: "DATE"}}), day(write.Column{Kind: value.Int})
	for _, format := range []string{"csv", "jsonl", "tfrecord", "parquet", "arrow", "avro"} {
		for _, x := range []struct {
			folder string
			write.Column
			values []value.List
			want   string // the value in the error; "": none
		}{
			{"dt=2026-11-01", texts, []value.List{list("2026-11-01"), {}}, ""},
			{"dt=2026-11-01", texts, []value.List{{}, list("2026-11-01"), list("2026-11-02")}, "2026-11-02"},
			{"dt=2026-11-01", dates, []value.List{list("2026-11-01")}, ""},
			{"dt=2026-11-01", dates, []value.List{list("2026-12-01")}, "2026-12-01"},
			{"dt=03", ints, []value.List{list(int64(3))}, ""},
			{"dt=03", ints, []value.List{list(int64(3)), list(int64(4))}, "4"},
		} {
			if typed := format == "parquet" || format == "arrow" || format == "avro"; x.Time != (write.Time{}) && !typed {
				continue
			}
			columns, rows := []write.Column{{Name: "click", Kind: value.Int}, x.Column}, [][]value.List(nil)
			for _, v := range x.values {
				rows = append(rows, []value.List{list(int64(1)), v})
			}
			path, err := written(t.TempDir(), write.Layout{Format: format}, "none", columns, rows)
			fatal.If(t, err)
			dir := filepath.Join(t.TempDir(), x.folder)
			fatal.If(t, os.Mkdir(dir, 0o700))
			fatal.If(t, os.Rename(path, filepath.Join(dir, "part-0")))
			_, err = record.OpenFiles(schema.Source{Format: format, Header: format == "csv"}, []string{filepath.Dir(dir)})
			if want := "part-0: its column dt contains \"" + x.want + "\", but its folder is " + x.folder + ": move the file"; (err != nil) != (x.want != "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s, %v: %v, want %q", format, x.folder, x.values, err, x.want)
			}
		}
	}
}

// A file that has only a header, or columns without rows, is named with those that have nothing.
func TestFilesWithoutRows(t *testing.T) {
	columns := []write.Column{{Name: "click", Kind: value.Int}, {Name: "user", Kind: value.Text}}
	for _, format := range []string{"csv", "parquet", "arrow", "avro"} {
		dir := t.TempDir()
		for i, rows := range [][][]value.List{nil, {{list(int64(1)), list("u")}}, nil} {
			path, err := written(t.TempDir(), write.Layout{Format: format}, "none", columns, rows)
			fatal.If(t, err)
			fatal.If(t, os.Rename(path, filepath.Join(dir, string(rune('a'+i)))))
		}
		fatal.If(t, os.WriteFile(filepath.Join(dir, "d"), nil, 0o600))
		f, err := record.OpenFiles(schema.Source{Format: format, Header: format == "csv"}, []string{dir})
		fatal.If(t, err)
		if got := strings.ReplaceAll(strings.Join(f.Empty(), " "), dir+"/", ""); got != "d a c" || len(f.Names()) != 3 {
			t.Errorf("%s: %q of %q have no records, want d, a and c", format, got, f.Names())
		}
	}
}
