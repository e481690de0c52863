package write_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/data/write"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// suffixes of files that are packed.
var suffixes = map[string]string{"none": "", "gzip": ".gz", "zstd": ".zst", "snappy": ".sz"}

// written writes a file of records.
func written(dir string, l write.Layout, packing string, columns []write.Column, records [][]value.List) (string, error) {
	path := filepath.Join(dir, "records."+l.Format+suffixes[packing])
	var b bytes.Buffer
	z, err := write.Pack(&b, packing)
	if err != nil {
		return "", err
	}
	w, err := write.New(z, l, columns)
	if err != nil {
		return "", err
	}
	for _, r := range records {
		if err := w.Write(r); err != nil {
			return "", err
		}
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, b.Bytes(), 0o644)
}

// read returns each record as text: fields between |, values between commas.
func read(path string, src schema.Source, names []string) (all []string, err error) {
	f, err := record.OpenFiles(src, []string{path})
	if err != nil {
		return nil, err
	}
	w, err := f.Walk(context.Background(), names, 1, func(lists []value.List) error {
		all = append(all, texts(lists))
		return nil
	}, nil)
	if err == nil && w.Bad > 0 {
		err = &w.Faults[0]
	}
	return all, err
}

func texts(lists []value.List) string {
	var b []byte
	for i := range lists {
		for j := range lists[i].Len() {
			b = append(lists[i].Append(b, j), 0x1e)
		}
		b = append(bytes.TrimRight(b, "\x1e"), 0x1f)
	}
	return string(b)
}

// joined returns records as lines represent them: lists become one string.
func joined(columns []write.Column, records [][]value.List) (all []string) {
	for _, r := range records {
		var b []byte
		for i := range r {
			for j := range r[i].Len() {
				if j > 0 {
					b = append(b, write.Separator)
				}
				b = r[i].Append(b, j)
			}
			b = append(b, 0x1f)
		}
		all = append(all, string(b))
	}
	return all
}

func drawKind(t *rapid.T, numbers bool) value.Kind {
	kinds := []value.Kind{value.Int, value.Float32, value.Float64}
	if !numbers {
		kinds = append(kinds, value.Text)
	}
	return rapid.SampledFrom(kinds).Draw(t, "kind")
}

// drawList draws the values of a field.
func drawList(t *rapid.T, c write.Column, text *rapid.Generator[string]) (l value.List) {
	n := rapid.IntRange(0, 1).Draw(t, "values")
	if c.Many {
		n = rapid.IntRange(0, 4).Draw(t, "values")
	}
	for range n {
		l.Begin(c.Kind)
		switch c.Kind {
		case value.Int:
			l.Ints = append(l.Ints, rapid.Int64().Draw(t, "int"))
		case value.Float32:
			l.Reals = append(l.Reals, float64(rapid.Float32Range(-1e30, 1e30).Draw(t, "float")))
		case value.Float64:
			l.Reals = append(l.Reals, rapid.Float64Range(-1e30, 1e30).Draw(t, "double"))
		default:
			l.Texts = append(l.Texts, []byte(text.Draw(t, "text")))
		}
	}
	return l
}

func drawTable(t *rapid.T, numbers, lists bool, text *rapid.Generator[string]) (columns []write.Column, records [][]value.List) {
	for i := range rapid.IntRange(2, 5).Draw(t, "columns") {
		columns = append(columns, write.Column{
			Name: fmt.Sprintf("c%d", 9-i), // not in alphabetical order
			Kind: drawKind(t, numbers), Many: lists && i > 0 && rapid.Bool().Draw(t, "many"),
		})
	}
	for range rapid.IntRange(1, 20).Draw(t, "records") {
		var r []value.List
		for _, c := range columns {
			r = append(r, drawList(t, c, text))
		}
		records = append(records, r)
	}
	return columns, records
}

func names(columns []write.Column) (all []string) {
	for _, c := range columns {
		all = append(all, c.Name)
	}
	return all
}

func drawPacking(t *rapid.T) string { return rapid.SampledFrom(write.Packings()).Draw(t, "packing") }

// TestTypedFormatsGiveBackWhatWasWritten: typed formats hold any string.
func TestTypedFormatsGiveBackWhatWasWritten(t *testing.T) {
	for _, format := range []string{"tfrecord", "parquet", "jsonl", "arrow", "avro"} {
		t.Run(format, func(t *testing.T) {
			dir := t.TempDir()
			rapid.Check(t, func(t *rapid.T) {
				columns, records := drawTable(t, false, true, rapid.StringN(1, 20, -1))
				l, packing := write.Layout{Format: format, Codec: drawPacking(t)}, "none"
				if format == "arrow" {
					l.Codec = rapid.SampledFrom([]string{"", "zstd", "none"}).Draw(t, "codec")
				}
				if format == "tfrecord" {
					packing = drawPacking(t)
					for i := range columns {
						if columns[i].Kind == value.Float64 {
							columns[i].Kind = value.Float32 // the only one of the format
						}
					}
					narrow(records)
					ensure(columns, records)
				}
				path, err := written(dir, l, packing, columns, records)
				fatal.If(t, err)
				got, err := read(path, schema.Source{Format: format}, names(columns))
				fatal.If(t, err)
				for i, r := range records {
					if want := texts(r); i >= len(got) || got[i] != want {
						t.Fatalf("record %d of %q, want %q", i, got, want)
					}
				}
				if len(got) != len(records) {
					t.Fatalf("%d records of %d", len(got), len(records))
				}
			})
		})
	}
}

// narrow rounds numbers to the precision of a tf.Example.
func narrow(records [][]value.List) {
	for _, r := range records {
		for i := range r {
			if r[i].Kind == value.Float64 {
				r[i].Kind = value.Float32
				for j, x := range r[i].Reals {
					r[i].Reals[j] = float64(float32(x))
				}
			}
		}
	}
}

// ensure sets a value in every column of the first record: a feature that no record has is
// not a field.
func ensure(columns []write.Column, records [][]value.List) {
	for i, c := range columns {
		records[0][i] = value.List{Kind: c.Kind, Ints: []int64{1}, Reals: []float64{1}, Texts: [][]byte{[]byte("x")}}
	}
}

// TestLinesGiveBackWhatWasWritten: csv holds any string without a line break.
func TestLinesGiveBackWhatWasWritten(t *testing.T) {
	anything := rapid.StringOfN(rapid.SampledFrom([]rune("ab ,;\"\t|\r#é0")), 1, 12, -1)
	plain := rapid.StringOfN(rapid.SampledFrom([]rune("ab\",;#é0")), 1, 12, -1)
	for _, tc := range []struct {
		format string
		text   *rapid.Generator[string]
		lists  bool
	}{{"csv", anything, false}, {"csv", plain, true}, {"tsv", plain, true}} {
		t.Run(fmt.Sprint(tc.format, tc.lists), func(t *testing.T) {
			dir := t.TempDir()
			rapid.Check(t, func(t *rapid.T) {
				columns, records := drawTable(t, false, tc.lists, tc.text)
				path, err := written(dir, write.Layout{Format: tc.format}, drawPacking(t), columns, records)
				fatal.If(t, err)
				got, err := read(path, schema.Source{Format: tc.format, Header: true}, names(columns))
				fatal.If(t, err)
				if want := joined(columns, records); !slices.Equal(got, want) {
					t.Fatalf("%q, want %q", got, want)
				}
			})
		})
	}
}

// TestPairsGiveBackWhatWasWritten: the index is the number of the column, and 1.0 is
// written 1.
func TestPairsGiveBackWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		columns, records := drawTable(t, true, false, nil)
		columns[0].Name = "label"
		fields := []string{"label"}
		for i := range columns[1:] {
			fields = append(fields, fmt.Sprint(i+1))
		}
		for _, r := range records {
			if columns[0].Kind = value.Int; true {
				r[0] = value.List{Kind: value.Int, Ints: []int64{rapid.Int64Range(-1, 1).Draw(t, "label")}}
			}
			for i := range r[1:] {
				asDouble(&r[i+1])
			}
		}
		for i := range columns[1:] {
			columns[i+1].Kind = value.Float64
		}
		path, err := written(dir, write.Layout{Format: "libsvm"}, drawPacking(t), columns, records)
		fatal.If(t, err)
		got, err := read(path, schema.Source{Format: "libsvm"}, fields)
		fatal.If(t, err)
		want := joined(columns, records)
		for i := range want {
			want[i] = strings.ReplaceAll(want[i], ".0\x1f", "\x1f")
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}

// asDouble converts a list to float64s.
func asDouble(l *value.List) {
	if l.Kind == value.Int {
		for _, n := range l.Ints {
			l.Reals = append(l.Reals, float64(n))
		}
	}
	if l.Kind != value.None {
		l.Kind = value.Float64
	}
}

func TestSVMTwice(t *testing.T) {
	const text = "1 7:1 3:0.5\n-1 qid:4 2:-1.25\n0\n"
	dir := t.TempDir()
	path := filepath.Join(dir, "a.libsvm")
	fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
	var b bytes.Buffer
	w, err := write.New(&b, write.Layout{Format: "libsvm"}, []write.Column{
		{Name: "label", Kind: value.Int}, {Name: "features", Kind: value.Int, Many: true}, {Name: "values", Kind: value.Float64, Many: true}})
	fatal.If(t, err)
	f, err := record.OpenFiles(schema.Source{Format: "libsvm"}, []string{path})
	fatal.If(t, err)
	if _, err := f.Walk(t.Context(), f.Fields(), 0, w.Write, nil); err != nil {
		t.Fatal(err)
	}
	if want := "1 3:0.5 7:1\n-1 2:-1.25\n0\n"; b.String() != want { // ascending
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestFFM(t *testing.T) {
	dir := t.TempDir()
	columns := []write.Column{{Name: "label", Kind: value.Int}, {Name: "user", Kind: value.Int}, {Name: "price", Kind: value.Float64}, {Name: "tags", Kind: value.Int, Many: true}}
	path, err := written(dir, write.Layout{Format: "libffm"}, "none", columns, [][]value.List{{
		{Kind: value.Int, Ints: []int64{1}}, {Kind: value.Int, Ints: []int64{7}}, {Kind: value.Float64, Reals: []float64{2.5}}, {Kind: value.Int, Ints: []int64{8, 9}},
	}})
	fatal.If(t, err)
	b, err := os.ReadFile(path)
	if want := "1 1:7:1 2:0:2.5 3:8:1 3:9:1\n"; err != nil || string(b) != want {
		t.Fatalf("%q, %v, want %q", b, err, want)
	}
	got, err := read(path, schema.Source{Format: "libffm"}, []string{"label", "1", "2_values", "3"})
	if want := "1\x1f7\x1f2.5\x1f8\x1e9\x1f"; err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("%q, %v", got, err)
	}
}

func text(s ...string) (l value.List) {
	l.Kind = value.Text
	for _, x := range s {
		l.Texts = append(l.Texts, []byte(x))
	}
	return l
}

// TestWhatAFormatCannotHold: such values are rejected with the name of the column, never
// changed.
func TestWhatAFormatCannotHold(t *testing.T) {
	one := func(name string, kind value.Kind, many bool) []write.Column {
		return []write.Column{{Name: "label", Kind: value.Text}, {Name: name, Kind: kind, Many: many}}
	}
	for _, tc := range []struct {
		format  string
		columns []write.Column
		record  []value.List
		want    string
	}{
		{"tsv", one("city", value.Text, false), []value.List{text("1"), text("a\nb")}, "record 1: column city: it holds a line break"},
		{"csv", one("tags", value.Text, true), []value.List{text("1"), text("a", "b|c")}, "column tags: it is a list"},
		{"tsv", one("city", value.Text, false), []value.List{text("1"), text("a\tb")}, "column city"},
		{"tsv", one("city", value.Text, false), []value.List{text("1"), text(" a")}, "column city"},
		{"tsv", []write.Column{{Name: "only", Kind: value.Text}}, []value.List{{}}, "blank line"},
		{"csv", one("city", value.Text, false), []value.List{text("1"), text("a", "b")}, "2 values"},
		{"csv", one("city", value.Text, false), []value.List{text("1"), text(strings.Repeat("x", 1<<20))}, "at most 1048576"},
		{"parquet", one("n", value.Int, false), []value.List{text("1"), text("x")}, `column n: it holds "x", which is not an integer`},
		{"tfrecord", one("n", value.Float64, false), []value.List{text("1"), text("x")}, "not a number"},
		{"libsvm", one("city", value.Text, false), nil, "column city has strings"},
		{"libsvm", one("tags", value.Int, true), nil, "column tags: it holds lists"},
		{"libsvm", one("n", value.Int, false), []value.List{{}, text("3")}, "label and missing"},
		{"libsvm", one("n", value.Int, false), []value.List{text("a b"), text("3")}, "no line can begin"},
		{"csv", one("label", value.Text, false), nil, "two columns"},
		{"csv", nil, nil, "needs a column"},
		{"avro", one("user.id", value.Int, false), nil, `Avro has no place for the name "user.id"`},
		{"avro", one("city", value.Text, false), []value.List{text("1"), text("a\xff")}, "column city: it holds \"a\\xff\", which is not UTF-8"},
		{"arrow", one("city", value.Text, false), []value.List{text("1"), text("a\xff")}, "column city: it holds \"a\\xff\", which is not UTF-8"},
		{"orc", one("n", value.Int, false), nil, "there is no format"},
	} {
		w, err := write.New(&bytes.Buffer{}, write.Layout{Format: tc.format}, tc.columns)
		if err == nil {
			err = w.Write(tc.record)
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.format, err, tc.want)
		}
	}
}

// TestManyBatches: rows of several batches and blocks, with truth values and nulls, in the formats of
// columns.
func TestManyBatches(t *testing.T) {
	columns := []write.Column{{Name: "n", Kind: value.Int}, {Name: "yes", Kind: value.Text, Truth: true}, {Name: "l", Kind: value.Text, Truth: true, Many: true}}
	var records [][]value.List
	for i := range int64(150_000) {
		r := []value.List{{Kind: value.Int, Ints: []int64{i}}, text([]string{"true", "false"}[i%2]), text("true", "false")}
		if i%7 == 0 {
			r[1], r[2] = value.List{}, value.List{}
		}
		records = append(records, r)
	}
	for _, format := range []string{"parquet", "arrow", "avro"} {
		path, err := written(t.TempDir(), write.Layout{Format: format}, "none", columns, records)
		fatal.If(t, err)
		got, err := read(path, schema.Source{Format: format}, names(columns))
		fatal.If(t, err)
		for i, r := range records {
			if want := texts(r); i >= len(got) || got[i] != want {
				t.Fatalf("%s: record %d is %q, want %q", format, i, got[i], want)
			}
		}
	}
}

func TestPackingOf(t *testing.T) {
	for path, want := range map[string]string{"a.csv": "none a.csv", "a.csv.gz": "gzip a.csv", "a.zst": "zstd a", "b.tsv.sz": "snappy b.tsv"} {
		packing, rest := write.PackingOf(path)
		if got := packing + " " + rest; got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if _, err := write.Pack(nil, "brotli"); err == nil {
		t.Error("brotli was packed")
	}
}
