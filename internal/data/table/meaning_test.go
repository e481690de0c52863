package table

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// Columns whose writer stores something else in them are named, and are not read as what is
// stored.
func TestMeanings(t *testing.T) {
	for name, c := range map[string]struct{ columns, unread []string }{
		"spark-vectors.parquet": {[]string{"label"}, []string{"features is a vector of Spark"}},
		"polars-types.parquet":  {[]string{"c", "e", "arr"}, []string{"i is an integer of 128 bits", "d is a duration"}},
		"arrow-types.parquet": {[]string{"u", "n", "tensor", "s.a"}, []string{"dur is a duration", "ext is of the Arrow extension type my.ext",
			"s.dur is a duration", "durs is a duration"}},
	} {
		b := read(t, name)
		f, err := Open(bytes.NewReader(b), int64(len(b)))
		fatal.If(t, err)
		if !slices.Equal(f.Columns(), c.columns) || len(f.Unread()) != len(c.unread) {
			t.Errorf("%s: columns %v, unread %v", name, f.Columns(), f.Unread())
			continue
		}
		for i, u := range f.Unread() {
			if got := u.Name + " " + u.Why; !strings.HasPrefix(got, c.unread[i]) {
				t.Errorf("%s: unread is %q, want %q", name, got, c.unread[i])
			}
		}
	}
}

// Schemas that are cut or changed have fewer meanings, and are no fault of the file.
func FuzzArrowSchema(f *testing.F) {
	b := read(f, "arrow-types.parquet")
	file, err := Open(bytes.NewReader(b), int64(len(b)))
	fatal.If(f, err)
	for _, k := range file.footer.KeyValues {
		if k.Key == "ARROW:schema" {
			f.Add(k.Value)
			for i := range len(k.Value) / 4 {
				f.Add(k.Value[:4*i])
				f.Add(k.Value[:4*i] + "////" + k.Value[4*i+4:])
			}
		}
	}
	f.Fuzz(func(t *testing.T, schema string) {
		_ = fmt.Sprint(meaningsOf([]keyValue{{"ARROW:schema", schema}, {"org.apache.spark.sql.parquet.row.metadata", schema}}))
	})
}
