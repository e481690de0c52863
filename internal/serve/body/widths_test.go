package body

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/data/write"
	"github.com/wdlrun/wdlrun/internal/serve/rows"
	"github.com/wdlrun/wdlrun/internal/serve/tfs"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// tenths are the texts of the numbers of the test: 0.1 to 9.9.
func tenths() (all []string) {
	for n := 1; n < 100; n++ {
		all = append(all, strconv.FormatFloat(float64(n)/10, 'f', 1, 64))
	}
	return all
}

// tenthsSchema encodes the field x in every way that uses its value.
func tenthsSchema() schema.Schema {
	s := schema.Schema{Label: schema.Label{Field: "y"}}
	var limits []float64
	for _, text := range tenths() {
		x, _ := strconv.ParseFloat(text, 64)
		limits = append(limits, x)
	}
	for _, f := range []schema.Feature{
		{Encode: "boundaries", Boundaries: limits}, {Encode: "quantile", Buckets: 10}, {Encode: "vocabulary"}, {Encode: "hash"},
		{Encode: "standardise"}, {Encode: "raw"}, {Encode: "log"},
	} {
		f.Field, f.Name = "x", "x_"+f.Encode
		s.Features = append(s.Features, f)
	}
	return s.Fill()
}

// trainOnTenths writes the numbers in a format, and returns an encoder fitted to them and
// their batch.
func trainOnTenths(t *testing.T, src schema.Source, kind value.Kind) (*encode.Encoder, *encode.Batch) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "train."+src.Format)
	f, err := os.Create(path)
	fatal.If(t, err)
	w, err := write.New(f, write.Layout{Format: src.Format}, []write.Column{{Name: "x", Kind: kind}, {Name: "y", Kind: value.Int}})
	fatal.If(t, err)
	for i, x := range tenths() {
		y := value.List{Kind: value.Int, Ints: []int64{int64(i % 2)}}
		fatal.If(t, w.Write([]value.List{{Kind: value.Text, Texts: [][]byte{[]byte(x)}}, y}))
	}
	fatal.If(t, w.Close())
	fatal.If(t, f.Close())
	s := tenthsSchema()
	d, err := data.Open(src, s, []string{path})
	fatal.If(t, err)
	fit := encode.NewFit(s)
	counts, err := d.Scan(context.Background(), 0, 1, fit, nil)
	fatal.If(t, err)
	fatal.If(t, d.Use(counts))
	e, err := encode.NewEncoder(fit)
	fatal.If(t, err)
	reader, err := data.NewReader(d, e, data.ReaderConfig{GlobalBatch: len(tenths())})
	fatal.If(t, err)
	defer reader.Close()
	b, err := reader.Next(context.Background())
	fatal.If(t, err)
	return e, b
}

func bytesField(dst []byte, number protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), b)
}

// tenthsTensor returns a PredictRequest with the numbers in a tensor of a type.
func tenthsTensor(t *testing.T, kind tfs.DataType) []tfs.NamedTensor {
	t.Helper()
	var values []byte
	for _, text := range tenths() {
		x, _ := strconv.ParseFloat(text, 64)
		switch kind {
		case tfs.Float:
			values = protowire.AppendFixed32(values, math.Float32bits(float32(x)))
		case tfs.Double:
			values = protowire.AppendFixed64(values, math.Float64bits(x))
		default:
			values = bytesField(values, 8, []byte(text))
		}
	}
	if kind != tfs.String {
		values = bytesField(nil, 4, values) // tensor_content
	}
	varint := func(x int) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(x))
	}
	tensor := append(bytesField(varint(int(kind)), 2, bytesField(nil, 2, varint(len(tenths())))), values...)
	var r tfs.PredictRequest
	entry := bytesField(bytesField(nil, 1, []byte("x")), 2, tensor)
	fatal.If(t, r.Decode(bytesField(nil, 2, entry), tfs.Limits{Inputs: 9, Rows: 999, Values: 999}))
	return r.Inputs
}

// A number has one meaning: the same keys and inputs from every format and request, whether
// it has 32 or 64 bits or is a decimal.
func TestNumbersOfAnyWidthAreEqual(t *testing.T) {
	_, want := trainOnTenths(t, schema.Source{Format: "csv", Header: true}, value.Float64)
	n := len(tenths())
	if distinct := slices.Compact(slices.Sorted(slices.Values(want.Sparse[0].Values))); want.Rows != n || len(distinct) != n {
		t.Fatalf("%d rows in %d intervals", want.Rows, len(distinct))
	}
	same := func(t *testing.T, b *encode.Batch) {
		t.Helper()
		if b.Rows != n || !slices.Equal(b.Dense, want.Dense) {
			t.Errorf("dense inputs differ, %d rows", b.Rows)
		}
		for i := range want.Sparse {
			for r, key := range want.Sparse[i].Values {
				if b.Sparse[i].Values[r] != key {
					t.Errorf("%s: the keys of %s differ", tenthsSchema().Features[i].Name, tenths()[r])
					break
				}
			}
		}
	}
	for _, from := range []struct {
		name string
		src  schema.Source
		kind value.Kind
	}{
		{"csv", schema.Source{Format: "csv", Header: true}, value.Float64}, {"jsonl", schema.Source{Format: "jsonl"}, value.Float64},
		{"FLOAT", schema.Source{Format: "parquet"}, value.Float32}, {"DOUBLE", schema.Source{Format: "parquet"}, value.Float64},
		{"tfrecord", schema.Source{Format: "tfrecord"}, value.Float32},
	} {
		t.Run(from.name, func(t *testing.T) {
			e, b := trainOnTenths(t, from.src, from.kind)
			same(t, b)
			c, err := rows.NewCoder(e, from.src, false)
			fatal.If(t, err)
			got := new(encode.Batch)
			for _, kind := range []tfs.DataType{tfs.Float, tfs.Double, tfs.String} {
				t.Run(kind.String(), func(t *testing.T) {
					_, err := c.Tensors(got, tenthsTensor(t, kind))
					fatal.If(t, err)
					same(t, got)
				})
			}
			t.Run("JSON", func(t *testing.T) {
				in, err := Predict(fmt.Appendf(nil, `{"inputs": {"x": [%s]}}`, strings.Join(tenths(), ", ")), tfs.Limits{Inputs: 9, Rows: 999, Values: 999})
				fatal.If(t, err)
				_, err = c.Columns(got, in.Columns)
				fatal.If(t, err)
				same(t, got)
			})
			t.Run("Example", func(t *testing.T) {
				var all [][]byte
				for _, text := range tenths() {
					x, err := strconv.ParseFloat(text, 64)
					fatal.If(t, err)
					all = append(all, tfrecord.AppendExample(nil, []string{"x"}, []value.List{{Kind: value.Float32, Reals: []float64{x}}}))
				}
				_, err := c.Examples(got, all, nil)
				fatal.If(t, err)
				same(t, got)
			})
		})
	}
}
