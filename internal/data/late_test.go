package data

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// The number of records of a file, and of a dataset, whose fields are known before a scan
// (see package record).
const (
	looked   = 1000
	searched = 1 << 18
)

// lateFile writes a file with a field that first occurs in record number late.
func lateFile(t *testing.T, format string, rows, late int) string {
	t.Helper()
	var b []byte
	for i := range rows {
		switch {
		case format == "jsonl" && i == late:
			b = append(b, `{"rare":7,"label":1}`+"\n"...)
		case format == "jsonl":
			b = append(b, `{"label":1,"often":2}`+"\n"...)
		case format == "libffm" && i == late:
			b = append(b, "1 5:7:1\n"...)
		case format == "libffm":
			b = append(b, "1 2:3:1\n"...)
		default:
			names := []string{"label", "often"}
			if i == late {
				names = []string{"rare", "label"}
			}
			lists := make([]value.List, 2)
			for k := range lists {
				lists[k].Begin(value.Int)
				lists[k].Ints = append(lists[k].Ints, 7)
			}
			b = tfrecord.AppendFrame(b, tfrecord.AppendExample(nil, names, lists))
		}
	}
	path := filepath.Join(t.TempDir(), "late."+format)
	fatal.If(t, os.WriteFile(path, b, 0o666))
	return path
}

func TestLateFieldsAreFound(t *testing.T) {
	for _, x := range []struct {
		format string
		rows   int
		late   []string
	}{
		{"jsonl", looked + 10, []string{"rare"}},
		{"tfrecord", looked + 10, []string{"rare"}},
		{"libffm", record.DefaultLook + 10, []string{"5", "5" + record.ValuesSuffix}},
	} {
		t.Run(x.format, func(t *testing.T) {
			path := lateFile(t, x.format, x.rows, x.rows-2)
			f, err := record.OpenFiles(schema.Source{Format: x.format}, []string{path})
			fatal.If(t, err)
			if slices.Contains(f.Fields(), x.late[0]) {
				t.Fatalf("the first records have %q", f.Fields())
			}
			seen := 0
			count := func(lists []value.List) error { seen += lists[len(lists)-1].Len(); return nil }
			w, late, err := f.Survey(t.Context(), f.Fields(), 1, count, nil)
			if err != nil || w.Records != int64(x.rows) || !slices.Equal(late, x.late) {
				t.Fatalf("%d records, late fields %q, %v; want %d, %q", w.Records, late, err, x.rows, x.late)
			}
			known := f.With(late)
			seen = 0
			if _, late, err = known.Survey(t.Context(), x.late, 1, count, nil); err != nil || len(late) > 0 || seen != 1 {
				t.Errorf("with the late fields: late %q, %d values, %v; want none, 1", late, seen, err)
			}
			if learnt, err := f.Learn(t.Context(), x.late, nil); err != nil || !slices.Equal(learnt.Fields(), known.Fields()) {
				t.Errorf("learnt: %q, %v; want %q", learnt.Fields(), err, known.Fields())
			}
			if same, err := f.Learn(t.Context(), f.Fields(), nil); err != nil || same != f {
				t.Errorf("fields that are known are learnt again: %v", err)
			}
			if learnt, err := f.Learn(t.Context(), []string{"nowhere"}, nil); err != nil || slices.Contains(learnt.Fields(), "nowhere") {
				t.Errorf("a field that is nowhere: %q, %v", learnt.Fields(), err)
			}
		})
	}
}

// A field that is in no first record of a file can be used like any other. A field that no
// record has is an error: at once or, if there are very many records, after the scan.
func TestTrainingTakesLateFields(t *testing.T) {
	s := func(field string) schema.Schema {
		return schema.Schema{Label: schema.Label{Field: "label", Positive: []string{"1", "7"}}, Features: []schema.Feature{{Field: field, Encode: "vocabulary"}, {Field: "often", Encode: "hash", Buckets: 8}}}
	}
	for _, x := range []struct {
		format string
		rows   int
		late   string
	}{
		{"jsonl", looked - 1, ""},
		{"jsonl", 9 * looked, ""},
		{"jsonl", searched + 9, `"rare"`},
		{"tfrecord", looked - 1, ""},
		{"tfrecord", 9 * looked, ""},
	} {
		path, src := lateFile(t, x.format, x.rows, x.rows-2), schema.Source{Format: x.format}
		d, fit := prepare(t, src, s("rare"), 3, path)
		if e := newEncoder(t, fit); e.Sparse()[0].Vocabulary != 1 || d.Late() != x.late {
			t.Errorf("%+v: %d words, late is %s", x, e.Sparse()[0].Vocabulary, d.Late())
		}
		d, err := Open(src, s("rar"), []string{path})
		if (err == nil) != (x.late != "") {
			t.Errorf("%+v: a field that is nowhere: %v", x, err)
		}
		if err == nil {
			_, counts := scanAll(t, d, s("rar"), 3)
			err = d.Use(counts)
		}
		if err == nil || !strings.Contains(err.Error(), `features[0] (rar): there is no field "rar"`) {
			t.Errorf("%+v: a field that is nowhere: %v", x, err)
		}
	}
	label := schema.Schema{Label: schema.Label{Field: "rare"}, Features: s("often").Features[1:]}
	if _, err := Open(schema.Source{Format: "jsonl"}, label, []string{lateFile(t, "jsonl", 2*looked, looked+5)}); err == nil || !strings.Contains(err.Error(), `label: there is no field "rare"`) {
		t.Errorf("a label that no first record has: %v", err)
	}
}

// Evaluation data whose records name their fields may lack fields of features: these
// values are missing. In a fixed layout every field must be present. The label must be
// present in both.
func TestEvaluationTakesAbsentFields(t *testing.T) {
	s := func(fields ...string) schema.Schema {
		all := schema.Schema{Label: schema.Label{Field: "label", Positive: []string{"1", "7"}}}
		for _, f := range fields {
			all.Features = append(all.Features, schema.Feature{Field: f, Encode: "hash"})
		}
		return all
	}
	for _, format := range []string{"jsonl", "tfrecord"} {
		for _, x := range []struct{ rows, late int }{{50, -1}, {50, 40}, {2 * looked, -1}, {2 * looked, 2*looked - 3}} {
			path, src := lateFile(t, format, x.rows, x.late), schema.Source{Format: format}
			wanted := s("often", "rare", "rarer")
			if _, err := Open(src, wanted, []string{path}); err == nil {
				t.Errorf("%s: trained on without a field", format)
			}
			d, err := OpenEval(src, wanted, []string{path})
			fatal.If(t, err)
			fit, counts := scanAll(t, d, wanted, 3)
			fatal.If(t, d.Use(counts))
			want := []string{"rare", "rarer"}
			if x.late >= 0 {
				want = want[1:]
			}
			if !slices.Equal(d.Absent(), want) || d.Late() != "" {
				t.Errorf("%s %+v: absent %q, late %q", format, x, d.Absent(), d.Late())
			}
			for _, b := range readAll(t, d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 64}) {
				for _, k := range b.Sparse[2].Values {
					if k != encode.KeyMissing {
						t.Fatalf("%s: an absent field has the key %x", format, k)
					}
				}
			}
			other := s("often")
			other.Label.Field = "rarer"
			if _, err := OpenEval(src, other, []string{path}); err == nil || !strings.Contains(err.Error(), `label: there is no field "rarer"`) {
				t.Errorf("%s: without a label: %v", format, err)
			}
		}
	}
	text := datatest.Write(t, "a.csv", "label,often\n1,2\n")
	if _, err := OpenEval(schema.Source{Header: true}, s("often", "rare"), []string{text}); err == nil || !strings.Contains(err.Error(), `there is no field "rare"`) {
		t.Errorf("a table without a column: %v", err)
	}
}

// TestColumnsWithoutValues: columns that no record has a value of are found in every
// format, for any number of parts.
func TestColumnsWithoutValues(t *testing.T) {
	src := schema.Source{Header: true, Missing: []string{"NA"}}
	path := datatest.Write(t, "a.csv", "y,a,b,c\n1,,NA,\n0,NA,,\n"+strings.Repeat("1,,,\n", 40<<10)+"1,,,x\n")
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{
		{Field: "a", Encode: "hash", Weights: "b"}, {Field: "c", Encode: "hash"}, {Field: "c", Encode: "vocabulary", Name: "again"}}}
	for _, parts := range []int{1, 3} {
		d, _ := prepare(t, src, s, parts, path)
		if !slices.Equal(d.Absent(), []string{"a", "b"}) {
			t.Errorf("%d parts: %q", parts, d.Absent())
		}
	}
}
