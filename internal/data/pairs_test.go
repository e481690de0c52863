package data

import (
	"bytes"
	"context"
	"fmt"
	"math"
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

// pair is a record of a table with weighted values.
type pair struct {
	Y    int64      `parquet:"y"`
	Tags []*string  `parquet:"tags,list" parquet-element:",optional"`
	Ws   []*float64 `parquet:"ws,list" parquet-element:",optional"`
}

// TestWeightsArePairedByPlace: a value has the weight in its place, in every format with lists.
// A value without weight is left out, and so is a weight without value.
func TestWeightsArePairedByPlace(t *testing.T) {
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "tags", Encode: "hash", Weights: "ws", Separator: "|"}}}
	text, number := func(s string) *string { return &s }, func(x float64) *float64 { return &x }
	records := []pair{
		{1, []*string{text("x0"), nil, text("y")}, []*float64{nil, number(2), number(3)}},
		{0, []*string{text("a"), text("b")}, []*float64{number(1), number(2)}},
		{0, []*string{text("a"), nil}, []*float64{nil, number(2)}},
		{0, nil, nil},
		{0, []*string{nil, text("a"), text("?")}, []*float64{number(4), number(5), number(6)}},
	}
	want := fmt.Sprint([]int32{0, 1, 3, 4, 5, 6}, []uint64{key("y"), key("a"), key("b"), encode.KeyMissing, encode.KeyMissing, key("a")}, []float32{3, 1, 2, 1, 1, 5})
	var table bytes.Buffer
	w := parquet.NewGenericWriter[pair](&table)
	_, err := w.Write(records)
	fatal.If(t, err)
	fatal.If(t, w.Close())
	var examples []byte
	for _, r := range records {
		l := []value.List{{Kind: value.Int, Ints: []int64{r.Y}}, {}, {}}
		for _, s := range r.Tags {
			if l[1].Kind = value.Text; s == nil {
				s = text("")
			}
			l[1].Texts = append(l[1].Texts, []byte(*s))
		}
		for _, x := range r.Ws {
			if l[2].Kind = value.Float32; x == nil {
				x = number(math.NaN())
			}
			l[2].Reals = append(l[2].Reals, *x)
		}
		examples = tfrecord.AppendFrame(examples, tfrecord.AppendExample(nil, []string{"y", "tags", "ws"}, l))
	}
	for format, content := range map[string]string{
		"jsonl": `{"y":1,"tags":["x0",null,"y"],"ws":[null,2.0,3.0]}` + "\n" + `{"y":0,"tags":["a","b"],"ws":[1,2]}` + "\n" +
			`{"y":0,"tags":["a",null],"ws":[null,2]}` + "\n" + `{"y":0}` + "\n" + `{"y":0,"tags":["","a","?"],"ws":["4","5",6]}` + "\n",
		"csv":      "y,tags,ws\n1,x0||y,|2|3\n0,a|b,1|2\n0,a|,|2\n0,,\n0,|a|?,4|5|6\n",
		"tsv":      "y\ttags\tws\n1\tx0||y\tnan|2|3\n0\ta|b|\t1|2\n0\ta\t\n0\t\t\n0\t|a|?\t4|5|6\n",
		"tfrecord": string(examples),
		"parquet":  table.String(),
	} {
		src := schema.Source{Format: format, Missing: []string{"?"}, Header: strings.HasSuffix(format, "sv")}
		d, fit := prepare(t, src, s, 1, datatest.Write(t, "a."+format, content))
		b := readAll(t, d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 100})[0]
		j := b.Sparse[0]
		if got := fmt.Sprint(j.Offsets, j.Values, j.Weights); got != want {
			t.Errorf("%s: %s, want %s", format, got, want)
		}
	}
}

// TestWeightsOfOtherPlaces: weights that belong to no value, or values without the place of a
// weight, are an error that counts both.
func TestWeightsOfOtherPlaces(t *testing.T) {
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "tags", Encode: "hash", Weights: "ws"}}}
	for line, want := range map[string]string{
		`{"y":1,"tags":["a",null,"b"],"ws":[1,2]}`:  "has 2 weights for 3 values",
		`{"y":1,"tags":["a"],"ws":[1,null,2]}`:      "has 3 weights for 1 values",
		`{"y":1,"tags":["a","b"]}`:                  "has 0 weights for 2 values",
		`{"y":1,"tags":["a","b"],"ws":[1,"heavy"]}`: `"heavy" is not a number`,
	} {
		d, err := Open(schema.Source{Format: "jsonl"}, s, []string{datatest.Write(t, "a.jsonl", `{"y":0,"tags":["a"],"ws":[1]}`+"\n"+line)})
		if err == nil {
			_, err = d.Scan(context.Background(), 0, 1, nil, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}
