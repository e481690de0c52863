package data

import (
	"context"
	"math"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

var adultFields = []string{
	"age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship",
	"race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
}

var (
	adultNumbers = []string{"age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"}
	adultWords   = []string{"workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "native_country"}
)

func adultSource() schema.Source {
	return schema.Source{Comment: "|", Missing: []string{"?"}, Fields: adultFields}
}

// adultSchema returns the schema of the embedded configuration.
func adultSchema() schema.Schema {
	s := schema.Schema{Label: schema.Label{Field: "income", Positive: []string{">50K", ">50K."}, Negative: []string{"<=50K", "<=50K."}}}
	for _, f := range adultWords {
		s.Features = append(s.Features, schema.Feature{Field: f, Encode: "vocabulary"})
	}
	for _, f := range adultNumbers {
		s.Features = append(s.Features, schema.Feature{Field: f, Encode: "quantile"},
			schema.Feature{Field: f, Encode: "standardise", Log: f == "capital_gain" || f == "capital_loss"})
	}
	s.Crosses = []schema.Cross{{Of: []string{"education", "occupation"}}, {Of: []string{"age", "hours_per_week", "sex"}}}
	return s
}

// prepare opens, scans in parts and counts a dataset.
func prepare(t testing.TB, src schema.Source, s schema.Schema, parts int, patterns ...string) (*Dataset, *encode.Fit) {
	t.Helper()
	return prepareWithin(t, limits{minGroup, maxHeld}, src, s, parts, patterns...)
}

// tiny limits keep even a small dataset from being shuffled as a whole.
var tiny = limits{1 << 10, 0}

func prepareWithin(t testing.TB, limits limits, src schema.Source, s schema.Schema, parts int, patterns ...string) (*Dataset, *encode.Fit) {
	t.Helper()
	d, err := Open(src, s, patterns)
	fatal.If(t, err)
	d.limits = limits
	fit, c := scanAll(t, d, s, parts)
	fatal.If(t, d.Use(c))
	return d, fit
}

// scanAll scans the parts, the last first, and merges them through their
// encoded form.
func scanAll(t testing.TB, d *Dataset, s schema.Schema, parts int) (*encode.Fit, *Counts) {
	t.Helper()
	fit, counts := encode.NewFit(s), new(Counts)
	for p := parts - 1; p >= 0; p-- {
		f := encode.NewFit(s)
		c, err := d.Scan(context.Background(), p, parts, f, nil)
		fatal.If(t, err)
		fatal.If(t, fit.Merge(f.Marshal()))
		fatal.If(t, counts.Merge(c.Marshal()))
	}
	return fit, counts
}

func newEncoder(t testing.TB, fit *encode.Fit) *encode.Encoder {
	t.Helper()
	e, err := encode.NewEncoder(fit)
	fatal.If(t, err)
	return e
}

func TestAdultCounts(t *testing.T) {
	for _, x := range []struct {
		name            string
		rows, positives int64
	}{
		{"builtin:adult.data", 32561, 7841},
		{"builtin:adult.test", 16281, 3846},
	} {
		d, _ := prepare(t, adultSource(), adultSchema(), 3, x.name)
		if d.Rows(All) != x.rows || d.Rows(Train) != x.rows || d.Rows(Valid) != 0 || d.Positives() != x.positives {
			t.Errorf("%s: %d records, %d positive, want %d and %d", x.name, d.Rows(All), d.Positives(), x.rows, x.positives)
		}
	}
}

// The sums were computed from the files with awk.
func TestAdultColumnSums(t *testing.T) {
	want := map[string][2]float64{
		"age": {1256257, 631173}, "fnlwgt": {6179373392, 3084202270}, "education_num": {328237, 163997},
		"capital_gain": {35089324, 17614497}, "capital_loss": {2842700, 1431088}, "hours_per_week": {1316684, 657626},
	}
	wanted := schema.Schema{Label: adultSchema().Label}
	for _, f := range adultNumbers {
		wanted.Features = append(wanted.Features, schema.Feature{Field: f, Encode: "raw"})
	}
	for i, name := range []string{"builtin:adult.data", "builtin:adult.test"} {
		d, fit := prepare(t, adultSource(), wanted, 1, name)
		sums := make([]float64, len(adultNumbers))
		for _, b := range readAll(t, d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 1000}) {
			for j, x := range b.Dense {
				sums[j%len(sums)] += float64(x)
			}
		}
		for j, f := range adultNumbers {
			if sums[j] != want[f][i] {
				t.Errorf("%s: sum of %s is %v, want %v", name, f, sums[j], want[f][i])
			}
		}
	}
}

func TestAdultStatistics(t *testing.T) {
	_, fit := prepare(t, adultSource(), adultSchema(), 4, "builtin:adult.data")
	e := newEncoder(t, fit)
	s := statisticsOf(t, e, "age_standardise")
	if math.Abs(s.Mean-38.58164675532078) > 1e-9 || math.Abs(s.Deviation-13.640223092304275) > 1e-9 {
		t.Errorf("age: mean %v, deviation %v", s.Mean, s.Deviation)
	}
	words := map[string]int{}
	for _, c := range e.Sparse() {
		words[c.Name] = c.Vocabulary
	}
	for f, n := range map[string]int{"workclass": 8, "education": 16, "marital_status": 7, "occupation": 14, "relationship": 6, "race": 5, "sex": 2, "native_country": 41} {
		if words[f] != n {
			t.Errorf("%s has %d values, want %d", f, words[f], n)
		}
	}
	if len(e.Sparse()) != 8+6+2 || len(e.Dense()) != 6 {
		t.Errorf("%d sparse and %d dense inputs", len(e.Sparse()), len(e.Dense()))
	}
	// 92 % of the records have no capital gain. They fill interval 0; the others share the
	// other intervals.
	gain := statisticsOf(t, e, "capital_gain").Limits
	if len(gain) < 20 || gain[0] != 114 {
		t.Errorf("limits of capital_gain: %v", gain)
	}
}
