package data

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// visit is a record: some items, perhaps none.
type visit struct {
	Y, Item, Weight int64
	Tags            string
}

func ratedVisits(n int) (all []visit) {
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		v := visit{Y: int64(r.IntN(2)), Item: int64(r.ExpFloat64() * 9), Weight: int64(min(1, r.IntN(9)))}
		v.Tags = strings.Join([]string{"a", "b", "c", "a"}[r.IntN(4):][:min(1, r.IntN(3))], "|")
		if r.IntN(3) == 0 {
			v.Tags += "|d"
		}
		v.Tags = strings.TrimPrefix(v.Tags, "|")
		all = append(all, v)
	}
	return all
}

// formatsOf writes records in several formats.
func formatsOf(t *testing.T, all []visit) map[string]string {
	type row struct {
		Y    int64  `parquet:"y"`
		Item int64  `parquet:"item"`
		W    int64  `parquet:"w"`
		Tags string `parquet:"tags"`
	}
	var table bytes.Buffer
	var examples []byte
	csv, lines := "y,item,w,tags\n", ""
	w := parquet.NewGenericWriter[row](&table)
	for _, v := range all {
		csv += fmt.Sprintf("%d,%d,%d,%s\n", v.Y, v.Item, v.Weight, v.Tags)
		lines += fmt.Sprintf(`{"y":%d,"item":"%d","w":%d,"tags":%q}`+"\n", v.Y, v.Item, v.Weight, v.Tags)
		_, err := w.Write([]row{{v.Y, v.Item, v.Weight, v.Tags}})
		fatal.If(t, err)
		l := []value.List{{Kind: value.Int, Ints: []int64{v.Y}}, {Kind: value.Int, Ints: []int64{v.Item}}, {Kind: value.Int, Ints: []int64{v.Weight}}, {Kind: value.Text, Texts: [][]byte{[]byte(v.Tags)}}}
		examples = tfrecord.AppendFrame(examples, tfrecord.AppendExample(nil, []string{"y", "item", "w", "tags"}, l))
	}
	fatal.If(t, w.Close())
	return map[string]string{"csv": csv, "jsonl": lines, "parquet": table.String(), "tfrecord": string(examples)}
}

// tallied counts all records of a dataset in two parts, and returns the encoder with their rates.
func tallied(t testing.TB, d *Dataset, e *encode.Encoder, order encode.RateOrder) *encode.Encoder {
	t.Helper()
	all := e.Tally(order)
	for rank := range 2 {
		own := e.Tally(order)
		for _, b := range readAll(t, d, own.Encoder, ReaderConfig{GlobalBatch: 64, Rank: rank, Size: 2, Apart: true}) {
			fatal.If(t, own.Add(b))
		}
		fatal.If(t, all.Merge(own.Marshal()))
	}
	e, err := e.WithRates(all, false)
	fatal.If(t, err)
	b, err := e.Marshal()
	fatal.If(t, err)
	e, err = encode.LoadEncoder(b)
	fatal.If(t, err)
	return e
}

// naive returns the raw numbers of a value from the records that predict record to; −1: from all.
func naive(all []visit, has func(visit) bool, folds []int, to int, ordered bool) (x [2]float64) {
	mean, n := 0.0, 0.0
	ones, count, factor := 0.0, 0.0, 1.0
	if to >= 0 && !ordered {
		factor = 10. / 9
	}
	for i, v := range all {
		if v.Weight == 0 || !has(v) {
			continue
		}
		if to < 0 || ordered && folds[i] < folds[to] || !ordered && folds[i] != folds[to] {
			count++
			ones += float64(v.Y)
		}
	}
	for _, v := range all {
		if v.Weight > 0 {
			n++
			mean += float64(v.Y)
		}
	}
	mean = (mean + 1) / (n + 2)
	p := (ones + 10*mean) / (count + 10)
	return [2]float64{math.Log(p/(1-p)) - math.Log(mean/(1-mean)), math.Log1p(count * factor)}
}

// TestRatesEqualANaiveTwin: training records get the rates of other folds, all others the rates of all
// records, in every format and way of reading.
func TestRatesEqualANaiveTwin(t *testing.T) {
	all := ratedVisits(900)
	s := schema.Schema{Label: schema.Label{Field: "y", Weight: "w"}, Features: []schema.Feature{{Field: "item", Encode: "rate"}, {Field: "item", Encode: "hash", Name: "key"}}}
	for format, content := range formatsOf(t, all) {
		src := schema.Source{Format: format, Header: format == "csv"}
		d, fit := prepare(t, src, s, 1, datatest.Write(t, "a."+format, content))
		for _, rows := range []int64{0, int64(len(all))} {
			order := encode.RateOrder{Data: "x", Rows: rows}
			plain := newEncoder(t, fit)
			e := tallied(t, d, plain, order)
			if got, is := e.Rated(); !is || got != order {
				t.Errorf("order %v, %v", got, is)
			}
			folds := foldsOf(t, d, plain, order, len(all))
			for _, c := range []ReaderConfig{{GlobalBatch: 100}, {GlobalBatch: 100, Shuffle: true, Seed: 3}} {
				for name, e := range map[string]*encode.Encoder{"frozen": e, "out of fold": e.OutOfFold()} {
					got, want := map[int][2]float64{}, map[int][2]float64{}
					for _, b := range readAll(t, d, e, c) {
						checkShape(t, b, e)
						for r, id := range b.RowID {
							to := -1
							if name != "frozen" {
								to = int(id)
							}
							got[int(id)] = [2]float64{float64(b.Dense[2*r]), float64(b.Dense[2*r+1])}
							want[int(id)] = naive(all, func(v visit) bool { return v.Item == all[id].Item }, folds, to, rows > 0)
						}
					}
					if len(got) != len(all) {
						t.Fatalf("%s: %d rows", format, len(got))
					}
					compareAffine(t, fmt.Sprintf("%s, %s, ordered %t, shuffled %t", format, name, rows > 0, c.Shuffle), got, want)
				}
			}
		}
	}
}

// foldsOf returns the folds of records: a Tally of one record at a time shows them.
func foldsOf(t *testing.T, d *Dataset, e *encode.Encoder, order encode.RateOrder, n int) (folds []int) {
	for id := range n {
		folds = append(folds, order.Fold(uint64(id)))
	}
	counts := map[int]int{}
	for _, k := range folds {
		counts[k]++
	}
	for k := range 10 {
		if counts[k] < n/16 {
			t.Fatalf("fold %d has %d of %d records", k, counts[k], n)
		}
	}
	return folds
}

// compareAffine checks that numbers equal others up to a shift and a positive factor, the same for
// all rows: they are standardised.
func compareAffine(t *testing.T, what string, got, want map[int][2]float64) {
	t.Helper()
	for j := range 2 {
		lo, hi := 0, 0
		for i := range want {
			if want[i][j] < want[lo][j] {
				lo = i
			}
			if want[i][j] > want[hi][j] {
				hi = i
			}
		}
		factor := (got[hi][j] - got[lo][j]) / (want[hi][j] - want[lo][j])
		for i := range want {
			if x := got[lo][j] + factor*(want[i][j]-want[lo][j]); !(factor > 0) || math.Abs(x-got[i][j]) > 1e-4 {
				t.Fatalf("%s: number %d of row %d is %v, want %v", what, j, i, got[i][j], x)
			}
		}
	}
}

// TestRatesOfLists: a row with several values gets the mean of their numbers, and a missing value has a
// rate of its own.
func TestRatesOfLists(t *testing.T) {
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "tags", Encode: "rate", Separator: "|"}}}
	content := "y,tags\n1,a\n0,b\n1,a|b\n1,\n1,a\n0,b\n0,c|z\n"
	d, fit := prepare(t, schema.Source{Format: "csv", Header: true}, s, 1, datatest.Write(t, "a.csv", content))
	b := readAll(t, d, tallied(t, d, newEncoder(t, fit), encode.RateOrder{}), ReaderConfig{GlobalBatch: 9})[0]
	if len(b.Sparse) != 0 || len(b.Dense) != 14 {
		t.Fatalf("%d sparse features, %d numbers", len(b.Sparse), len(b.Dense))
	}
	for j := range 2 {
		if x, want := b.Dense[4+j], (b.Dense[j]+b.Dense[2+j])/2; math.Abs(float64(x-want)) > 1e-6 {
			t.Errorf("number %d of a|b is %v, want %v", j, x, want)
		}
	}
	if a, b, missing := b.Dense[0], b.Dense[2], b.Dense[6]; a < missing || missing < b {
		t.Errorf("rates %v of a, %v of b, %v of a missing value", a, b, missing)
	}
}

// TestRatesGrow: a training that begins with another model keeps its counts, all of which predict each
// new record, and its scale.
func TestRatesGrow(t *testing.T) {
	all := ratedVisits(600)
	s := schema.Schema{Label: schema.Label{Field: "y", Weight: "w"}, Features: []schema.Feature{{Field: "item", Encode: "rate"}}}
	read := func(v []visit) (*Dataset, *encode.Encoder) {
		d, fit := prepare(t, schema.Source{Format: "csv", Header: true}, s, 1, datatest.Write(t, "a.csv", formatsOf(t, v)["csv"]))
		return d, newEncoder(t, fit)
	}
	old, e := read(all[:400])
	e = tallied(t, old, e, encode.RateOrder{Data: "old"})
	d, fresh := read(all[400:])
	grown, same, err := fresh.Grow(e, encode.Growth{Was: func(name string) string { return name }})
	fatal.If(t, err)
	if same["item[1]"].Was != "item[1]" {
		t.Errorf("kept inputs: %v", same)
	}
	if order, _ := grown.Rated(); order.Data != "old" { // so the same records are not counted twice
		t.Errorf("counted records: %v", order)
	}
	for range 2 { // counting again, as a resumed training of other data does, replaces the folds only
		grown = tallied(t, d, grown, encode.RateOrder{Data: "new"})
	}
	got, want := map[int][2]float64{}, map[int][2]float64{}
	for _, b := range readAll(t, d, grown, ReaderConfig{GlobalBatch: 64}) {
		for r, id := range b.RowID {
			got[int(id)] = [2]float64{float64(b.Dense[2*r]), float64(b.Dense[2*r+1])}
			want[int(id)] = naive(all, func(v visit) bool { return v.Item == all[400+id].Item }, nil, -1, false)
		}
	}
	compareAffine(t, "grown", got, want)
}

// ratedPeople returns an encoder with rates of ages and tags.
func ratedPeople(t testing.TB) *encode.Encoder {
	s := schema.Schema{Label: schema.Label{Field: "label"}, Features: []schema.Feature{{Field: "age", Encode: "rate"}, {Field: "tags", Encode: "rate", Separator: "|"}}}
	d, fit := prepare(t, peopleSource(), s, 1, datatest.Write(t, "people.csv", datatest.People))
	return tallied(t, d, newEncoder(t, fit), encode.RateOrder{Data: "people", Rows: 4})
}

func FuzzMergeRates(f *testing.F) {
	e := ratedPeople(f)
	of := e.Tally(encode.RateOrder{})
	d, _ := prepare(f, peopleSource(), schema.Schema{Label: schema.Label{Field: "label"}, Features: []schema.Feature{{Field: "age", Encode: "rate"}, {Field: "tags", Encode: "rate", Separator: "|"}}}, 1, datatest.Write(f, "people.csv", datatest.People))
	for _, b := range readAll(f, d, of.Encoder, ReaderConfig{GlobalBatch: 9}) {
		fatal.If(f, of.Add(b))
	}
	f.Add(of.Marshal())
	f.Fuzz(func(t *testing.T, b []byte) {
		one := e.Tally(encode.RateOrder{})
		if one.Merge(b) != nil {
			return
		}
		again := e.Tally(encode.RateOrder{})
		if err := again.Merge(one.Marshal()); err != nil || !bytes.Equal(again.Marshal(), one.Marshal()) {
			t.Fatalf("what was accepted is refused: %v", err)
		}
	})
}

// TestRateOf: the numbers of a missing and of an unknown value are those of records.
func TestRateOf(t *testing.T) {
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "a", Encode: "rate"}}}
	d, fit := prepare(t, schema.Source{Format: "csv", Header: true}, s, 1, datatest.Write(t, "a.csv", "y,a,b\n1,u,1\n0,v,2\n1,,1\n1,,2\n0,u,3\n"))
	e := tallied(t, d, newEncoder(t, fit), encode.RateOrder{})
	b := readAll(t, d, e, ReaderConfig{GlobalBatch: 9})[0]
	missing, unknown := e.RateOf("a")
	if missing[0] != b.Dense[4] || missing[1] != b.Dense[5] || unknown == missing || unknown == [schema.RateWidth]float32{} {
		t.Errorf("missing %v, want %v; unknown %v", missing, b.Dense[4:6], unknown)
	}
}
