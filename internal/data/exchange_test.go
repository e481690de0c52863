package data

import (
	"io"
	"reflect"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestExchangedField: rows whose field comes from other rows are encoded like records with
// these values, crosses, bags and dense inputs included.
func TestExchangedField(t *testing.T) {
	src := schema.Source{Fields: []string{"y", "city", "tags", "age"}, Missing: []string{"?"}}
	s := schema.Schema{
		Label: schema.Label{Field: "y"},
		Features: []schema.Feature{
			{Field: "city", Encode: "hash"}, {Field: "tags", Encode: "hash", Separator: "|"},
			{Field: "age", Encode: "boundaries", Boundaries: []float64{15, 25}}, {Name: "log_age", Field: "age", Encode: "log"},
		},
		Crosses: []schema.Cross{{Of: []string{"city", "tags"}, Buckets: 1000}, {Of: []string{"city", "age"}}},
	}
	read := func(rows string) (*encode.Encoder, *encode.Batch) {
		d, fit := prepare(t, src, s, 1, datatest.Write(t, "cities.csv", rows))
		e := newEncoder(t, fit)
		r, err := NewReader(d, e, ReaderConfig{GlobalBatch: 8, Size: 1})
		fatal.If(t, err)
		defer r.Close()
		b, err := r.Next(t.Context())
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		return e, b
	}
	e, b := read("1,Bern,a|b,10\n0,Zug,c,20\n1,Genf,?,30\n")
	x := e.Exchanger()
	for field, want := range []string{
		"1,Zug,a|b,10\n1,Bern,?,30\n", // city
		"1,Bern,c,10\n1,Genf,a|b,30\n",
		"1,Bern,a|b,20\n1,Genf,?,10\n", // age
	} {
		_, same := read(want)
		at := map[uint64]int32{}
		for i, id := range b.RowID {
			at[id] = int32(i)
		}
		var got encode.Batch
		for range 2 { // memory is used again
			x.Rows(&got, b, []int32{at[0], at[2]}, field, b, []int32{at[1], at[0]})
		}
		order := map[uint64]int{}
		for i, id := range same.RowID {
			order[id] = i
		}
		for k := range 2 {
			for f := range got.Sparse {
				g, w := got.Sparse[f], same.Sparse[f]
				i := order[uint64(k)]
				if a, c := g.Values[g.Offsets[k]:g.Offsets[k+1]], w.Values[w.Offsets[i]:w.Offsets[i+1]]; !reflect.DeepEqual(a, c) {
					t.Errorf("field %s, row %d, feature %d: %v, want %v", x.Fields[field].Field, k, f, a, c)
				}
			}
			if g, w := got.Dense[k], same.Dense[order[uint64(k)]]; g != w {
				t.Errorf("field %s, row %d: number %v, want %v", x.Fields[field].Field, k, g, w)
			}
		}
	}
	if !x.Has(b, 0, 0) || x.Has(b, 1, int(rowOf(b, 2))) {
		t.Error("a missing value is there, or one that is there is missing")
	}
}

func rowOf(b *encode.Batch, id uint64) int {
	for i, x := range b.RowID {
		if x == id {
			return i
		}
	}
	return -1
}
