package inspect

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestLayout: the settings of a file with another layout than the configuration.
func TestLayout(t *testing.T) {
	const rows = "1,Oslo,3\n0,Bergen,4\n1,Oslo,5\n0,Bergen,6\n"
	csv := datatest.Write(t, "a.csv", rows)
	named := datatest.Write(t, "named.csv", "y,city,age\n"+rows)
	semicolons := datatest.Write(t, "semicolons.csv", strings.ReplaceAll(rows, ",", ";"))
	fields := []string{"y", "city", "age"}
	tsv := schema.Source{Format: "tsv", Fields: fields}
	for _, x := range []struct {
		file     string
		source   schema.Source
		what     string
		settings []string
	}{
		{csv, schema.Source{Fields: fields}, "", nil},
		{csv, tsv, " looks like csv without a header, but the configuration is for tsv without a header", []string{"data.format=csv"}},
		{named, tsv, " looks like csv with a header, but the configuration is for tsv without a header", []string{"data.format=csv", "data.header=true"}},
		{semicolons, tsv, ` looks like csv (delimiter ";") without a header, but the configuration is for tsv without a header`, []string{"data.format=csv", "data.delimiter=;"}},
	} {
		what, settings := Layout(x.source, []string{x.file})
		if strings.TrimPrefix(what, x.file) != x.what || !slices.Equal(settings, x.settings) {
			t.Errorf("%s: %q, %q", x.file, what, settings)
		}
	}
}

// Parts without records, or with a header only, do not hide the records of other parts.
func TestPartsWithoutRecords(t *testing.T) {
	var empty bytes.Buffer
	fatal.If(t, gzip.NewWriter(&empty).Close())
	for name, parts := range map[string][]string{
		"first":  {"", "a,b,click\n1,2,0\n3,4,1\n"},
		"header": {"a,b,click\n", "a,b,click\n1,2,0\n3,4,1\n"},
		"packed": {empty.String(), "a,b,click\n1,2,0\n3,4,1\n", empty.String()},
		"blank":  {"a,b,click\n1,2,0\n3,4,1\n", "\n\n"},
		"object": {empty.String(), "{\"a\": 1, \"b\": 2, \"click\": 1}\n{\"a\": 3, \"b\": 4, \"click\": 0}\n"},
	} {
		dir := t.TempDir()
		for i, text := range parts {
			fatal.If(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("part-", i)), []byte(text), 0o600))
		}
		for _, look := range []func() (*Inspection, error){
			func() (*Inspection, error) { return All([]string{dir}, 0) },
			func() (*Inspection, error) { return First(dir, 0) },
		} {
			in, err := look()
			if err != nil || in.Rows != 2 || len(in.Columns) != 3 {
				t.Errorf("%s: %+v, %v", name, in, err)
				continue
			}
			files, err := record.OpenFiles(in.Source(), []string{dir})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			w, err := files.Walk(t.Context(), []string{"click"}, 1, func([]value.List) error { return nil }, nil)
			if err != nil || w.Records != 2 || w.Bad != 0 {
				t.Errorf("%s: %+v, %v", name, w, err)
			}
		}
	}
}

// The folders of a data set are columns; their type fits the names of all of them.
func TestFoldersAreColumns(t *testing.T) {
	dir := t.TempDir()
	for i := range 40 {
		folder := filepath.Join(dir, fmt.Sprintf("hour=%02d", i))
		if i == 1 { // it is not in the sample
			folder = filepath.Join(dir, "hour=00x")
		}
		fatal.If(t, os.MkdirAll(folder, 0o700))
		fatal.If(t, os.WriteFile(filepath.Join(folder, "part"), []byte("7,1\n8,0\n"), 0o600))
	}
	in, err := All([]string{dir}, 0)
	fatal.If(t, err)
	c := in.Columns[len(in.Columns)-1]
	if len(in.Columns) != 3 || c.Name != "hour" || !c.Folder || c.Kind != "string" || c.Distinct != 16 || in.Label == "hour" {
		t.Errorf("%+v; label %s", in.Columns, in.Label)
	}
	if got := in.Source().Fields; len(got) != 2 {
		t.Errorf("fields %q in the files", got)
	}
}
