package data

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

func cities() (schema.Source, schema.Schema) {
	return schema.Source{Fields: []string{"y", "city", "tags", "age"}, Missing: []string{"?"}}, schema.Schema{
		Label: schema.Label{Field: "y"},
		Features: []schema.Feature{
			{Field: "city", Encode: "vocabulary", MaxSize: 2},
			{Field: "tags", Encode: "vocabulary", Separator: "|", MinCount: 2},
			{Field: "age", Encode: "quantile", Buckets: 2},
			{Field: "age", Encode: "standardise"},
		},
	}
}

const cityRows = "1,Bern,a|b,10\n0,Zug,a|?,20\n1,Bern,,30\n0,Genf,c|a|b,40\n1,?,d,50\n0,Genf,,60\n"

func TestIndexOfCities(t *testing.T) {
	src, s := cities()
	d, fit := prepare(t, src, s, 2, datatest.Write(t, "cities.csv", cityRows))
	want := []encode.VocabularySize{
		{Feature: "city", Field: "city", Distinct: 3, Kept: 2, Values: 5, Unknown: 1},
		{Feature: "tags", Field: "tags", Distinct: 4, Kept: 2, Values: 7, Unknown: 2},
	}
	if got := fit.Vocabularies(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	e := newEncoder(t, fit)
	r, err := NewReader(d, e, ReaderConfig{GlobalBatch: 6})
	fatal.If(t, err)
	defer r.Close()
	b, err := r.Next(t.Context())
	fatal.If(t, err)
	if got := b.Sparse[0].Values; !slices.Equal(got, []uint64{key("Bern"), encode.KeyUnknown, key("Bern"), key("Genf"), encode.KeyMissing, key("Genf")}) {
		t.Errorf("cities have the keys %v", got)
	}
	if got := r.Unknown(); got[encode.Rare] != 1 || got[encode.Reasons+encode.Rare] != 2 {
		t.Errorf("%v values are unknown to the reader", got)
	}
	counted := e.Vocabularies()
	for _, line := range strings.Split(strings.TrimSpace(cityRows), "\n") {
		for i, field := range strings.Split(line, ",")[1:3] {
			var l value.List
			l.SetText([]byte(field))
			counted[i].Count(&l, src.Missing)
		}
	}
	for i, v := range counted {
		if v.Field != want[i].Field || v.Values != want[i].Values || v.Unknown != want[i].Unknown {
			t.Errorf("counted %+v, want %+v", v, want[i])
		}
	}
}

// TestIndexServesOtherModels: another schema takes the statistics of the same fields from
// the written index; the error for fields that are not in it names them.
func TestIndexServesOtherModels(t *testing.T) {
	src, s := cities()
	path := datatest.Write(t, "cities.csv", cityRows)
	_, fit := prepare(t, src, s, 1, path)
	index := newEncoder(t, fit)
	no := false
	other := schema.Schema{Label: s.Label, Features: []schema.Feature{
		{Field: "age", Encode: "standardise"},
		{Name: "place", Field: "city", Encode: "vocabulary", Table: "places", Wide: &no},
		{Field: "tags", Encode: "hash", Separator: "|"},
	}}
	e, err := index.For(other)
	fatal.If(t, err)
	if got := e.Sparse()[0]; got.Name != "place" || got.Table != "places" || got.Wide || got.Vocabulary != 2 {
		t.Errorf("%+v", got)
	}
	if mean := statisticsOf(t, e, "age").Mean; mean != 35 {
		t.Errorf("mean %v", mean)
	}
	wantItself(t, index, s)
	other.Features[0].Log = true
	other.Features[2].Encode = "vocabulary"
	_, err = index.For(other)
	for _, part := range []string{"features[0] (age): it has no standardise of field age with log: true"} {
		if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "tags") {
			t.Errorf("%v, want %q alone", err, part)
		}
	}
	if got := fmt.Sprint(s.NeedsFit(), other.NeedsFit()); got != "[city tags age age_standardise] [age place tags]" {
		t.Errorf("need statistics: %s", got)
	}
}

// wantItself fails the test unless the index for its own schema is the index itself.
func wantItself(t *testing.T, index *encode.Encoder, own schema.Schema) {
	t.Helper()
	same, err := index.For(own)
	fatal.If(t, err)
	a, _ := index.Marshal()
	b, _ := same.Marshal()
	if !bytes.Equal(a, b) {
		t.Errorf("the index for its own schema is another:\n%s\n%s", a, b)
	}
}

// TestIndexOfFeaturesOfOneField: each of several features of a field takes its own statistics, in any order.
func TestIndexOfFeaturesOfOneField(t *testing.T) {
	src, s := cities()
	no := false
	s.Features = []schema.Feature{
		{Field: "age", Encode: "standardise"}, {Field: "age", Name: "far", Encode: "standardise", Clip: &no},
		{Field: "city", Encode: "vocabulary"}, {Field: "city", Name: "top", Encode: "vocabulary", MaxSize: 1}, {Field: "city", Name: "rare", Encode: "vocabulary", MinCount: 3},
	}
	for range 2 {
		_, fit := prepare(t, src, s, 1, datatest.Write(t, "cities.csv", cityRows))
		index := newEncoder(t, fit)
		wantItself(t, index, s)
		slices.Reverse(s.Features)
	}
	only := schema.Schema{Label: s.Label, Features: []schema.Feature{{Field: "age", Encode: "standardise"}}}
	_, fit := prepare(t, src, only, 1, datatest.Write(t, "cities.csv", cityRows))
	only.Features[0].Clip = &no
	if _, err := newEncoder(t, fit).For(only); err == nil || !strings.Contains(err.Error(), "it has no standardise of field age with clip: false") {
		t.Errorf("another clip: %v", err)
	}
}
