package data

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// A header repeated inside a file, as after cat, is not a record, even if every field is a
// string that a feature accepts.
func TestHeaderAgain(t *testing.T) {
	for _, end := range []string{"\n", "\r\n"} {
		header := "city,label" + end
		half := func(lo int) (text string) {
			for i := range 50 {
				text += fmt.Sprintf("city%d,%d%s", lo+i, i%2, end)
			}
			return text
		}
		for _, x := range []struct {
			name, text string
			rows, line int64
		}{
			{"joined", header + half(0) + header + half(50), 100, 52},
			{"at the end", header + half(0) + strings.TrimSuffix(header, end), 50, 52},
		} {
			t.Run(fmt.Sprintf("%s %q", x.name, end), func(t *testing.T) {
				path := datatest.Write(t, "joined.csv", x.text)
				f, err := record.OpenFiles(schema.Source{Header: true}, []string{path})
				fatal.If(t, err)
				w, err := f.Check(t.Context(), 2, 8, nil, nil)
				if err != nil || w.Records != x.rows || w.Bad != 1 || w.Faults[0].Line != x.line || !strings.Contains(w.Faults[0].Reason(), "the header is repeated") {
					t.Fatalf("%+v, %v; want %d records, the header again in line %d", w, err, x.rows, x.line)
				}
				wanted := schema.Schema{Label: schema.Label{Field: "label", Positive: []string{"1"}}, Features: []schema.Feature{{Field: "city", Encode: "vocabulary"}}}
				d, fit := prepare(t, schema.Source{Header: true, MaxBad: 1}, wanted, 2, path)
				rows := 0
				for _, b := range readAll(t, d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 16, Shuffle: true, Size: 1}) {
					rows += b.Rows
				}
				if bad, _ := d.Bad(); bad != 1 || int64(rows) != x.rows || fit.Vocabularies()[0].Distinct != x.rows {
					t.Errorf("%d bad, %d rows read; want 1, %d", bad, rows, x.rows)
				}
			})
		}
	}
}

// A line that is nearly the header is an error if no header is expected.
func TestHeaderOfAnotherKind(t *testing.T) {
	text := "age,label\n7,1\nage, label\n"
	for _, x := range []struct {
		src  schema.Source
		want string
	}{
		{schema.Source{Header: true}, "another header: remove the line"},
		{schema.Source{Fields: []string{"age", "label"}}, "set data.header: true"},
	} {
		wanted := schema.Schema{Label: schema.Label{Field: "label", Positive: []string{"1"}}, Features: []schema.Feature{{Field: "age", Encode: "raw"}}}
		d, err := Open(x.src, wanted, []string{datatest.Write(t, "ages.csv", text)})
		fatal.If(t, err)
		if _, err = d.Scan(t.Context(), 0, 1, nil, nil); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v; want %q", err, x.want)
		}
	}
}
