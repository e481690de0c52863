package inspect

import (
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/schema"
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
