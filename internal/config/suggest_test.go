package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/signal"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
	"pgregory.net/rapid"
)

// clicks is the inspection of a typical click log.
func clicks() *inspect.Inspection {
	return &inspect.Inspection{
		Path: "clicks.csv", Stored: inspect.Stored{All: true}, Header: true, Rows: 1000, Label: "click", Sure: true, Certain: true, Positive: []string{"1"}, Missing: []string{"?"}, Comment: "#",
		Columns: []inspect.Column{
			{Name: "request", Kind: "string", Distinct: 1000, Examples: []string{"9f3c", "77ab"}},
			{Name: "row", Kind: "int", Integers: true, Distinct: 1000, Examples: []string{"1", "2", "3", "4"}},
			{Name: "click", Kind: "int", Distinct: 2, Examples: []string{"0", "1"}},
			{Name: "country", Kind: "string", Distinct: 40, Missing: 0.125, Examples: []string{"DE", "NO"}},
			{Name: "ad_id", Kind: "int", Integers: true, Distinct: 700, Examples: []string{"1001"}},
			{Name: "page", Kind: "string", Distinct: 900, Examples: []string{"/a", "/b\n# c: d"}},
			{Name: "hour", Kind: "int", Integers: true, Distinct: 20, Examples: []string{"0", "23"}},
			{Name: "age", Kind: "int", Integers: true, Shape: inspect.Amount, Distinct: 70, Examples: []string{"33"}},
			{Name: "price", Kind: "float", Distinct: 980, Examples: []string{"0.99"}},
			{Name: "version", Kind: "string", Distinct: 1, Examples: []string{"v1"}},
			{Name: "age", Kind: "int", Integers: true, Shape: inspect.Amount, Distinct: 70, Examples: []string{"33"}},
			{Name: "", Kind: "int", Distinct: 70},
		},
	}
}

func TestSuggest(t *testing.T) {
	b := Suggest(clicks(), "")
	if _, err := Parse("clicks.yaml", b); err != nil {
		t.Errorf("%v\n%s", err, b)
	}
	golden.Check(t, "suggest.yaml", string(b))
}

// TestSuggestToFollow: a configuration for files that grow has an index, and no key that a
// stream rejects. The error for a topic names the flag.
func TestSuggestToFollow(t *testing.T) {
	l := clicks()
	l.Path, l.Format, l.Header, l.Comment, l.Missing = "kafka://broker:9092/clicks", "jsonl", false, "", nil
	once := Suggest(l, "")
	if c, err := Parse("topic.yaml", once); err != nil || c.Data.Follow.On || !strings.Contains(string(once), "init -follow") {
		t.Errorf("%v\n%s", err, once)
	}
	text := Suggest(l, "a b.index")
	c, err := Parse("topic.yaml", text)
	if err != nil || !c.Data.Follow.On || c.Data.Index != "a b.index" || c.Data.Format != "jsonl" || c.Data.ValidFraction != 0 || c.Train.EarlyStop.Patience != 0 {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestTimesAreNotFollowed: a column whose values grow with each record is a feature only if it
// is not followed: new records have values that the index has not seen.
func TestTimesAreNotFollowed(t *testing.T) {
	l := clicks()
	l.Columns = append(l.Columns,
		inspect.Column{Name: "sequence", Kind: "float", Distinct: 900, Grows: true},
		inspect.Column{Name: "day", Kind: "string", Distinct: 5, Dates: inspect.Dates{Format: "iso", Ordered: true, Days: 5}},
		inspect.Column{Name: "born", Kind: "string", Distinct: 5, Dates: inspect.Dates{Format: "iso", Days: 5}})
	for index, want := range map[string][]string{
		"":       {"sequence, encode: quantile", "day, encode: age", "born, encode: age"},
		"x.yaml": {"# - {field: sequence, encode: hash}   # left out: its values grow", "# - {field: day, encode: hash}   # left out: its values grow", "- {field: born, encode: age}"},
	} {
		text := string(Suggest(l, index))
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("index %q: no %q in\n%s", index, w, text)
			}
		}
	}
}

// TestSuggestLabel: what names and values do not determine is marked CHECK.
func TestSuggestLabel(t *testing.T) {
	four := 4.0
	for name, x := range map[string]struct {
		in   inspect.Inspection
		want string
	}{
		"sure":      {inspect.Inspection{Label: "y", Sure: true, Certain: true, Positive: []string{"1"}}, "field: y\n  positive: [\"1\"]\n  negative: [\"0\"]  "},
		"no name":   {inspect.Inspection{Label: "y", Certain: true, Positive: []string{"1"}}, "field: y   # CHECK: a guess"},
		"no value":  {inspect.Inspection{Label: "y", Sure: true, Positive: []string{"1"}}, "positive: [\"1\"]   # CHECK: which value is the 1?"},
		"threshold": {inspect.Inspection{Label: "y", Threshold: &four}, "threshold: 4              # CHECK"},
		"none":      {inspect.Inspection{}, "field: y   # CHECK: a guess"},
	} {
		l := &x.in
		l.Path, l.Delimiter, l.Rows = "x.tsv", "\t", 100
		l.Columns = []inspect.Column{{Name: "a", Kind: "string", Distinct: 5}, {Name: "y", Kind: "int", Distinct: 2, Examples: []string{"0", "1"}}}
		b := Suggest(l, "")
		if _, err := Parse("x.yaml", b); err != nil {
			t.Errorf("%s: %v\n%s", name, err, b)
		}
		for _, want := range []string{x.want, "format: tsv", "fields: [a, y]", "{field: a, encode: vocabulary}"} {
			if !strings.Contains(string(b), want) {
				t.Errorf("%s: no %q in\n%s", name, want, b)
			}
		}
	}
}

// TestSuggestLabelOfManyValues: a label of several formats, classes or without zeros is marked
// with its values and the correction.
func TestSuggestLabelOfManyValues(t *testing.T) {
	for _, x := range []struct {
		label inspect.Column
		in    inspect.Inspection
		want  string
	}{
		{inspect.Column{Distinct: 4}, inspect.Inspection{Positive: []string{"1", "true"}, Negative: []string{"0", "false"}}, "  positive: [\"1\", \"true\"]   # CHECK: several formats of each class\n  negative: [\"0\", \"false\"]\n"},
		{inspect.Column{Distinct: 3, Examples: []string{"none", "view", "buy"}}, inspect.Inspection{Positive: []string{"buy"}}, "# CHECK: which value is the 1? 3 distinct: \"none\" \"view\" \"buy\"\n"},
		{inspect.Column{Distinct: 2, Missing: 0.16, Examples: []string{"no", "yes"}}, inspect.Inspection{Positive: []string{"yes"}}, "16 % of its values are missing; to leave out these rows, add where: \"not missing(`clicked at`)\" to data\n"},
		{inspect.Column{Distinct: 3, Missing: 0.9, Examples: []string{"minor", "medium", "high"}}, inspect.Inspection{Positive: []string{"high"}, Missing: []string{"None"}}, "to data; if a missing value is a class, remove its word from data.missing\n"},
		{inspect.Column{Distinct: 1, Missing: 0.65, Examples: []string{"1"}}, inspect.Inspection{Positive: []string{"1"}}, "65 % are missing; if a missing value means 0, add derive: {label: \"if(missing(`clicked at`), 0, 1)\"} to data"},
	} {
		l := &x.in
		l.Path, l.Rows, l.Header, l.Label, l.Sure = "x.csv", 100, true, "clicked at", true
		x.label.Name, x.label.Kind = l.Label, "string"
		l.Columns = []inspect.Column{{Name: "a", Kind: "string", Distinct: 5}, x.label}
		b := Suggest(l, "")
		if _, err := Parse("x.yaml", b); err != nil || !strings.Contains(string(b), x.want) {
			t.Errorf("%v: no %s in\n%s", err, x.want, b)
		}
	}
}

// TestSuggestSampleWeight: a column named like the weights of samples is no feature, unless a
// weight is missing.
func TestSuggestSampleWeight(t *testing.T) {
	for missing, want := range map[float64]string{0: "  weight: sample_weight     # CHECK", 0.1: "{field: sample_weight, encode: quantile}"} {
		b := Suggest(&inspect.Inspection{Path: "x.csv", Header: true, Rows: 100, Label: "y", Sure: true, Positive: []string{"1"}, Columns: []inspect.Column{
			{Name: "y", Kind: "int", Distinct: 2, Examples: []string{"0", "1"}}, {Name: "a", Kind: "string", Distinct: 5},
			{Name: "sample_weight", Kind: "float", Distinct: 30, Max: 7, Missing: missing}}}, "")
		if _, err := Parse("x.yaml", b); err != nil || !strings.Contains(string(b), want) || strings.Count(string(b), "sample_weight") != 1+int(10*missing) {
			t.Errorf("%v: no %s in\n%s", err, want, b)
		}
	}
}

// TestSuggestBySize: settings that cost time for each record, or for each row of the tables in each step, depend
// on the numbers of both.
func TestSuggestBySize(t *testing.T) {
	for _, x := range []struct {
		records  int64
		distinct int
		want     []string
	}{
		{200_000, 90, []string{"  refit: true  ", "mode: dense"}},
		{200_000, 70_000, []string{"  refit: true  ", "{deep: 0.001}"}},
		{900_000, 90, []string{"  refit: true  ", "{deep: 0.001}"}},
		{2_000_000, 90, []string{"  # refit: true  ", "{deep: 0.001}"}},
	} {
		b := Suggest(&inspect.Inspection{Path: "x.csv", Format: "csv", Delimiter: ",", Header: true, Rows: 200_000, Label: "y", Positive: []string{"1"}, Stored: inspect.Stored{Records: x.records}, Columns: []inspect.Column{
			{Name: "y", Kind: "int", Integers: true, Distinct: 2, Examples: []string{"0", "1"}},
			{Name: "site", Kind: "string", Distinct: x.distinct, Examples: []string{"a", "b"}}}}, "")
		_, err := Parse("x.yaml", b)
		for _, want := range x.want {
			if err != nil || !strings.Contains(string(b), want) {
				t.Errorf("%d records, %d values: no %q in %s, %v", x.records, x.distinct, want, b, err)
			}
		}
	}
}

// TestSuggestWeights: real numbers of LibSVM are weights of the indices.
func TestSuggestWeights(t *testing.T) {
	for distinct, want := range map[int]string{1: "{field: features, encode: id}", 9: "{field: features, encode: id, weights: values}"} {
		b := Suggest(&inspect.Inspection{Path: "x.libsvm", Format: "libsvm", Rows: 100, Label: "label", Positive: []string{"1"}, Columns: []inspect.Column{
			{Name: "label", Kind: "int", Distinct: 2, Examples: []string{"0", "1"}},
			{Name: "features", Kind: "int", Distinct: 500, Many: true}, {Name: "values", Kind: "float", Distinct: distinct, Many: true}}}, "")
		if _, err := Parse("x.yaml", b); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%v: no %s in\n%s", err, want, b)
		}
	}
}

// TestSuggestColumns: how single columns become features.
func TestSuggestColumns(t *testing.T) {
	for want, c := range map[string]inspect.Column{
		`{field: genres, encode: vocabulary, separator: "|"}`:                                      {Name: "genres", Kind: "string", Distinct: 900, Separator: "|"},
		`{field: tags, encode: hash, separator: "^"}`:                                              {Name: "tags", Kind: "string", Distinct: 2000, Separator: "^"},
		`{field: recent, encode: hash, separator: " "}   # CHECK: treated as lists`:                {Name: "recent", Kind: "string", Distinct: 2000, Separator: " ", Parts: "int"},
		"# - {field: shares, encode: hash}   # left out: lists of numbers":                         {Name: "shares", Kind: "string", Distinct: 2000, Separator: " ", Parts: "float"},
		"write the values without brackets and quotes":                                             {Name: "printed", Kind: "string", Distinct: 20, Separator: ",", Parts: "string", Examples: []string{"['a'"}},
		"{field: start_hour, encode: vocabulary}   # integers, 24 distinct\n":                      {Name: "start_hour", Kind: "int", Integers: true, Distinct: 24},
		"{field: rare, encode: vocabulary}   # integers, 1 distinct, nearly all missing":           {Name: "rare", Kind: "int", Integers: true, Distinct: 1, Missing: 0.9999},
		"{field: customer, encode: vocabulary}   # integers":                                       {Name: "customer", Kind: "int", Integers: true, Distinct: 700},
		"{field: brand, encode: hash}":                                                             {Name: "brand", Kind: "int", Integers: true, Distinct: 1200},
		"{field: store_id, encode: vocabulary}   # numbers":                                        {Name: "store_id", Kind: "float", Integers: true, Distinct: 400},
		"{field: amount, encode: quantile}   # integers":                                           {Name: "amount", Kind: "int", Integers: true, Distinct: 400, Shape: inspect.Amount},
		"{field: shop, encode: vocabulary}   # CHECK: treated as identifiers":                      {Name: "shop", Kind: "int", Integers: true, Distinct: 400, Shape: inspect.Identifier},
		"{field: song, encode: hash}   # CHECK: treated as identifiers":                            {Name: "song", Kind: "int", Integers: true, Distinct: 1200, Shape: inspect.Identifier},
		"{field: unclear, encode: vocabulary}   # CHECK: identifiers or amounts?":                  {Name: "unclear", Kind: "int", Integers: true, Distinct: 400},
		"{field: movie, encode: hash}   # CHECK: identifiers or amounts? rows of the same":         {Name: "movie", Kind: "int", Integers: true, Distinct: 1500, Likeness: 5.7, Single: 0.2},
		"{field: weight, encode: standardise}   # integers, 1500":                                  {Name: "weight", Kind: "int", Integers: true, Distinct: 1500, Likeness: 7.9, Single: 0.7},
		"{field: many, encode: standardise}   # integers":                                          {Name: "many", Kind: "int", Integers: true, Distinct: 1500},
		"{field: hour, encode: weekday}   # dates (%y%m%d%H), hours are in UTC unless zone is set": {Name: "hour", Kind: "int", Integers: true, Distinct: 240, Dates: inspect.Dates{Format: "%y%m%d%H", Hours: true, Days: 9, Ordered: true}},
		"{field: joined, encode: age}   # dates (iso)":                                             {Name: "joined", Kind: "string", Distinct: 900, Dates: inspect.Dates{Format: "iso", Days: 900}},
		"# - {field: empty, encode: hash}   # left out: it has no value":                           {Name: "empty", Kind: "string", Missing: 1},
		"# - {field: ym, encode: hash}   # left out: it is the month of a folder":                  {Name: "ym", Kind: "string", Distinct: 3, Folder: true, Examples: []string{"2000-05", "2000-06"}},
		"# - {field: sent, encode: hash}   # CHECK: dates with the day of the week are strings":    {Name: "sent", Kind: "string", Distinct: 2000, Examples: []string{"Fri, 02 Jan 2026 00:22:54 GMT", "Sun, 4 Jan 2026 03:06:30 GMT"}},
		"{field: clock, encode: hash}   # CHECK: times of day are strings":                         {Name: "clock", Kind: "string", Distinct: 1200, Examples: []string{"00:17:32", "9:31"}},
		"{field: score, encode: vocabulary}   # strings":                                           {Name: "score", Kind: "string", Distinct: 900, Examples: []string{"00:17:32", "2:1:0"}},
		"# - {field: hour, encode: hash}   # left out: it is a part of the date of a folder":       {Name: "hour", Kind: "string", Distinct: 24, Folder: true, Dated: true, Examples: []string{"00", "01"}},
		"# - {field: dt, encode: hash}   # left out: it is the date of a folder":                   {Name: "dt", Kind: "string", Distinct: 3, Folder: true, Dates: inspect.Dates{Format: "iso", Days: 3, Ordered: true}},
		"{field: day, encode: weekday}   # from the names of folders: dates (iso)":                 {Name: "day", Kind: "string", Distinct: 30, Folder: true, Dates: inspect.Dates{Format: "iso", Days: 29}},
		"{field: region, encode: vocabulary}   # from the names of folders":                        {Name: "region", Kind: "string", Distinct: 3, Folder: true, Examples: []string{"eu", "2000-06"}},
		"# - {field: one, encode: hash}   # left out: it has only one value":                       {Name: "one", Kind: "int", Integers: true, Distinct: 1},
		"{field: amount, encode: standardise, log: true}   # integers, 1500":                       {Name: "amount", Kind: "int", Integers: true, Distinct: 1500, LongTail: true},
		"{field: refund, encode: vocabulary}   # CHECK: may reveal the label: it is missing exactly where": {
			Name: "refund", Kind: "string", Distinct: 3, Signal: signal.Signal{Known: true, Absence: true}},
	} {
		l := &inspect.Inspection{Path: "x.csv", Header: true, Rows: 2000, Label: "y", Columns: []inspect.Column{{Name: "y", Kind: "int", Distinct: 2, Examples: []string{"1"}}, {Name: "a", Kind: "string", Distinct: 5}, c}}
		b := Suggest(l, "")
		if _, err := Parse("x.yaml", b); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		amount := slices.Contains([]string{"amount", "unclear", "many", "movie", "weight"}, c.Name)
		if !strings.Contains(string(b), want) || strings.Contains(string(b), "standardise") != amount {
			t.Errorf("no %s in\n%s", want, b)
		}
	}
}

// TestSuggestNames: columns whose names are default names of features.
func TestSuggestNames(t *testing.T) {
	l := &inspect.Inspection{Path: "x.csv", Header: true, Rows: 100, Label: "y", Positive: []string{"1"}, Columns: []inspect.Column{
		{Name: "a_standardise", Kind: "string", Distinct: 3}, {Name: "a", Kind: "float", Distinct: 50}, {Name: "a_quantile", Kind: "string", Distinct: 3}, {Name: "y", Kind: "int", Distinct: 2},
	}}
	c, err := Parse("x", Suggest(l, ""))
	fatal.If(t, err)
	c.Fill()
	var names []string
	for _, f := range c.Features {
		names = append(names, f.Name)
	}
	if got, want := strings.Join(names, " "), "a_standardise a a_standardise_2 a_quantile"; got != want {
		t.Errorf("names %s, want %s", got, want)
	}
}

// TestSuggestParses: the result is a valid configuration if at least two columns have usable
// names.
func TestSuggestParses(t *testing.T) {
	name := rapid.OneOf(rapid.StringN(0, 10, -1), rapid.SampledFrom([]string{"a", "a_standardise", "a_quantile", "a_standardise_vocabulary", "id", "userId", "column_1", "column_2", "", "\xff", "a: b", "# x", "\n", "true", "1"}))
	column := rapid.Custom(func(t *rapid.T) inspect.Column {
		return inspect.Column{
			Name: name.Draw(t, "name"), Kind: rapid.SampledFrom([]string{"int", "float", "string", ""}).Draw(t, "kind"),
			Distinct: rapid.IntRange(0, 1000).Draw(t, "distinct"), Missing: rapid.Float64Range(0, 1).Draw(t, "missing"),
			Examples:  rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.Just("\xff")), 0, 4).Draw(t, "examples"),
			Separator: rapid.SampledFrom([]string{"", "|", "^", "\n", "\xff"}).Draw(t, "separator"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		l := &inspect.Inspection{
			Path:      "dir/" + rapid.String().Draw(t, "path"),
			More:      rapid.SliceOfN(rapid.Map(rapid.String(), func(s string) string { return "more/" + s }), 0, 3).Draw(t, "more"),
			Delimiter: rapid.SampledFrom([]string{"", ",", "\t", ";", "|", " "}).Draw(t, "delimiter"),
			Header:    rapid.Bool().Draw(t, "header"), Rows: rapid.IntRange(0, 1000).Draw(t, "rows"),
			Columns: append(rapid.SliceOfN(column, 0, 8).Draw(t, "columns"),
				inspect.Column{Name: "usable", Kind: "string", Distinct: 1}, inspect.Column{Name: "usable too", Kind: "int", Distinct: 2}),
			Comment: rapid.OneOf(rapid.Just(""), rapid.String()).Draw(t, "comment"),
			Missing: rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "missing"),
		}
		label := l.Columns[rapid.IntRange(0, len(l.Columns)-1).Draw(t, "label")]
		if rapid.Bool().Draw(t, "found") {
			l.Label, l.Positive = label.Name, rapid.SliceOfN(rapid.String(), 0, 2).Draw(t, "positive")
		}
		b := Suggest(l, "")
		if _, err := Parse("suggested.yaml", b); err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
	})
}

// TestLookedAt: the description names the inspected files and rows.
func TestLookedAt(t *testing.T) {
	same := func(path string) string { return path }
	for want, l := range map[string]*inspect.Inspection{
		"all 9 rows of a":                          {Path: "a", Rows: 9, Stored: inspect.Stored{All: true}},
		"9 rows of a":                              {Path: "a", Rows: 9, Files: 1},
		"1 row of a":                               {Path: "a", Rows: 1, Files: 1, Stored: inspect.Stored{All: true}},
		"9 rows (2 more could not be read) of a":   {Path: "a", Rows: 9, Ragged: 2, Stored: inspect.Stored{All: true}},
		"9 rows of 2 of the 3 files of a*":         {Path: "a*", Rows: 9, Files: 3, Names: []string{"a1", "a3"}},
		"all 9 rows of the 2 files of a*":          {Path: "a*", Rows: 9, Files: 2, Names: []string{"a1", "a3"}, Stored: inspect.Stored{All: true}},
		"all 9 rows of the 2 files a, b":           {Path: "a", More: []string{"b"}, Rows: 9, Files: 2, Names: []string{"a", "b"}, Stored: inspect.Stored{All: true}},
		"9 rows of 2 of the 5 files a … e":         {Path: "a", More: []string{"b", "c", "d", "e"}, Rows: 9, Files: 5, Names: []string{"a", "e"}},
		"9 rows of the 2 partitions of kafka://b/": {Path: "kafka://b/", Rows: 9, Files: 2, Names: []string{"0", "1"}},
	} {
		if got := LookedAt(l, same); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestSuggestWithoutValues: a column without values gets no feature; objects and decimal
// commas are reported.
func TestSuggestWithoutValues(t *testing.T) {
	l := &inspect.Inspection{Path: "x.jsonl", Format: "jsonl", Rows: 100, Label: "click", Unread: []string{"items is a list of objects or lists; flatten it (e.g. with jq)"}, Columns: []inspect.Column{
		{Name: "click", Kind: "int", Distinct: 2, Examples: []string{"0", "1"}}, {Name: "t", Kind: "string", Missing: 1}}}
	if b := string(Suggest(l, "")); Learnable(l) || strings.Contains(b, "  - {field") || !strings.Contains(b, "# not read: items is a list of objects or lists; flatten it") {
		t.Errorf("%s", b)
	}
	l.Columns = append(l.Columns, inspect.Column{Name: "constant", Kind: "int", Distinct: 1, Examples: []string{"7"}})
	if Learnable(l) {
		t.Error("a constant column predicts something")
	}
	l.Columns = append(l.Columns, inspect.Column{Name: "price", Kind: "string", Distinct: 9, Examples: []string{"0,7", "1,25"}})
	if b := string(Suggest(l, "")); !Learnable(l) || !strings.Contains(b, "{field: price, encode: vocabulary}   # CHECK: numbers with a comma are strings; write them with a point; strings") {
		t.Errorf("%s", b)
	}
	l.Format, l.Delimiter, l.Unread = "csv", ";", nil
	if b := string(Suggest(l, "")); !strings.Contains(b, `write them with a point (sed -E 's/([0-9]),([0-9])/\1.\2/g' FILE > NEW), then init -data NEW; strings`) {
		t.Errorf("%s", b)
	}
}

// TestSuggestIDsWrittenAsFloats: integers that have lost digits are marked, others are not.
func TestSuggestIDsWrittenAsFloats(t *testing.T) {
	for _, x := range []struct {
		max  float64
		kind string
		want bool
	}{{1 << 53, "float", true}, {1<<53 - 1, "float", false}, {1 << 60, "int", false}} {
		in := &inspect.Inspection{Path: "x.csv", Rows: 100, Header: true, Label: "click", Sure: true, Certain: true, Positive: []string{"1"}, Negative: []string{"0"}}
		in.Columns = []inspect.Column{
			{Name: "id", Kind: x.kind, Distinct: 8, Integers: true, Max: x.max, Examples: []string{"7.205759403792794e+16"}},
			{Name: "click", Kind: "int", Distinct: 2, Examples: []string{"0", "1"}},
		}
		if b := Suggest(in, ""); strings.Contains(string(b), "CHECK: integers of 2^53 or more") != x.want {
			t.Errorf("%s up to %g:\n%s", x.kind, x.max, b)
		}
	}
}
