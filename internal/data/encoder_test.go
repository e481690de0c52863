package data

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
)

// hashOf returns the key of a string, by its definition.
func hashOf(b []byte) uint64 { return xxh3.HashSeed(b, 0x7764_6C72_756E_0001) }

func key(s string) uint64 { return hashOf([]byte(s)) }

func crossKey(keys ...uint64) uint64 {
	var b []byte
	for _, k := range keys {
		for i := range 8 {
			b = append(b, byte(k>>(8*i)))
		}
	}
	return hashOf(b)
}

func TestBatchOfPeople(t *testing.T) {
	path := datatest.Write(t, "people.csv", datatest.People)
	d, fit := prepare(t, peopleSource(), peopleSchema(), 1, path)
	all := readAll(t, d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 10})
	if len(all) != 1 || all[0].Rows != 4 {
		t.Fatalf("%d batches", len(all))
	}
	b := all[0]
	a, bb, c, dd := key("a"), key("b"), key("c"), key("d")
	basel, zug := key("Basel"), key("Zug, Stadt")
	for f, want := range []encode.Jagged{
		{Values: []uint64{1, 2, 3, 4}, Offsets: []int32{0, 1, 2, 3, 4}},
		{Values: []uint64{1, encode.KeyMissing, 2, 0}, Offsets: []int32{0, 1, 2, 3, 4}},
		{Values: []uint64{basel, key("Bern"), zug, basel}, Offsets: []int32{0, 1, 2, 3, 4}},
		{Values: []uint64{a, bb, encode.KeyMissing, c, a, c, dd}, Offsets: []int32{0, 2, 3, 4, 7}},
		{Values: []uint64{crossKey(basel, a), crossKey(basel, bb), crossKey(key("Bern"), encode.KeyMissing), crossKey(zug, c),
			crossKey(basel, a), crossKey(basel, c), crossKey(basel, dd)}, Offsets: []int32{0, 2, 3, 4, 7}},
	} {
		if got := b.Sparse[f]; !slices.Equal(got.Values, want.Values) || !slices.Equal(got.Offsets, want.Offsets) {
			t.Errorf("feature %d: %v, want %v", f, got, want)
		}
	}
	if !slices.Equal(b.Label, []float32{1, 0, 1, 0}) || !slices.Equal(b.RowID, []uint64{0, 1, 2, 3}) {
		t.Errorf("labels %v of rows %v", b.Label, b.RowID)
	}
	var mean, square float64
	for i, x := range []float64{.5, 1.25, -3, 100} {
		if b.Dense[2*i+1] != float32(x) {
			t.Errorf("raw score %v, want %v", b.Dense[2*i+1], x)
		}
		mean, square = mean+float64(b.Dense[2*i])/4, square+float64(b.Dense[2*i])*float64(b.Dense[2*i])/4
	}
	if math.Abs(mean) > 1e-6 || math.Abs(square-1) > 1e-6 {
		t.Errorf("standardised scores have mean %v and mean square %v", mean, square)
	}
}

func TestEncodings(t *testing.T) {
	seven := schema.Feature{Field: "x", Encode: "hash", Buckets: 7}
	for _, x := range []struct {
		f     schema.Feature
		text  string
		keys  []uint64
		dense float32
	}{
		{f: schema.Feature{Encode: "hash"}, text: "12", keys: []uint64{key("12")}},
		{f: seven, text: "12", keys: []uint64{key("12") % 7}},
		{f: seven, text: "", keys: []uint64{encode.KeyMissing}},
		{f: schema.Feature{Encode: "id"}, text: "-1", keys: []uint64{math.MaxUint64}},
		{f: schema.Feature{Encode: "id", Separator: " "}, text: "1 2  3", keys: []uint64{1, 2, 3}},
		{f: schema.Feature{Encode: "hash", Separator: "|"}, text: "a| b |?|", keys: []uint64{key("a"), key("b")}},
		{f: schema.Feature{Encode: "hash", Separator: "|"}, text: "||?|", keys: []uint64{encode.KeyMissing}},
		{f: schema.Feature{Encode: "boundaries", Boundaries: []float64{0, 10}}, text: "10", keys: []uint64{2}},
		{f: schema.Feature{Encode: "boundaries", Boundaries: []float64{0, 10}}, text: "?", keys: []uint64{encode.KeyMissing}},
		{f: schema.Feature{Encode: "vocabulary"}, text: "seen", keys: []uint64{key("seen")}},
		{f: schema.Feature{Encode: "vocabulary"}, text: "new", keys: []uint64{encode.KeyUnknown}},
		{f: schema.Feature{Encode: "vocabulary"}, text: "?", keys: []uint64{encode.KeyMissing}},
		{f: schema.Feature{Encode: "raw"}, text: "2.5", dense: 2.5},
		{f: schema.Feature{Encode: "raw"}, text: "?", dense: 0},
		{f: schema.Feature{Encode: "log"}, text: "-1", dense: float32(-math.Log(2))},
		{f: schema.Feature{Encode: "standardise"}, text: "?", dense: 0},
		{f: schema.Feature{Encode: "standardise"}, text: "9", dense: 0}, // a constant in training
	} {
		train := "seen"
		if enc, _ := schema.EncodingOf(x.f.Encode); enc.Number() || enc == schema.ID {
			train = "5"
		}
		x.f.Field = "x"
		s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{x.f}}
		src := schema.Source{Fields: []string{"x", "y"}, Missing: []string{"?"}}
		_, fit := prepare(t, src, s, 1, datatest.Write(t, "train.csv", train+",1\n"))
		d, _ := prepare(t, src, s, 1, datatest.Write(t, "test.csv", x.text+",0\n"))
		b := readAll(t, d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 1})[0]
		if x.keys != nil && !slices.Equal(b.Sparse[0].Values, x.keys) || x.keys == nil && b.Dense[0] != x.dense {
			t.Errorf("%s of %q: %v %v, want %v %v", x.f.Encode, x.text, b.Sparse, b.Dense, x.keys, x.dense)
		}
	}
}

// Dates become keys and ages, in the format that most of them have.
func TestDates(t *testing.T) {
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{
		{Field: "t", Encode: "hour"}, {Field: "t", Encode: "weekday", Zone: "-09:00"}, {Field: "t", Encode: "month"},
		{Name: "age", Field: "t", Encode: "age"}, {Name: "log", Field: "t", Encode: "age", Log: true, Reference: "2014-10-22"},
	}}
	src := schema.Source{Fields: []string{"t", "y"}}
	lines := func(text string) string { return strings.ReplaceAll(text, ";", ",1\n") }
	_, fit := prepare(t, src, s, 2, datatest.Write(t, "train.csv", lines("14102108;14101908;never;14102112;;14101904;")))
	want := []encode.Dates{{Field: "t", Format: "%y%m%d%H", Values: 5, Unread: 1, Example: "never"}}
	if got := fit.Dates(); !slices.Equal(got, want) {
		t.Errorf("dates %+v, want %+v", got, want)
	}
	_, none := prepare(t, src, s, 2, datatest.Write(t, "none.csv", lines("never;ever;;")))
	if got := fmt.Sprint(none.Warnings(nil)); got != `[field t: none of 2 values, such as "ever", is a date in a format that is recognised, and all count as missing; features[].format names another, or remove the features]` {
		t.Error(got)
	}
	e := newEncoder(t, fit)
	saved, err := e.Marshal()
	fatal.If(t, err)
	if e, err = encode.LoadEncoder(saved); err != nil {
		t.Fatal(err)
	}
	d, _ := prepare(t, src, s, 1, datatest.Write(t, "test.csv", lines("14102108;14102012;;20141021;14110100;")))
	b := readAll(t, d, e, ReaderConfig{GlobalBatch: 5})[0]
	const no = encode.KeyMissing
	for i, keys := range [][]uint64{{8, 12, no, no, 0}, {0, 0, no, no, 4}, {9, 9, no, no, 10}} {
		if got := b.Sparse[i].Values; !slices.Equal(got, keys) {
			t.Errorf("%s: keys %v, want %v", e.Sparse()[i].Name, got, keys)
		}
	}
	// The training data are 4, 52, 0 and 56 hours old: mean 28, deviation sqrt(680).
	deviation := math.Sqrt((24*24 + 24*24 + 28*28 + 28*28) / 4.)
	for i, hours := range []float64{4, 24, 28, 28, -252} {
		if got, want := float64(b.Dense[2*i]), (hours-28)/deviation; math.Abs(got-want) > 1e-6 {
			t.Errorf("row %d is %v old, want %v", i, got, want)
		}
	}
	if got := b.Dense[2*4+1]; got > -2 {
		t.Errorf("a date after the reference is %v old", got)
	}
}

// A column that is not one of dates is an error that shows a value.
func TestNoDates(t *testing.T) {
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "t", Encode: "hour"}}}
	for text, want := range map[string]string{
		"red,1\nblue,0\n,1\n":          `none of the 2 values of field t is a date, such as "blue"; set format, or another encoding`,
		"31/12/2024,1\n23/11/2024,0\n": `such as "23/11/2024"; set format (it may be ["%d/%m/%Y"]), or`,
	} {
		_, fit := prepare(t, schema.Source{Fields: []string{"t", "y"}}, s, 1, datatest.Write(t, "t.csv", text))
		if _, err := encode.NewEncoder(fit); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no dates: %v, want %s", err, want)
		}
	}
}

func TestLabelRules(t *testing.T) {
	half := .5
	for _, x := range []struct {
		l    schema.Label
		text string
		want string
	}{
		{schema.Label{}, "1", "1"}, {schema.Label{}, "0", "0"}, {schema.Label{}, "yes", "error"},
		{schema.Label{Positive: []string{"a", "b"}}, "b", "1"}, {schema.Label{Positive: []string{"a", "b"}}, "z", "0"},
		{schema.Label{Positive: []string{"a"}, Negative: []string{"b"}}, "z", "error"},
		{schema.Label{Threshold: &half}, "0.5", "1"}, {schema.Label{Threshold: &half}, "0.4", "0"}, {schema.Label{Threshold: &half}, "x", "error"},
	} {
		x.l.Field = "y"
		s := schema.Schema{Label: x.l, Features: []schema.Feature{{Field: "x", Encode: "hash"}}}
		d, err := Open(schema.Source{Fields: []string{"x", "y"}}, s, []string{datatest.Write(t, "y.csv", "q,"+x.text+"\n")})
		fatal.If(t, err)
		got := "error"
		if c, err := d.Scan(context.Background(), 0, 1, nil, nil); err == nil {
			got = fmt.Sprint(c.Positives())
		}
		if got != x.want {
			t.Errorf("%+v of %q: %s, want %s", x.l, x.text, got, x.want)
		}
	}
}

// A loaded encoder encodes as the saved one did, and its text is stable.
func TestEncoderRoundTrip(t *testing.T) {
	text := strings.ReplaceAll(datatest.People, "Bern", "B\xffrn")
	d, fit := prepare(t, peopleSource(), peopleSchema(), 1, datatest.Write(t, "people.csv", text))
	e := newEncoder(t, fit)
	b, err := e.Marshal()
	fatal.If(t, err)
	golden.Check(t, "encoder.json", string(b)+"\n")
	back, err := encode.LoadEncoder(b)
	fatal.If(t, err)
	if again, _ := back.Marshal(); !bytes.Equal(again, b) {
		t.Errorf("saved again: %s", again)
	}
	if !slices.Equal(back.Sparse(), e.Sparse()) || !slices.Equal(back.Dense(), e.Dense()) {
		t.Errorf("columns %v %v, want %v %v", back.Sparse(), back.Dense(), e.Sparse(), e.Dense())
	}
	want := fmt.Sprint(readAll(t, d, e, ReaderConfig{GlobalBatch: 4})[0].Sparse)
	if got := fmt.Sprint(readAll(t, d, back, ReaderConfig{GlobalBatch: 4})[0].Sparse); got != want {
		t.Errorf("the loaded encoder gives %s, want %s", got, want)
	}
}

// TestEncoderWithoutRanges: an encoder saved before ranges existed loads and has none.
func TestEncoderWithoutRanges(t *testing.T) {
	_, fit := prepare(t, peopleSource(), peopleSchema(), 1, datatest.Write(t, "people.csv", datatest.People))
	b, err := newEncoder(t, fit).Marshal()
	fatal.If(t, err)
	const most = math.MaxFloat64 / 2
	for _, x := range []struct {
		text string
		all  bool
		want []encode.Range
	}{
		{string(b), false, []encode.Range{{Field: "score", Least: -3, Most: 100}}},
		{strings.Replace(string(b), `,"range":[-3,100]`, "", 1), false, nil},
		{strings.Replace(string(b), `,"range":[-3,100]`, "", 1), true, []encode.Range{{Field: "score", Least: -most, Most: most, Unknown: true}}},
	} {
		e, err := encode.LoadEncoder([]byte(x.text))
		fatal.If(t, err)
		with, ranges, first, err := e.WithRanges(x.all)
		if err != nil || !slices.Equal(ranges, x.want) || first != 4 || len(with.Sparse()) != len(e.Sparse())+len(x.want) || !slices.Equal(with.Dense(), e.Dense()) {
			t.Errorf("ranges %v from entry %d of %v, error %v; want %v", ranges, first, with.Sparse(), err, x.want)
		}
	}
}

// TestStatisticsOfALateFeature: a feature of which the earlier data has no value takes the statistics of the
// first data that has one, and keeps them.
func TestStatisticsOfALateFeature(t *testing.T) {
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{
		{Field: "x", Encode: "standardise"}, {Field: "x", Name: "cut", Encode: "quantile", Buckets: 4}, {Field: "d", Name: "age", Encode: "age"}, {Field: "d", Name: "hour", Encode: "hour"},
		{Field: "v", Encode: "vector", Size: 2, Separator: "|", Standardise: true}, {Field: "z", Encode: "standardise"},
	}}
	fitted := func(text string) *encode.Encoder {
		_, fit := prepare(t, schema.Source{Header: true}, s, 2, datatest.Write(t, "days.csv", text))
		return newEncoder(t, fit)
	}
	grow := func(e, from *encode.Encoder) (*encode.Encoder, map[string]encode.Grown) {
		g, same, err := e.Grow(from, encode.Growth{Was: func(name string) string { return name }})
		fatal.If(t, err)
		return g, same
	}
	stored := func(e *encode.Encoder) string {
		b, err := e.Marshal()
		fatal.If(t, err)
		return regexp.MustCompile(`,"(least|most)":[^]]*]`).ReplaceAllString(string(b), "")
	}
	first, second := fitted("x,v,d,z,y\n,,,3,1\n,,,3,0\n"), fitted("x,v,d,z,y\n1,1|2,2026-11-01 03:00:00,3,1\n5,3|7,2026-11-03 04:00:00,3,0\n9,4|9,2026-11-02 04:00:00,3,0\n")
	grown, same := grow(second, first)
	if stored(grown) != stored(second) {
		t.Errorf("grown %s\nof its own %s", stored(grown), stored(second))
	}
	for _, f := range s.Fill().Features {
		if g, has := same[f.Name]; !has || g.Fresh != (f.Field != "z") {
			t.Errorf("%s: %+v, %v", f.Name, g, has)
		}
	}
	third, same := grow(fitted("x,v,d,z,y\n100,100|2,2026-12-01 03:00:00,3,1\n500,3|70,2026-12-03 04:00:00,4,0\n"), grown)
	if stored(third) != stored(grown) || same["x"].Fresh {
		t.Errorf("grown again %s\nbefore %s", stored(third), stored(grown))
	}
}

// TestNumbersAreClipped: a number outside the range of the training data is encoded as the nearest
// number of the range, unless the feature or an earlier version of the encoder does not clip.
func TestNumbersAreClipped(t *testing.T) {
	no := false
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{
		{Field: "x", Encode: "standardise"}, {Field: "x", Name: "log", Encode: "standardise", Log: true}, {Field: "x", Name: "not", Encode: "standardise", Clip: &no},
		{Field: "v", Encode: "vector", Size: 2, Separator: "|", Standardise: true}, {Field: "v", Name: "plain", Encode: "vector", Size: 2, Separator: "|"},
	}}
	src := schema.Source{Header: true}
	_, fit := prepare(t, src, s, 2, datatest.Write(t, "train.csv", "x,v,y\n1,1|0,1\n4,2|-5,0\n-2,3|5,1\n,,1\n"))
	e := newEncoder(t, fit)
	_, fit = prepare(t, src, s, 1, datatest.Write(t, "more.csv", "x,v,y\n20,2|9,1\n3,0|0,0\n"))
	grown, _, err := newEncoder(t, fit).Grow(e, encode.Growth{Was: func(name string) string { return name }})
	fatal.If(t, err)
	saved, err := e.Marshal()
	fatal.If(t, err)
	loaded, err := encode.LoadEncoder(saved)
	fatal.If(t, err)
	old, err := encode.LoadEncoder(regexp.MustCompile(`,"(least|most)":[^]]*]`).ReplaceAll(saved, nil))
	fatal.If(t, err)
	d, _ := prepare(t, src, s, 1, datatest.Write(t, "test.csv", "x,v,y\n11820,11820|-7,0\n-50,0.5|7,1\n4,3|-5,0\n-2,1|5,1\n,,1\n20,0|9,1\n"))
	rows := func(e *encode.Encoder) (rows [][]float32) {
		for x := range slices.Chunk(readAll(t, d, e, ReaderConfig{GlobalBatch: 10})[0].Dense, 7) {
			rows = append(rows, x)
		}
		return rows
	}
	got, without := rows(e), rows(old)
	for i, same := range []int{2, 3} { // as the greatest and the least value of training
		for k, clipped := range []bool{true, true, false, true, true, false, false} {
			if (got[i][k] == got[same][k]) != clipped || got[same][k] != without[same][k] || without[i][k] == without[same][k] || !clipped && got[i][k] != without[i][k] {
				t.Errorf("row %d, number %d: %v, the bound is %v; of the earlier version %v and %v", i, k, got[i][k], got[same][k], without[i][k], without[same][k])
			}
		}
	}
	if again := rows(loaded); !reflect.DeepEqual(again, got) || !slices.Equal(got[4], make([]float32, 7)) {
		t.Errorf("%v, of the loaded encoder %v", got, again)
	}
	if g := rows(grown); g[0][0] != without[5][0] || g[1][0] != got[1][0] || g[5][3] != without[5][3] || g[5][4] != without[5][4] {
		t.Errorf("with more data %v, without bounds %v", g, without)
	}
	if _, err := encode.LoadEncoder(bytes.Replace(saved, []byte(`"most":[4]`), []byte(`"most":[-4]`), 1)); err == nil {
		t.Error("bounds that do not ascend are accepted")
	}
}

func TestLoadEncoderRefuses(t *testing.T) {
	_, fit := prepare(t, peopleSource(), peopleSchema(), 1, datatest.Write(t, "people.csv", datatest.People))
	b, err := newEncoder(t, fit).Marshal()
	fatal.If(t, err)
	for _, x := range [][2]string{
		{`"version":1`, `"version":2`}, {"wdlrun feature index", "other"}, {`"encode":"id"`, `"encode":"ids"`},
		{`"boundaries":[18,50]`, `"boundaries":[50,18]`}, {`"of":["city"`, `"of":["town"`}, {`"format"`, `"fromat"`},
		{`"deviation":`, `"deviation":-`}, {`"range":[-3`, `"range":[101`}, {`"range":[-3,`, `"range":[`}, {`"name":"id"`, `"name":"city"`}, {`{"format"`, `["format"`},
		{`"vocabulary":["Basel"`, `"vocabulary":["Basel","Basel"`},
	} {
		bad := bytes.Replace(b, []byte(x[0]), []byte(x[1]), 1)
		if bytes.Equal(bad, b) {
			t.Fatalf("%s is not in %s", x[0], b)
		}
		if _, err := encode.LoadEncoder(bad); err == nil {
			t.Errorf("with %s for %s it was accepted", x[1], x[0])
		}
	}
	for n := range len(b) {
		if _, err := encode.LoadEncoder(b[:n]); err == nil {
			t.Errorf("cut at %d it was accepted", n)
		}
	}
}

// Files may hold their columns in another order than the training data did.
func TestColumnsAreFoundByName(t *testing.T) {
	d, fit := prepare(t, peopleSource(), peopleSchema(), 1, datatest.Write(t, "people.csv", datatest.People))
	e := newEncoder(t, fit)
	other := "x,label,score,tags,city,age,id\n0,1,0.5,a|b,Basel,34,1\n"
	o, _ := prepare(t, peopleSource(), peopleSchema(), 1, datatest.Write(t, "other.csv", other))
	got, want := readAll(t, o, e, ReaderConfig{GlobalBatch: 1})[0], readAll(t, d, e, ReaderConfig{GlobalBatch: 1})[0]
	if fmt.Sprint(got.Sparse, got.Dense, got.Label, got.Weight, got.Labels) != fmt.Sprint(want.Sparse, want.Dense, want.Label, want.Weight, want.Labels) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestUnknownIsCounted(t *testing.T) {
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "x", Encode: "vocabulary", Separator: "|"}, {Name: "h", Field: "x", Encode: "hash"}}}
	src := schema.Source{Fields: []string{"x", "y"}}
	_, fit := prepare(t, src, s, 1, datatest.Write(t, "train.csv", "a|b,1\n"))
	d, _ := prepare(t, src, s, 1, datatest.Write(t, "test.csv", "a|c,1\nd,0\n,1\n"))
	r, err := NewReader(d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 3})
	fatal.If(t, err)
	defer r.Close()
	if _, err := r.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := r.Unknown(); !slices.Equal(got, []int64{2, 0, 0, 0, 0, 0}) {
		t.Errorf("unknown values: %v", got)
	}
}

// TestUnknownOfReturnedBatches: batches that are read ahead do not count before Next returns them.
func TestUnknownOfReturnedBatches(t *testing.T) {
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "x", Encode: "vocabulary"}}}
	src := schema.Source{Fields: []string{"x", "y"}}
	_, fit := prepare(t, src, s, 1, datatest.Write(t, "train.csv", "a,1\n"))
	d, _ := prepare(t, src, s, 1, datatest.Write(t, "test.csv", strings.Repeat("b,1\n", 40)))
	r, err := NewReader(d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 1})
	fatal.If(t, err)
	defer r.Close()
	for i := range int64(40) {
		if _, err := r.Peek(t.Context(), 3); err != nil { // so many have been read
			t.Fatal(err)
		}
		got := int64(0)
		for _, n := range r.Unknown() {
			got += n
		}
		if got != i {
			t.Fatalf("%d unknown values of %d batches", got, i)
		}
		if _, err := r.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzLoadEncoder(f *testing.F) {
	_, fit := prepare(f, peopleSource(), peopleSchema(), 1, datatest.Write(f, "people.csv", datatest.People))
	b, err := newEncoder(f, fit).Marshal()
	fatal.If(f, err)
	f.Add(b)
	b, err = ratedPeople(f).Marshal()
	fatal.If(f, err)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := encode.LoadEncoder(b)
		if err != nil {
			return
		}
		b, err = e.Marshal()
		fatal.If(t, err)
		if _, err := encode.LoadEncoder(b); err != nil {
			t.Fatalf("what was accepted is refused: %v", err)
		}
	})
}

// A hashed value has the key of the training data's form of it, in every format. An index
// without forms, of an earlier version, hashes it as it is written.
func TestHashedFormsOfTheTrainingData(t *testing.T) {
	csv, json := schema.Source{Fields: []string{"x", "y"}}, schema.Source{Format: "jsonl"}
	for _, c := range []struct {
		trained, text string
		src           schema.Source
		want, old     []string
	}{
		{"5", "7.0,1", csv, []string{"7"}, []string{"7.0"}},
		{"5", "123456.0,1", csv, []string{"123456"}, []string{"123456.0"}}, // eight bytes
		{"5", "7.25,1", csv, []string{"7.25"}, []string{"7.25"}},
		{"5", `{"x":7.0,"y":1}`, json, []string{"7"}, []string{"7.0"}},
		{"5.0", `{"x":7,"y":1}`, json, []string{"7.0"}, []string{"7"}},
		{"True", `{"x":true,"y":1}`, json, []string{"True"}, []string{"true"}},
		{"a", `{"x":" b","y":1}`, json, []string{"b"}, []string{" b"}},
		{"5", `{"x":["7.0","8"],"y":1}`, json, []string{"7", "8"}, []string{"7.0", "8"}},
	} {
		for _, buckets := range []uint64{0, 11} {
			s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "x", Encode: "hash", Buckets: buckets}}}
			_, fit := prepare(t, csv, s, 2, datatest.Write(t, "train.csv", c.trained+",1\n"))
			index, err := newEncoder(t, fit).Marshal()
			fatal.If(t, err)
			old := regexp.MustCompile(`,"forms":\[[^]]*\]`).ReplaceAll(index, nil)
			d, _ := prepare(t, c.src, s, 1, datatest.Write(t, "test", c.text+"\n"))
			for _, x := range []struct {
				index []byte
				want  []string
			}{{index, c.want}, {old, c.old}} {
				e, err := encode.LoadEncoder(x.index)
				fatal.If(t, err)
				var want []uint64
				for _, w := range x.want {
					k := key(w)
					if buckets > 0 {
						k %= buckets
					}
					want = append(want, k)
				}
				if got := readAll(t, d, e, ReaderConfig{GlobalBatch: 1})[0].Sparse[0].Values; !slices.Equal(got, want) {
					t.Errorf("trained on %s: %s has keys %x, want %x of %q", c.trained, c.text, got, want, x.want)
				}
			}
		}
	}
}
