package data

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
)

func peopleSource() schema.Source { return schema.Source{Header: true, Missing: []string{"NA"}} }

func peopleSchema() schema.Schema {
	return schema.Schema{
		Label: schema.Label{Field: "label"},
		Features: []schema.Feature{
			{Field: "id", Encode: "id"},
			{Field: "age", Encode: "boundaries", Boundaries: []float64{18, 50}},
			{Field: "city", Encode: "vocabulary"},
			{Field: "tags", Encode: "hash", Separator: "|"},
			{Field: "score", Encode: "standardise"},
			{Field: "score", Encode: "raw"},
		},
		Crosses: []schema.Cross{{Of: []string{"city", "tags"}}},
	}
}

// scanError opens and scans a file in parts and returns the first error, with
// the folder taken out of its text.
func scanError(t testing.TB, path string, src schema.Source, parts int) string {
	t.Helper()
	d, err := Open(src, peopleSchema(), []string{path})
	counts := new(Counts)
	for p := 0; p < parts && err == nil; p++ {
		var c *Counts
		if c, err = d.Scan(context.Background(), p, parts, encode.NewFit(peopleSchema()), nil); err == nil {
			err = counts.Merge(c.Marshal())
		}
	}
	if err == nil {
		err = d.Use(counts)
	}
	if err == nil {
		return fmt.Sprintf("%d records", d.Rows(All))
	}
	return strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", "")
}

func TestMalformedRecords(t *testing.T) {
	var out strings.Builder
	for _, x := range []struct{ what, old, new string }{
		{"as it should be", "", ""},
		{"ragged row, short", "2,,Bern,,1.25,0", "2,,Bern,,0"},
		{"ragged row, long", "2,,Bern,,1.25,0", "2,,Bern,,1.25,0,"},
		{"text in a numeric column", "4,7,", "4,seven,"},
		{"no number at all", "-3", "NaN"},
		{"listed as missing", "-3", "NA"},
		{"too large", "1e2", "1e40"},
		{"label out of range", "1.25,0", "1.25,2"},
		{"label missing", "1.25,0", "1.25,"},
		{"label listed as missing", "1.25,0", "1.25,NA"},
		{"id that is no integer", "\n3,", "\nx3,"},
		{"quote left open", `Stadt"`, "Stadt"},
		{"text behind a quote", `Stadt"`, `Stadt" x`},
		{"several", "\n", "\nx"},
		{"a long value", "34", strings.Repeat("long", 20)},
		{"a cross of too many", "a|c|d", strings.Repeat("a|", 1025)},
		{"a cross of many", "a|c|d", strings.Repeat("a|", 1024)},
		{"bytes that are no text", "34", "\xff\x01"},
		{"a zero byte", "34", "3\x004"},
		{"blank lines and no end", "\n4,7,Basel,a|c|d,1e2,0\n", "\n\n  \n\r\n4,7,Basel,a|c|d,1e2,0"},
		{"only a header", datatest.People[strings.Index(datatest.People, "\n"):], ""},
		{"a byte order mark", "id,", "\xef\xbb\xbfid,"},
		{"an unknown column", "age", "Aege"},
		{"a column twice", "score", "age"},
		{"gzip", "id,", "\x1f\x8b"},
		{"parquet", "id,", "PAR1"},
		{"UTF-16", "id,", "\xff\xfei\x00"},
		{"all blank", datatest.People, "\n \n\r\n"},
		{"an endless line", "Bern", strings.Repeat("Bern", record.MaxLine/4)},
	} {
		content := strings.ReplaceAll(datatest.People, x.old, x.new)
		if x.old == "" {
			content = datatest.People
		}
		got := scanError(t, datatest.Write(t, "people.csv", content), peopleSource(), 2)
		fmt.Fprintf(&out, "%s\n\t%s\n", x.what, strings.ReplaceAll(got, "\n", "\n\t"))
	}
	golden.Check(t, "malformed.txt", out.String())
}

// The line is right even if a later part finds the fault.
func TestLineNumbersOfLaterParts(t *testing.T) {
	var b strings.Builder
	b.WriteString("id,age,city,tags,score,label\n\n")
	bad, n := 0, 2
	for b.Len() < 5*smallBlock {
		n++
		fmt.Fprintf(&b, "%d,3,Bern,,1,0\n", n)
		if bad == 0 && b.Len() > 3*smallBlock+1000 {
			n++
			bad = n
			b.WriteString("x,3,Bern,,1,0\n")
		}
	}
	path := datatest.Write(t, "long.csv", b.String())
	for _, parts := range []int{1, 2, 4, 100} {
		if got, want := scanError(t, path, peopleSource(), parts), fmt.Sprintf("long.csv:%d: column id: \"x\"", bad); !strings.HasPrefix(got, want) {
			t.Errorf("in %d parts: %s, want %s", parts, got, want)
		}
	}
}

func TestOpenFaults(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"empty.csv": "", "a.csv": datatest.People, "b.csv": datatest.People, "other.csv": "x,y\n1,2\n", "deep/_SUCCESS": "", "part/0.csv": "", "part/1.csv": datatest.People, "part/_ok": "x", "zero/0.csv": "", "mixed/a.csv": datatest.People, "mixed/README.md": "# people"} {
		fatal.If(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	var out strings.Builder
	t.Run("in the folder", func(t *testing.T) { t.Chdir(dir); openAll(&out, dir) })
	golden.Check(t, "open.txt", out.String())
}

// TestOpenUncut: a header that is not split into fields is one error, not one per feature.
func TestOpenUncut(t *testing.T) {
	csv, tsv := datatest.Write(t, "a.csv", datatest.People), datatest.Write(t, "a.tsv", strings.ReplaceAll(datatest.People, ",", "\t"))
	semicolons := peopleSource()
	semicolons.Delimiter = ";"
	for _, x := range []struct {
		src        schema.Source
		path, want string
	}{
		{semicolons, csv, `its header is one field, "id,age,city,tags,score,label", because the delimiter is ";"; the file seems to use ","`},
		{peopleSource(), tsv, `because the delimiter is ","; the file seems to use "\t"`},
	} {
		_, err := Open(x.src, peopleSchema(), []string{x.path})
		if err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "there is no field") {
			t.Errorf("%s: %v, want %s", x.path, err, x.want)
		}
	}
	_, rows, _ := strings.Cut(datatest.People, "\n")
	_, err := Open(peopleSource(), peopleSchema(), []string{datatest.Write(t, "headless.csv", rows)})
	if err == nil || !strings.Contains(err.Error(), "is taken for a header and has none of the fields") || strings.Contains(err.Error(), "there is no field") {
		t.Errorf("without a header: %v", err)
	}
	_, err = Open(peopleSource(), peopleSchema(), []string{datatest.Write(t, "one.csv", "other\n1\n")})
	if err == nil || strings.Contains(err.Error(), "seems to use") {
		t.Errorf("a header of one other field: %v", err)
	}
}

func openAll(out *strings.Builder, dir string) {
	for _, patterns := range [][]string{
		{}, {""}, {"none.csv"}, {"/none.csv"}, {"empty.csv"}, {"*.tsv"}, {"[.csv"}, {"deep"}, {"deep*"}, {"zero"}, {"zero/*"}, {"mixed"},
		{"ftp://host/a.csv"}, {"file://none.csv"}, {"file:///none.csv"}, {"builtin:adult"}, {"a.csv", "./a.csv"}, {"?.csv", "b.csv"}, {"a.csv", "other.csv"}, {"/dev/null"},
		{"a.csv"}, {"?.csv"}, {"part"}, {"part/*.csv", "a.csv"},
	} {
		d, err := Open(peopleSource(), peopleSchema(), patterns)
		if err != nil {
			fmt.Fprintf(out, "%q\n\t%s\n", patterns, strings.ReplaceAll(err.Error(), dir, "DIR"))
		} else {
			fmt.Fprintf(out, "%q\n\tok: %q\n", patterns, d.Names())
		}
	}
}

// A file cut anywhere gives an error or every record that has begun.
func TestEveryCutOfAFile(t *testing.T) {
	const fixture = "# c\nid,age,city,tags,score,label\r\n1,34,Basel,a|b,0.5,yes\n\n2,,\"Zug, \"\"x\"\"\",,1,no\r\n3,1,B,c,-3,yes\n"
	src := peopleSource()
	src.Comment = "#"
	s := peopleSchema()
	s.Label = schema.Label{Field: "label", Positive: []string{"yes"}, Negative: []string{"no"}}
	for n := range len(fixture) + 1 {
		path := datatest.Write(t, "cut.csv", fixture[:n])
		begun := int64(0)
		for i, line := range strings.Split(fixture[:n], "\n") {
			if i > 1 && strings.TrimSpace(line) != "" {
				begun++
			}
		}
		d, err := Open(src, s, []string{path})
		if err != nil {
			continue
		}
		c, err := d.Scan(context.Background(), 0, 1, encode.NewFit(s), nil)
		if err != nil {
			continue
		}
		if c.Records() != begun {
			t.Errorf("cut at %d: %d records, %d have begun: %q", n, c.Records(), begun, fixture[:n])
		}
	}
}

func TestScanFaultIsAFault(t *testing.T) {
	path := datatest.Write(t, "people.csv", strings.ReplaceAll(datatest.People, "34", "old"))
	d, err := Open(peopleSource(), peopleSchema(), []string{path})
	fatal.If(t, err)
	_, err = d.Scan(context.Background(), 0, 1, nil, nil)
	var f *record.Fault
	if !errors.As(err, &f) || f.Line != 2 || f.Column != "age" || f.Value != "old" || f.File != path || f.Same != 0 || f.Others != nil {
		t.Errorf("Scan: %+v", err)
	}
}

func TestScanEnds(t *testing.T) {
	d, err := Open(adultSource(), adultSchema(), []string{"builtin:adult.data"})
	fatal.If(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var seen int64
	_, err = d.Scan(ctx, 0, 1, nil, func(n int64) {
		if seen = n; n > 100000 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || seen > 200000 {
		t.Errorf("after %d bytes: %v", seen, err)
	}
	for _, p := range [][2]int{{0, 0}, {-1, 2}, {2, 2}} {
		if _, err := d.Scan(context.Background(), p[0], p[1], nil, nil); err == nil {
			t.Errorf("part %d of %d was scanned", p[0], p[1])
		}
	}
}

// change changes a file.
func change(t *testing.T, path string, how string) {
	t.Helper()
	switch how {
	case "grows":
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString("5,1,B,,1,0\n")
			f.Close()
		}
		fatal.If(t, err)
	case "is cut":
		fatal.If(t, os.Truncate(path, 100))
	case "is rewritten":
		b, _ := os.ReadFile(path)
		fatal.If(t, os.WriteFile(path, b, 0o644))
		later := time.Now().Add(time.Hour)
		fatal.If(t, os.Chtimes(path, later, later))
	case "goes away":
		fatal.If(t, os.Remove(path))
	}
}

// A file that changes while it is read is an error, whatever its records are by then: in a walk, and in a
// scan, which a training and data check do. A file that is removed is still open, and has not changed.
func TestFileThatChangesMeanwhile(t *testing.T) {
	datatest.EveryFormat(t, func(t *testing.T, format, packing string) {
		src, s := datatest.Fields(format)
		content := datatest.Pack(t, packing, datatest.Numbered(t, format, 0, 20_000))
		for _, how := range []string{"grows", "is cut", "is rewritten", "goes away"} {
			dir := datatest.Files(t, packing, content)
			path := filepath.Join(dir, "part-00"+packing)
			files, err := record.OpenFiles(src, []string{dir})
			fatal.If(t, err)
			n := 0
			_, err = files.Walk(t.Context(), []string{s.Features[0].Field}, 1, func([]value.List) error {
				if n++; n == 700 {
					change(t, path, how)
				}
				return nil
			}, nil)
			if want := how != "goes away"; errors.Is(err, record.ErrChanged) != want || !want && (err != nil || n != 20_000) {
				t.Errorf("a file that %s: %d records, %v", how, n, err)
			}
			if how == "goes away" {
				continue
			}
			fatal.If(t, os.WriteFile(path, content, 0o644))
			d, err := Open(src, s, []string{dir})
			fatal.If(t, err)
			if _, err = d.Scan(&interfering{t.Context(), 0, func() { change(t, path, how) }}, 0, 1, nil, nil); !errors.Is(err, record.ErrChanged) {
				t.Errorf("a file that %s is scanned: %v", how, err)
			}
		}
	})
}

// Any byte of a table may be damaged: the error of a scan begins with the file, and faults of pages, found by their
// checksums, are named with the column.
func TestDamagedTable(t *testing.T) {
	src, s := datatest.Fields("parquet")
	s.Features = append(s.Features, schema.Feature{Field: "x", Encode: "vocabulary"})
	content := datatest.Numbered(t, "parquet", 0, 60)
	seen := map[string]int{}
	for at := len("PAR1"); at < min(len(content), 600); at++ {
		damaged := slices.Clone(content)
		damaged[at] = 0xff
		path := datatest.Write(t, "a.parquet", string(damaged))
		d, err := Open(src, s, []string{path})
		if err == nil {
			_, err = d.Scan(t.Context(), 0, 1, encode.NewFit(s), nil)
		}
		if err != nil && !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("byte %d: %v", at, err)
		}
		if err != nil {
			seen[regexp.MustCompile(`[0-9]+`).ReplaceAllString(strings.TrimPrefix(err.Error(), path), "N")]++
		}
	}
	if seen[": offset N: column x: the page at N is damaged: its checksum differs"] == 0 {
		t.Errorf("no page is damaged: %v", seen)
	}
}

// interfering is a context that does something when it is asked for the second time, which a scan does
// within a block.
type interfering struct {
	context.Context
	asked int
	do    func()
}

func (c *interfering) Err() error {
	if c.asked++; c.asked == 2 {
		c.do()
	}
	return c.Context.Err()
}

func TestFileThatChanges(t *testing.T) {
	for _, how := range []string{"grows", "is cut", "is rewritten", "goes away"} {
		path := datatest.Write(t, "people.csv", datatest.People)
		d, fit := prepare(t, peopleSource(), peopleSchema(), 1, path)
		e := newEncoder(t, fit)
		change(t, path, how)
		r, err := NewReader(d, e, ReaderConfig{GlobalBatch: 2})
		fatal.If(t, err)
		_, err = r.Next(context.Background())
		if err == nil || !strings.Contains(err.Error(), path) || how != "goes away" && !errors.Is(err, record.ErrChanged) {
			t.Errorf("a file that %s: %v", how, err)
		}
		if _, again := r.Next(context.Background()); again != err {
			t.Errorf("after the error Next returns %v", again)
		}
		r.Close()
		if _, err := d.Scan(context.Background(), 0, 1, nil, nil); err == nil {
			t.Errorf("a file that %s is scanned again", how)
		}
	}
}

// The faults of all parts are one error, with the first of each kind in file order and its number.
func TestFaultsOfAllParts(t *testing.T) {
	lines := strings.Repeat("1,7\n", 60_000)
	path := datatest.Write(t, "a.csv", lines+"1,x\n"+lines+"1,y\n1,z\n"+lines+"7,7\n"+strings.Repeat("1\n", 9))
	s := schema.Schema{Label: schema.Label{Field: "y", Positive: []string{"1"}, Negative: []string{"0"}}, Features: []schema.Feature{{Field: "n", Encode: "raw"}}}
	d, err := Open(schema.Source{Fields: []string{"y", "n"}}, s, []string{path})
	fatal.If(t, err)
	_, c := scanAll(t, d, s, 3)
	err = d.Use(c)
	if err == nil {
		t.Fatal("faults are no error")
	}
	want := `a.csv:60001: column n: "x" is not a number; if it means missing, list it in data.missing (the first of 3 such records); ` +
		`a.csv:180004: column y: "7" is not a value of the label; expected one of "1", "0" (set label.positive, or label.threshold for numbers); ` +
		`a.csv:180005: the record has 1 field, expected 2 (the first of 9 such records)`
	if got := strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", ""); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
