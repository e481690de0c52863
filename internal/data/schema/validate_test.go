package schema

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/golden"
)

func TestValidate(t *testing.T) {
	yes, half, nan := true, .5, math.NaN()
	ok := Feature{Field: "age", Encode: "quantile"}
	city := Feature{Field: "city", Encode: "vocabulary"}
	label := Label{Field: "click"}
	var out strings.Builder
	for _, x := range []struct {
		what string
		s    Schema
	}{
		{"good", Schema{Label: label, Features: []Feature{ok, city, {Field: "age", Encode: "standardise", Log: true}}, Crosses: []Cross{{Of: []string{"age", "city"}}}}},
		{"empty", Schema{}},
		{"label with a threshold and values", Schema{Label: Label{Field: "click", Positive: []string{"1"}, Threshold: &half}, Features: []Feature{ok}}},
		{"label with strange values", Schema{Label: Label{Field: "clik", Positive: []string{"1", "\xff"}, Negative: []string{"1"}}, Features: []Feature{ok}}},
		{"label with negatives alone", Schema{Label: Label{Field: "click", Negative: []string{"0"}}, Features: []Feature{ok}}},
		{"label with no number", Schema{Label: Label{Field: "click", Threshold: &nan}, Features: []Feature{ok}}},
		{"unknown fields", Schema{Label: label, Features: []Feature{{Field: "citty", Encode: "hash"}, {Encode: "hash"}, {Field: "click", Encode: "raw"}}}},
		{"three missing fields", Schema{Label: Label{Field: "clik"}, Features: []Feature{{Field: "a", Encode: "hash"}, {Name: "a2", Field: "a", Encode: "raw"}, {Field: "b", Encode: "hash"}, {Encode: "hash"}}}},
		{"many missing fields", Schema{Label: label, Features: []Feature{{Field: "a", Encode: "hash"}, {Field: "b", Encode: "hash"}, {Field: "c", Encode: "hash"}, {Field: "d", Encode: "hash"}}}},
		{"names in other case", Schema{Label: Label{Field: "Click"}, Features: []Feature{{Field: "AGE", Encode: "hash"}, {Field: "City", Encode: "hash"}}}},
		{"encodings", Schema{Label: label, Features: []Feature{{Field: "age", Encode: "qantile"}, {Field: "city"}, {Field: "age", Encode: "standardize"}}}},
		{"settings without meaning", Schema{Label: label, Features: []Feature{
			{Field: "age", Encode: "raw", Separator: "|", Buckets: 3, Boundaries: []float64{1}, MinCount: 2, Log: true, Table: "t", Wide: &yes, Deep: &yes},
			{Field: "age", Encode: "quantile", Separator: "|"}}}},
		{"numbers", Schema{Label: label, Features: []Feature{
			{Field: "age", Encode: "quantile", Buckets: 1}, {Name: "b", Field: "age", Encode: "boundaries"},
			{Name: "c", Field: "age", Encode: "boundaries", Boundaries: []float64{1, 1}},
			{Name: "d", Field: "age", Encode: "boundaries", Boundaries: []float64{math.Inf(1)}},
			{Field: "city", Encode: "vocabulary", MinCount: -1}}}},
		{"names", Schema{Label: label, Features: []Feature{ok, {Name: "age", Field: "city", Encode: "hash"}, {Name: "x", Field: "age", Encode: "raw"}}, Crosses: []Cross{{Name: "x", Of: []string{"age", "age"}}}}},
		{"crosses", Schema{Label: label, Features: []Feature{ok, city, {Name: "n", Field: "age", Encode: "raw"}}, Crosses: []Cross{
			{Of: []string{"age"}}, {Of: []string{"age", "ctiy"}}, {Of: []string{"n", "city"}}, {Of: strings.Split("abcdefghi", "")}}}},
	} {
		fmt.Fprintln(&out, x.what)
		for _, err := range x.s.Validate([]string{"age", "city", "click"}) {
			fmt.Fprintf(&out, "\t%v\n", err)
		}
	}
	golden.Check(t, "validate.txt", out.String())
	if faults := (Schema{Label: label, Features: []Feature{ok}}).Validate(nil); faults != nil {
		t.Errorf("with unknown fields: %v", faults)
	}
}

func TestValidateSource(t *testing.T) {
	var out strings.Builder
	for _, s := range []Source{
		{Header: true}, {Fields: []string{"a"}, Format: "tsv", Delimiter: ";"},
		{}, {Header: true, Fields: []string{"a"}}, {Header: true, Format: "tvs", Delimiter: "ab", ValidFraction: 1, Comment: "\n"},
		{Header: true, Valid: []string{"v"}, ValidFraction: .5, Delimiter: `"`}, {Header: true, ValidFraction: math.NaN()},
	} {
		fmt.Fprintf(&out, "%+v\n", s)
		for _, err := range s.Validate() {
			fmt.Fprintf(&out, "\t%v\n", err)
		}
	}
	golden.Check(t, "source.txt", out.String())
}

func TestFillTwice(t *testing.T) {
	once := Schema{
		Label: Label{Field: "y"},
		Features: []Feature{
			{Field: "age", Encode: "quantile"}, {Field: "age", Encode: "standardise"}, {Field: "city", Encode: "vocabulary"},
			{Field: "zip", Encode: "hash", Table: "places"},
		},
		Crosses: []Cross{{Of: []string{"age", "city"}}},
	}.Fill()
	if a, b := fmt.Sprintf("%+v", once), fmt.Sprintf("%+v", once.Fill()); a != b {
		t.Errorf("filled twice: %s, once: %s", b, a)
	}
	if name := once.Features[1].Name; name != "age_standardise" {
		t.Errorf("the second feature of age is called %s", name)
	}
}
