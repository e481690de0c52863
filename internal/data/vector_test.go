package data

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
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

// TestVectors: the elements of a list become inputs in their places, in every format. A missing
// element is 0, which is the mean if elements are standardised.
func TestVectors(t *testing.T) {
	nan := math.NaN()
	type row struct {
		Y   int64      `parquet:"y"`
		Emb []*float64 `parquet:"emb,list" parquet-element:",optional"`
	}
	values := [][]float64{{1, .5, 7}, {3, nan, 7}, {5, 1.5, 7}, nil}
	var examples []byte
	var table bytes.Buffer
	w := parquet.NewGenericWriter[row](&table)
	for i, v := range values {
		r := row{Y: int64(i % 2)}
		l := []value.List{{Kind: value.Int, Ints: []int64{r.Y}}, {}}
		for _, x := range v {
			l[1].AddFloat32(float32(x))
			if p := &x; x == x {
				r.Emb = append(r.Emb, p)
			} else {
				r.Emb = append(r.Emb, nil)
			}
		}
		examples = tfrecord.AppendFrame(examples, tfrecord.AppendExample(nil, []string{"y", "emb"}, l))
		_, err := w.Write([]row{r})
		fatal.If(t, err)
	}
	fatal.If(t, w.Close())
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{
		{Field: "emb", Encode: "vector", Size: 3, Separator: "|", Name: "plain"},
		{Field: "emb", Encode: "vector", Size: 3, Separator: "|", Name: "scaled", Standardise: true},
		{Field: "emb", Encode: "vector", Size: 3, Separator: "|", Name: "again", Standardise: true},
	}}
	z := float32(2 / math.Sqrt(8./3)) // of 1, 3 and 5 the deviation is √(8/3)
	want := []float32{1, .5, 7, -z, -1, 0, 3, 0, 7, 0, 0, 0, 5, 1.5, 7, z, 1, 0, 0, 0, 0, 0, 0, 0}
	for format, content := range map[string]string{
		"jsonl":    `{"y":0,"emb":[1,0.5,7]}` + "\n" + `{"y":1,"emb":[3,null,7]}` + "\n" + `{"y":0,"emb":[5,1.5,7]}` + "\n" + `{"y":1}` + "\n",
		"csv":      "y,emb\n0,1|0.5|7\n1,3||7\n0,5|1.5|7\n1,\n",
		"tfrecord": string(examples),
		"parquet":  table.String(),
	} {
		for _, parts := range []int{1, 3} {
			src := schema.Source{Format: format, Header: format == "csv"}
			d, fit := prepare(t, src, s, parts, datatest.Write(t, "a."+format, content))
			b := readAll(t, d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 100})[0]
			var got []float32
			for r := range b.Rows {
				row := b.Dense[9*r : 9*r+9]
				got = append(got, row[:6]...)
				if !slices.Equal(row[3:6], row[6:]) {
					t.Errorf("%s: equal features differ: %v", format, row)
				}
			}
			if !near(got, want) {
				t.Errorf("%s: %v, want %v", format, got, want)
			}
		}
	}
}

func near(got, want []float32) bool {
	for i := range want {
		if len(got) != len(want) || math.Abs(float64(got[i]-want[i])) > 1e-6 {
			return false
		}
	}
	return true
}

// A model keeps the statistics of vectors.
func TestVectorsInIndex(t *testing.T) {
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "emb", Encode: "vector", Size: 2, Standardise: true}}}
	path := datatest.Write(t, "a.jsonl", `{"y":0,"emb":[1,2]}`+"\n"+`{"y":1,"emb":[2,6]}`+"\n")
	d, fit := prepare(t, schema.Source{Format: "jsonl"}, s, 1, path)
	e := newEncoder(t, fit)
	text, err := e.Marshal()
	fatal.If(t, err)
	loaded, err := encode.LoadEncoder(text)
	fatal.If(t, err)
	first, again := readAll(t, d, e, ReaderConfig{GlobalBatch: 9})[0], readAll(t, d, loaded, ReaderConfig{GlobalBatch: 9})[0]
	if want := []float32{-1, -1, 1, 1}; !slices.Equal(first.Dense, want) || !slices.Equal(again.Dense, want) || !slices.Equal(e.Dense(), []string{"emb[0]", "emb[1]"}) {
		t.Errorf("%v, loaded %v of %v", first.Dense, again.Dense, e.Dense())
	}
	if _, err := encode.LoadEncoder(bytes.Replace(text, []byte(`"means":[`), []byte(`"means":[3,`), 1)); err == nil {
		t.Error("an index with too many means is loaded")
	}
}

func TestVectorsOfOtherSizes(t *testing.T) {
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "emb", Encode: "vector", Size: 2}}}
	for line, want := range map[string]string{
		`{"y":1,"emb":[1]}`:         `column emb: "1" has 1 elements; the size of the feature is 2`,
		`{"y":1,"emb":[1,2,3]}`:     "has 3 elements; the size of the feature is 2",
		`{"y":1,"emb":7}`:           "has 1 elements",
		`{"y":1,"emb":[1,"heavy"]}`: `"heavy" is not a number`,
		`{"y":1,"emb":[1,1e400]}`:   "1e400",
	} {
		d, err := Open(schema.Source{Format: "jsonl"}, s, []string{datatest.Write(t, "a.jsonl", `{"y":0,"emb":[1,2]}`+"\n"+line)})
		if err == nil {
			_, err = d.Scan(context.Background(), 0, 1, nil, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	for want, f := range map[string]schema.Feature{
		"a vector has from 1 to 4096 elements":     {Field: "e", Encode: "vector"},
		"standardise has no meaning":               {Field: "e", Encode: "raw", Standardise: true},
		"is also read with encode: vector, size 2": {Field: "emb", Name: "x", Encode: "vector", Size: 3},
		"is also read with encode: log":            {Field: "n", Name: "x", Encode: "vector", Size: 3},
	} {
		with := s
		with.Features = append(slices.Clone(s.Features), schema.Feature{Field: "n", Encode: "log"}, f)
		if err := fmt.Sprint(with.Validate(nil)); !strings.Contains(err, want) {
			t.Errorf("%v: %s", f, err)
		}
	}
}
