package encode

import (
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// A feature that cannot learn from its training data gives a warning; others give none.
func TestDoubts(t *testing.T) {
	for _, x := range []struct {
		feature schema.Feature
		values  []string
		want    []string
	}{
		{schema.Feature{Encode: "standardise"}, []string{"5", "5", ""}, []string{"features[0] (x): all values of field x are 5, so the feature carries no information; remove it"}},
		{schema.Feature{Encode: "standardise"}, []string{"5", "6"}, nil},
		{schema.Feature{Encode: "standardise"}, []string{"", ""}, nil}, // warned about elsewhere
		{schema.Feature{Encode: "standardise"}, []string{"1400000000", "1400000001"}, nil},
		{schema.Feature{Encode: "standardise"}, []string{"1e-200", "2e-200"}, []string{"features[0] (x): the values of field x differ by too little for standardise: use quantile"}},
		{schema.Feature{Encode: "quantile"}, []string{"1.5", "1.5"}, []string{"features[0] (x): all values of field x are 1.5, so the feature carries no information; remove it"}},
		{schema.Feature{Encode: "quantile"}, []string{"1.5", ""}, nil},
		{schema.Feature{Encode: "quantile"}, []string{"1", "2", "3"}, nil},
		{schema.Feature{Encode: "age"}, []string{"2014-10-21", "2014-10-21"}, []string{"features[0] (x): all dates of field x are the same, so the feature carries no information; remove it"}},
		{schema.Feature{Encode: "hour"}, []string{"2014-10-21", "soon", "?"}, []string{`field x: 2 of 3 values, such as "?", are not dates in the format iso and count as missing; features[].format names another`}},
		{schema.Feature{Encode: "hour"}, []string{"2014-10-21", "2014-10-22", "23.10.2014"}, []string{`the field x mixes date formats: 1 of 3 values, such as "23.10.2014" (%d.%m.%Y), are not dates in the format iso and count as missing; write all values in one format`}},
		{schema.Feature{Encode: "hour"}, []string{"2014-10-21", "20141022"}, []string{`the field x mixes date formats: 1 of 2 values, such as "20141022" (%Y%m%d), are not dates in the format iso and count as missing; write all values in one format`}},
		{schema.Feature{Encode: "hour", Format: "%m/%d/%Y"}, []string{"10/11/2014", "23/10/2014"}, []string{`field x: 1 of 2 values, such as "23/10/2014", are not dates in the format %m/%d/%Y and count as missing; features[].format: "%d/%m/%Y" reads them`}},
		{schema.Feature{Encode: "vocabulary", MinCount: 2}, []string{"a", "b", "c"}, []string{"features[0] (x): none of the 3 distinct values of field x occurs 2 times, so all share one key; lower min_count"}},
		{schema.Feature{Encode: "vocabulary", MinCount: 2}, []string{"a", "b", "b"}, nil},
		{schema.Feature{Encode: "vocabulary"}, []string{"b", "a", `" b"`, `"a "`, "a"}, []string{`features[0] (x): field x has values such as " b" and "b", which encode: vocabulary treats as different; write them without blanks at their ends`}},
		{schema.Feature{Encode: "vocabulary"}, []string{"a", `" b"`}, nil},
		{schema.Feature{Encode: "vocabulary"}, []string{"Zürich", "Z\xfcrich"}, []string{`features[0] (x): field x has values such as "Z\xfcrich", which are not UTF-8 but probably Latin-1, so they differ from the same words in other files; convert the files (iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW)`}},
		{schema.Feature{Encode: "vocabulary"}, []string{"a b", "a b"}, []string{`features[0] (x): all values of field x are "a b", so the feature carries no information; remove it`}},
		{schema.Feature{Encode: "vocabulary", MinCount: 9}, []string{"a", "a"}, []string{`features[0] (x): all values of field x are "a", so the feature carries no information; remove it`}},
		{schema.Feature{Encode: "hash"}, []string{"7", "7"}, []string{"features[0] (x): all values of field x are 7, so the feature carries no information; remove it"}},
		{schema.Feature{Encode: "hash"}, []string{"7", "7", "8", "7"}, nil},
		{schema.Feature{Encode: "hash"}, []string{"7", "", "7"}, nil}, // a missing value has a key
		{schema.Feature{Encode: "hash"}, []string{"", "7"}, nil},
		{schema.Feature{Encode: "id"}, []string{"3", "3"}, []string{"features[0] (x): all values of field x are 3, so the feature carries no information; remove it"}},
		{schema.Feature{Encode: "boundaries", Boundaries: []float64{1, 2}}, []string{"1.50", "1.5"}, []string{"features[0] (x): all values of field x are 1.5, so the feature carries no information; remove it"}},
		{schema.Feature{Encode: "month"}, []string{"2014-10-21", "2014-10-21"}, []string{`features[0] (x): all values of field x are "2014-10-21", so the feature carries no information; remove it`}},
		{schema.Feature{Encode: "hash"}, nil, nil},
		{schema.Feature{Encode: "hash"}, []string{"7", "8.0"}, []string{"features[0] (x): field x has values such as 7 and 7.0, which encode: hash treats as different; write them in one form, or use encode: id if all are integers"}},
		{schema.Feature{Encode: "hash"}, []string{"true", "False"}, []string{"features[0] (x): field x has values such as True and true, which encode: hash treats as different; write them in one form"}},
		{schema.Feature{Encode: "hash"}, []string{"7", "8.5", "007", "true"}, nil},
	} {
		x.feature.Field = "x"
		s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{x.feature}}
		r, err := NewChecker(schema.Source{Fields: []string{"x", "y"}}, []string{"x", "y"}, s.Fill())
		fatal.If(t, err)
		fit := NewFit(s)
		for _, part := range [][]string{x.values[len(x.values)/2:], x.values[:len(x.values)/2]} {
			own := fit.Empty()
			for _, v := range part {
				if fl := r.Check([]byte(v + ",1")); fl != nil {
					t.Fatal(fl)
				}
				fatal.If(t, own.Add(r))
			}
			fatal.If(t, fit.Merge(own.Marshal()))
		}
		e, err := NewEncoder(fit)
		fatal.If(t, err)
		if got := fit.Warnings(e); !slices.Equal(got, x.want) {
			t.Errorf("%s of %q: %q, want %q", x.feature.Encode, x.values, got, x.want)
		}
	}
}
