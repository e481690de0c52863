package table

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// Columns whose writer stores something else in them are named, and are not read as what is
// stored.
func TestMeanings(t *testing.T) {
	for name, c := range map[string]struct{ columns, unread []string }{
		"spark-vectors.parquet": {[]string{"label", "features"}, nil},
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

// Dense and sparse vectors of Spark 4.3.0 are lists of all elements.
func TestVectors(t *testing.T) {
	rows := cells(t, read(t, "spark-vectors.parquet"), []string{"label", "features"})
	if got := fmt.Sprint(rows[:4]); len(rows) != 60 || got != "[[0.0 0.0|0.0|2.5] [1.0 1.0|0.5|0.0] [0.0 2.0|0.5|0.0] [1.0 3.0|0.0|2.5]]" {
		t.Errorf("%d rows, %s …", len(rows), got)
	}
	for _, c := range []struct {
		size, indices value.List
		values        []float64
		want          string
	}{
		{ints(3), ints(0, 2), []float64{1, 2}, "[1 0 2]"},
		{ints(3), value.List{}, nil, "[0 0 0]"},
		{ints(3), ints(3), []float64{1}, "type, size, indices and values"},
		{ints(3), ints(-1), []float64{1}, "type, size, indices and values"},
		{ints(3), ints(1, 2), []float64{1}, "type, size, indices and values"},
		{value.List{}, ints(1), []float64{1}, "type, size, indices and values"},
		{ints(1 << 20), ints(1), []float64{1}, "at most 65536"},
	} {
		got, err := dense(&c.size, &c.indices, c.values)
		if text := fmt.Sprint(got, err); !strings.Contains(text, c.want) {
			t.Errorf("%v: %s, want %s", c, text, c.want)
		}
	}
}

func ints(n ...int64) value.List { return value.List{Kind: value.Int, Ints: n} }

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
