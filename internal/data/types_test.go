package data

import (
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// A table that DuckDB wrote as CSV and as Parquet gives the same batch, for any encoding
// of a column.
func TestTableOfDuckDBIsTheSameBatch(t *testing.T) {
	numbers := strings.Fields("i8 u8 i16 u16 i32 u32 i64 u64 d4 d9 d18 d38 d0 f32 f32_wide f64 f64_wide st.a")
	dates := strings.Fields("date ts ts_s ts_ms ts_ns ts_tz")
	csv, parquet := "table/testdata/types.csv", "table/testdata/types.parquet"
	files, err := record.OpenFiles(schema.Source{Header: true}, []string{csv})
	fatal.If(t, err)
	for _, field := range files.Fields()[1:] {
		for _, encoding := range []string{"hash", "vocabulary", "id", "raw", "standardise", "quantile", "hour", "weekday", "age"} {
			var those []string // nil: all
			switch encoding {
			case "id":
				those = []string{"id", "u64", "st.a"}
			case "raw", "standardise", "quantile":
				those = numbers
			case "hour", "weekday", "age":
				those = dates
			}
			if those != nil && !slices.Contains(those, field) {
				continue
			}
			s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: field, Encode: encoding}}}
			want := firstBatch(t, schema.Source{Header: true}, s, csv)
			if got := firstBatch(t, schema.Source{Format: "parquet"}, s, parquet); got != want {
				t.Errorf("%s of %s:\ngot  %s\nwant %s", encoding, field, got, want)
			}
		}
	}
}

// A feature of a column that cannot be read is an error that names the column.
func TestUnreadableColumn(t *testing.T) {
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "ll", Encode: "hash"}}}
	_, err := Open(schema.Source{Format: "parquet"}, s, []string{"table/testdata/nested.parquet"})
	if err == nil || !strings.Contains(err.Error(), "nested.parquet: column ll is a list of lists or maps; write lists") {
		t.Error(err)
	}
}

// The label 1 of a column of floating point numbers is 1.0.
func TestLabelOfFloats(t *testing.T) {
	for label, want := range map[string]schema.Label{
		"1.0,0.0": {Field: "y", Positive: []string{"1"}, Negative: []string{"0"}}, "1,0": {Field: "y", Positive: []string{"1.0"}, Negative: []string{"0.0"}},
	} {
		one, zero, _ := strings.Cut(label, ",")
		path := datatest.Write(t, "a.csv", "y,x\n"+one+",a\n"+zero+",b\n")
		s := schema.Schema{Label: want, Features: []schema.Feature{{Field: "x", Encode: "hash"}}}
		if d, _ := prepare(t, schema.Source{Header: true}, s, 1, path); d.Positives() != 1 {
			t.Errorf("%s: %d are 1", label, d.Positives())
		}
	}
}
