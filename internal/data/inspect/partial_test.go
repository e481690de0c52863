package inspect

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestColumnsOfSomeFiles: files with a header are read by the names of their columns, also if the sample
// begins within a file, and a column that some of them lack is noted.
func TestColumnsOfSomeFiles(t *testing.T) {
	const rows = 60_000 // several blocks of a file
	for _, sep := range []string{",", "\t"} {
		old := tableOf(strings.Join([]string{"label", "site", "age"}, sep)+"\n", rows, func(i int) string {
			return fmt.Sprintf("%d%ssite%d%s%d", i%2, sep, i%3, sep, 20+i%50)
		})
		new := tableOf(strings.Join([]string{"site", "device", "age", "label"}, sep)+"\n", rows, func(i int) string {
			return fmt.Sprintf("%s%sd%d%s%d%s%d", []string{"a", `"b,c"`, "d"}[i%3], sep, i%2, sep, 20+i%50, sep, i%2)
		})
		dir := datatest.Files(t, "", []byte(old), []byte(new))
		in, err := All([]string{dir}, 400)
		fatal.If(t, err)
		columns := map[string]Column{}
		for _, c := range in.Columns {
			columns[c.Name] = c
		}
		device, age := columns["device"], columns["age"]
		if len(columns) != 4 || in.Rows != 400 || in.All || in.Label != "label" || in.Ragged != 0 || device.Distinct != 2 || device.Missing != 0.75 || age.Min < 20 || age.Max > 69 || age.Missing != 0 {
			t.Errorf("%q: %d rows, ragged %d, label %s, device %v and age %v missing, %d columns", sep, in.Rows, in.Ragged, in.Label, device.Missing, age.Missing, len(columns))
		}
		if len(in.Notes) != 1 || !strings.HasPrefix(in.Notes[0], "column device is not in 1 of 2 files, such as ") {
			t.Errorf("%q: notes %q", sep, in.Notes)
		}
	}
	dir := datatest.Files(t, "", []byte("site,label\na,1\nb,0\n"), []byte("site,label,os\na,1,x\n"), []byte{}, []byte("os,site,label\n"))
	in, err := All([]string{dir}, 0)
	fatal.If(t, err)
	if i := slices.IndexFunc(in.Columns, func(c Column) bool { return c.Name == "os" }); i < 0 || in.Rows != 3 || in.Columns[i].Examples[0] != "x" || !strings.HasPrefix(in.Notes[0], "column os is not in 1 of 3 files") {
		t.Errorf("%+v", in)
	}
}
