package config

import (
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/golden"
	"pgregory.net/rapid"
)

// clicks is a file as ads teams have it.
func clicks() Look {
	return Look{
		Path: "clicks.csv", All: true, Header: true, Rows: 1000, Label: "click", Positive: []string{"1"}, Missing: []string{"?"}, Comment: "#",
		Columns: []LookColumn{
			{Name: "request", Kind: "string", Distinct: 1000, Examples: []string{"9f3c", "77ab"}},
			{Name: "row", Kind: "int", Distinct: 1000, Examples: []string{"1", "2", "3", "4"}},
			{Name: "click", Kind: "int", Distinct: 2, Examples: []string{"0", "1"}},
			{Name: "country", Kind: "string", Distinct: 40, Missing: 0.125, Examples: []string{"DE", "NO"}},
			{Name: "ad_id", Kind: "int", Distinct: 700, Examples: []string{"1001"}},
			{Name: "page", Kind: "string", Distinct: 900, Examples: []string{"/a", "/b\n# c: d"}},
			{Name: "hour", Kind: "int", Distinct: 20, Examples: []string{"0", "23"}},
			{Name: "age", Kind: "int", Distinct: 70, Examples: []string{"33"}},
			{Name: "price", Kind: "float", Distinct: 980, Examples: []string{"0.99"}},
			{Name: "version", Kind: "string", Distinct: 1, Examples: []string{"v1"}},
			{Name: "age", Kind: "int", Distinct: 70, Examples: []string{"33"}},
			{Name: "", Kind: "int", Distinct: 70},
		},
	}
}

func TestSuggest(t *testing.T) {
	b := Suggest(clicks())
	if _, err := Parse("clicks.yaml", b); err != nil {
		t.Errorf("%v\n%s", err, b)
	}
	golden.Check(t, "suggest.yaml", string(b))
}

// TestSuggestOfATopic: what the comments of a topic's configuration say is what makes it
// that of a stream.
func TestSuggestOfATopic(t *testing.T) {
	l := clicks()
	l.Path, l.Format, l.Header, l.Comment, l.Missing = "kafka://broker:9092/clicks", "jsonl", false, "", nil
	text := string(Suggest(l))
	if _, err := Parse("topic.yaml", []byte(text)); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	for _, line := range strings.Split(text, "\n") {
		name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "valid_fraction", "epochs", "early_stop":
			text = strings.Replace(text, line+"\n", "", 1)
		case "# follow", "# index":
			text = strings.Replace(text, line, strings.Replace(line, "# ", "", 1), 1)
		}
	}
	c, err := Parse("topic.yaml", []byte(text))
	if err != nil || !c.Data.Follow.On || c.Data.Index == "" || c.Data.Format != "jsonl" {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestSuggestWithoutLabel: what was not found is marked CHECK, and the file is
// a configuration all the same.
func TestSuggestWithoutLabel(t *testing.T) {
	for name, x := range map[string]struct {
		label LookColumn
		want  []string
	}{
		"yes and no":    {LookColumn{Name: "member", Kind: "string", Distinct: 2, Examples: []string{"no", "yes"}}, []string{"field: member   # CHECK", "positive: [yes]\n", "negative: [no]  "}},
		"unknown words": {LookColumn{Name: "class", Kind: "string", Distinct: 2, Examples: []string{"<=50K", ">50K"}}, []string{`positive: [">50K"]   # CHECK`, `negative: ["<=50K"]  `}},
		"stars":         {LookColumn{Name: "stars", Kind: "int", Distinct: 5, Examples: []string{"1", "5"}}, []string{"threshold: 4              # CHECK"}},
		"nothing known": {LookColumn{Name: "last", Kind: "string", Distinct: 9}, []string{`positive: ["1"]   # CHECK`, "# Without a list of negative values"}},
	} {
		l := Look{Path: "x.tsv", Delimiter: "\t", Rows: 100, Columns: []LookColumn{{Name: "a", Kind: "string", Distinct: 5}, x.label}}
		b := Suggest(l)
		if _, err := Parse("x.yaml", b); err != nil {
			t.Errorf("%s: %v\n%s", name, err, b)
		}
		for _, want := range append(x.want, "format: tsv", "fields: [a, "+x.label.Name+"]", "{field: a, encode: vocabulary}") {
			if !strings.Contains(string(b), want) {
				t.Errorf("%s: no %q in\n%s", name, want, b)
			}
		}
	}
}

// TestSuggestSure: a label that was seen is marked all the same, unless its name
// says what it is.
func TestSuggestSure(t *testing.T) {
	for name, sure := range map[string]bool{"click": true, "label": true, "gender": false, "column_1": false} {
		l := Look{Path: "x.csv", Header: true, Rows: 100, Label: name, Positive: []string{"1"}, Columns: []LookColumn{
			{Name: name, Kind: "int", Distinct: 2, Examples: []string{"0", "1"}}, {Name: "a", Kind: "string", Distinct: 5}}}
		b := string(Suggest(l))
		if strings.Contains(b, "CHECK") == sure || !strings.Contains(b, `positive: ["1"]`+"\n") {
			t.Errorf("%s: sure is %v in\n%s", name, sure, b)
		}
	}
}

// TestSuggestCounted: of labels 1 and 2 nobody knows which is the yes.
func TestSuggestCounted(t *testing.T) {
	for other, sure := range map[string]bool{"0": true, "-1": true, "2": false} {
		l := Look{Path: "x.libsvm", Format: "libsvm", Rows: 100, Label: "label", Positive: []string{"1"}, Columns: []LookColumn{
			{Name: "label", Kind: "int", Distinct: 2, Examples: []string{"1", other}}, {Name: "features", Kind: "int", Distinct: 5, Many: true}}}
		if b := string(Suggest(l)); strings.Contains(b, "CHECK") == sure || !strings.Contains(b, `positive: ["1"]`) {
			t.Errorf("1 and %s: sure is %v in\n%s", other, sure, b)
		}
	}
}

// TestSuggestWeights: real numbers beside LibSVM's indices weigh them.
func TestSuggestWeights(t *testing.T) {
	for distinct, want := range map[int]string{1: "{field: features, encode: id}", 9: "{field: features, encode: id, weights: values}"} {
		b := Suggest(Look{Path: "x.libsvm", Format: "libsvm", Rows: 100, Label: "label", Positive: []string{"1"}, Columns: []LookColumn{
			{Name: "label", Kind: "int", Distinct: 2, Examples: []string{"0", "1"}},
			{Name: "features", Kind: "int", Distinct: 500, Many: true}, {Name: "values", Kind: "float", Distinct: distinct, Many: true}}})
		if _, err := Parse("x.yaml", b); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%v: no %s in\n%s", err, want, b)
		}
	}
}

// TestSuggestColumns: how single columns become features.
func TestSuggestColumns(t *testing.T) {
	for want, c := range map[string]LookColumn{
		`{field: genres, encode: vocabulary, separator: "|"}`:                             {Name: "genres", Kind: "string", Distinct: 900, Separator: "|"},
		`{field: tags, encode: hash, separator: "^"}`:                                     {Name: "tags", Kind: "string", Distinct: 2000, Separator: "^"},
		"{field: start_hour, encode: vocabulary}   # integers, 24 different\n":            {Name: "start_hour", Kind: "int", Distinct: 24},
		"{field: rare, encode: vocabulary}   # integers, 1 different, nearly all missing": {Name: "rare", Kind: "int", Distinct: 1, Missing: 0.9999},
		"{field: customer, encode: vocabulary}":                                           {Name: "customer", Kind: "int", Distinct: 700},
		"{field: brand, encode: hash}":                                                    {Name: "brand", Kind: "int", Distinct: 1200},
		"{field: pickup_census_tract, encode: vocabulary}":                                {Name: "pickup_census_tract", Kind: "float", Distinct: 400},
		"{field: amount, encode: quantile}":                                               {Name: "amount", Kind: "int", Distinct: 700},
		"# - {field: empty, encode: hash}   # left out: it has no value":                  {Name: "empty", Kind: "string", Missing: 1},
		"# - {field: one, encode: hash}   # left out: it has one value":                   {Name: "one", Kind: "int", Distinct: 1},
	} {
		l := Look{Path: "x.csv", Header: true, Rows: 2000, Label: "y", Columns: []LookColumn{{Name: "y", Kind: "int", Distinct: 2, Examples: []string{"1"}}, {Name: "a", Kind: "string", Distinct: 5}, c}}
		b := Suggest(l)
		if _, err := Parse("x.yaml", b); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if !strings.Contains(string(b), want) || strings.Contains(string(b), "standardise") != (c.Name == "amount") {
			t.Errorf("no %s in\n%s", want, b)
		}
	}
}

// TestSuggestNames: columns called as features would be.
func TestSuggestNames(t *testing.T) {
	l := Look{Path: "x.csv", Header: true, Rows: 100, Label: "y", Positive: []string{"1"}, Columns: []LookColumn{
		{Name: "a_standardise", Kind: "string", Distinct: 3}, {Name: "a", Kind: "float", Distinct: 50}, {Name: "a_quantile", Kind: "string", Distinct: 3}, {Name: "y", Kind: "int", Distinct: 2},
	}}
	c, err := Parse("x", Suggest(l))
	if err != nil {
		t.Fatal(err)
	}
	c.Fill()
	var names []string
	for _, f := range c.Features {
		names = append(names, f.Name)
	}
	if got, want := strings.Join(names, " "), "a_standardise a a_standardise_2 a_quantile"; got != want {
		t.Errorf("names %s, want %s", got, want)
	}
}

// TestSuggestParses: whatever was seen, the result is a configuration as soon as
// there are two columns whose names can be used.
func TestSuggestParses(t *testing.T) {
	name := rapid.OneOf(rapid.StringN(0, 10, -1), rapid.SampledFrom([]string{"a", "a_standardise", "a_quantile", "a_standardise_vocabulary", "id", "userId", "column_1", "column_2", "", "\xff", "a: b", "# x", "\n", "true", "1"}))
	column := rapid.Custom(func(t *rapid.T) LookColumn {
		return LookColumn{
			Name: name.Draw(t, "name"), Kind: rapid.SampledFrom([]string{"int", "float", "string", ""}).Draw(t, "kind"),
			Distinct: rapid.IntRange(0, 1000).Draw(t, "distinct"), Missing: rapid.Float64Range(0, 1).Draw(t, "missing"),
			Examples:  rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.Just("\xff")), 0, 4).Draw(t, "examples"),
			Separator: rapid.SampledFrom([]string{"", "|", "^", "\n", "\xff"}).Draw(t, "separator"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		l := Look{
			Path:      "dir/" + rapid.String().Draw(t, "path"),
			More:      rapid.SliceOfN(rapid.Map(rapid.String(), func(s string) string { return "more/" + s }), 0, 3).Draw(t, "more"),
			Delimiter: rapid.SampledFrom([]string{"", ",", "\t", ";", "|", " "}).Draw(t, "delimiter"),
			Header:    rapid.Bool().Draw(t, "header"), Rows: rapid.IntRange(0, 1000).Draw(t, "rows"),
			Columns: append(rapid.SliceOfN(column, 0, 8).Draw(t, "columns"),
				LookColumn{Name: "usable", Kind: "string", Distinct: 1}, LookColumn{Name: "usable too", Kind: "int", Distinct: 2}),
			Comment: rapid.OneOf(rapid.Just(""), rapid.String()).Draw(t, "comment"),
			Missing: rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "missing"),
		}
		label := l.Columns[rapid.IntRange(0, len(l.Columns)-1).Draw(t, "label")]
		if rapid.Bool().Draw(t, "found") {
			l.Label, l.Positive = label.Name, rapid.SliceOfN(rapid.String(), 0, 2).Draw(t, "positive")
		}
		b := Suggest(l)
		if _, err := Parse("suggested.yaml", b); err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
	})
}

// TestWhere: what was looked at is said as it was.
func TestWhere(t *testing.T) {
	same := func(path string) string { return path }
	for want, l := range map[string]Look{
		"all 9 rows of a":                          {Path: "a", Rows: 9, All: true},
		"9 rows of a":                              {Path: "a", Rows: 9, Files: 1},
		"1 row of a":                               {Path: "a", Rows: 1, Files: 1, All: true},
		"9 rows of 2 of the 3 files of a*":         {Path: "a*", Rows: 9, Files: 3, Names: []string{"a1", "a3"}},
		"all 9 rows of the 2 files of a*":          {Path: "a*", Rows: 9, Files: 2, Names: []string{"a1", "a3"}, All: true},
		"all 9 rows of the 2 files a, b":           {Path: "a", More: []string{"b"}, Rows: 9, Files: 2, Names: []string{"a", "b"}, All: true},
		"9 rows of 2 of the 5 files a … e":         {Path: "a", More: []string{"b", "c", "d", "e"}, Rows: 9, Files: 5, Names: []string{"a", "e"}},
		"9 rows of the 2 partitions of kafka://b/": {Path: "kafka://b/", Rows: 9, Files: 2, Names: []string{"0", "1"}},
	} {
		if got := l.Where(same); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestSuggestWithoutValues: a column without values is no feature, and objects and
// decimal commas are named.
func TestSuggestWithoutValues(t *testing.T) {
	l := Look{Path: "x.jsonl", Format: "jsonl", Rows: 100, Label: "click", Unread: []string{"user is an object; flatten it (e.g. with jq)"}, Columns: []LookColumn{
		{Name: "click", Kind: "int", Distinct: 2, Examples: []string{"0", "1"}}, {Name: "t", Kind: "string", Missing: 1}}}
	if b := string(Suggest(l)); Learnable(l) || strings.Contains(b, "  - {field") || !strings.Contains(b, "# not read: user is an object; flatten it") {
		t.Errorf("%s", b)
	}
	l.Columns = append(l.Columns, LookColumn{Name: "price", Kind: "string", Distinct: 9, Examples: []string{"0,7", "1,25"}})
	if b := string(Suggest(l)); !Learnable(l) || !strings.Contains(b, "{field: price, encode: vocabulary}   # CHECK: numbers with a comma are texts here; write them with a point; texts") {
		t.Errorf("%s", b)
	}
	l.Format, l.Delimiter, l.Unread = "csv", ";", nil
	if b := string(Suggest(l)); !strings.Contains(b, `write them with a point (sed -E 's/([0-9]),([0-9])/\1.\2/g' FILE > NEW), then init -data NEW; texts`) {
		t.Errorf("%s", b)
	}
}
