package interop

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/wdlrun/wdlrun/internal/data/table"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// kind is a type of column: how it is encoded, and a random value of it with its text.
type kind struct {
	name      string
	of        arrow.DataType
	encodings []parquet.Encoding
	add       func(b array.Builder, r *rand.Rand) string
}

var dictionary = parquet.Encodings.RLEDict

var (
	plain = parquet.Encodings.Plain
	delta = parquet.Encodings.DeltaBinaryPacked
	split = parquet.Encodings.ByteStreamSplit
)

func kinds() []kind {
	number := func(x float64, bits int) string {
		x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', -1, bits), 64)
		return string(value.AppendNumber(nil, x, 64))
	}
	return []kind{
		{"bool", arrow.FixedWidthTypes.Boolean, []parquet.Encoding{plain, parquet.Encodings.RLE}, func(b array.Builder, r *rand.Rand) string {
			v := r.IntN(9) > 4 // stretches of equal values come from the seeds of a row
			b.(*array.BooleanBuilder).Append(v)
			return fmt.Sprint(v)
		}},
		{"int32", arrow.PrimitiveTypes.Int32, []parquet.Encoding{plain, dictionary, delta, split}, func(b array.Builder, r *rand.Rand) string {
			v := int32(r.Uint32()) >> r.IntN(31)
			b.(*array.Int32Builder).Append(v)
			return fmt.Sprint(v)
		}},
		{"int64", arrow.PrimitiveTypes.Int64, []parquet.Encoding{plain, dictionary, delta, split}, func(b array.Builder, r *rand.Rand) string {
			v := int64(r.Uint64()) >> r.IntN(63)
			b.(*array.Int64Builder).Append(v)
			return fmt.Sprint(v)
		}},
		{"uint32", arrow.PrimitiveTypes.Uint32, []parquet.Encoding{plain, dictionary, delta}, func(b array.Builder, r *rand.Rand) string {
			v := r.Uint32() >> r.IntN(31)
			b.(*array.Uint32Builder).Append(v)
			return fmt.Sprint(v)
		}},
		{"uint64", arrow.PrimitiveTypes.Uint64, []parquet.Encoding{plain, dictionary, delta}, func(b array.Builder, r *rand.Rand) string {
			v := r.Uint64() >> r.IntN(63)
			b.(*array.Uint64Builder).Append(v)
			return fmt.Sprint(v)
		}},
		{"float", arrow.PrimitiveTypes.Float32, []parquet.Encoding{plain, dictionary, split}, func(b array.Builder, r *rand.Rand) string {
			v := float32(r.NormFloat64() * math.Pow(10, float64(r.IntN(20)-10)))
			b.(*array.Float32Builder).Append(v)
			return number(float64(v), 32)
		}},
		{"double", arrow.PrimitiveTypes.Float64, []parquet.Encoding{plain, dictionary, split}, func(b array.Builder, r *rand.Rand) string {
			v := math.Round(r.NormFloat64()*1000) / 100
			b.(*array.Float64Builder).Append(v)
			return number(v, 64)
		}},
		{"text", arrow.BinaryTypes.String, []parquet.Encoding{plain, dictionary, parquet.Encodings.DeltaLengthByteArray, parquet.Encodings.DeltaByteArray}, func(b array.Builder, r *rand.Rand) string {
			v := "prefix "[:r.IntN(8)] + strconv.Itoa(r.IntN(1000))
			b.(*array.StringBuilder).Append(v)
			return v
		}},
		{"fixed", &arrow.FixedSizeBinaryType{ByteWidth: 5}, []parquet.Encoding{plain, dictionary, split}, func(b array.Builder, r *rand.Rand) string {
			v := fmt.Sprintf("%05d", r.IntN(5000))
			b.(*array.FixedSizeBinaryBuilder).Append([]byte(v))
			return v
		}},
		{"decimal", &arrow.Decimal128Type{Precision: 30, Scale: 0}, []parquet.Encoding{plain, dictionary}, func(b array.Builder, r *rand.Rand) string {
			v := int64(r.Uint64()) >> r.IntN(63)
			b.(*array.Decimal128Builder).Append(decimal128.FromI64(v))
			return fmt.Sprint(v)
		}},
	}
}

var shapes = []string{"required", "nullable", "list"}

// made is a table of random values, with their texts by column and row.
func made(r *rand.Rand, rows int) (arrow.RecordBatch, map[string][]string) {
	var fields []arrow.Field
	var columns []arrow.Array
	want := map[string][]string{}
	for _, k := range kinds() {
		for _, shape := range shapes {
			name, of := k.name+"_"+shape, k.of
			if shape == "list" {
				of = arrow.ListOf(of)
			}
			b := array.NewBuilder(memory.DefaultAllocator, of)
			for range rows {
				text := ""
				switch {
				case shape == "nullable" && r.IntN(3) == 0, shape == "list" && r.IntN(5) == 0:
					b.AppendNull()
				case shape == "list":
					list := b.(*array.ListBuilder)
					list.Append(true)
					for range r.IntN(4) {
						if r.IntN(5) == 0 {
							list.ValueBuilder().AppendNull()
						} else {
							text += k.add(list.ValueBuilder(), r) + "|"
						}
					}
				default:
					text = k.add(b, r) + "|"
				}
				want[name] = append(want[name], text)
			}
			fields = append(fields, arrow.Field{Name: name, Type: of, Nullable: shape != "required"})
			columns = append(columns, b.NewArray())
		}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(rows)), want
}

// TestParquet reads every type, encoding, version of pages, compression and shape that
// arrow-go writes.
func TestParquet(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	for i := range 4 {
		for _, version := range []parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2} {
			for _, codec := range []compress.Compression{compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Gzip, compress.Codecs.Brotli, compress.Codecs.Zstd, compress.Codecs.Lz4Raw} {
				batch, want := made(r, 100+r.IntN(900))
				options := []parquet.WriterProperty{parquet.WithDataPageVersion(version), parquet.WithCompression(codec),
					parquet.WithDataPageSize(int64(200 + r.IntN(3000))), parquet.WithBatchSize(int64(1 + r.IntN(200))), parquet.WithVersion(parquet.V2_LATEST), parquet.WithDictionaryDefault(false)}
				for _, k := range kinds() {
					encoding := k.encodings[i%len(k.encodings)]
					for _, path := range []string{k.name + "_required", k.name + "_nullable", k.name + "_list.list.element"} {
						if encoding == dictionary {
							options = append(options, parquet.WithDictionaryFor(path, true))
						} else {
							options = append(options, parquet.WithEncodingFor(path, encoding))
						}
					}
				}
				var b bytes.Buffer
				w, err := pqarrow.NewFileWriter(batch.Schema(), &b, parquet.NewWriterProperties(options...), pqarrow.DefaultWriterProps())
				if err == nil {
					err = w.Write(batch)
				}
				if err == nil {
					err = w.Close()
				}
				if err != nil {
					t.Fatal(err)
				}
				name := fmt.Sprintf("encoding %d, pages V%d, %v", i, version+1, codec)
				compare(t, name, b.Bytes(), want)
			}
		}
	}
}

// compare reads a file, with its statistics checked.
func compare(t *testing.T, name string, b []byte, want map[string][]string) {
	t.Helper()
	f, err := table.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(f.Columns()) != len(want) {
		t.Errorf("%s: columns %v, unread %v", name, f.Columns(), f.Unread())
	}
	for _, column := range f.Columns() {
		got, err := texts(f, column)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, text := range want[column] {
			if i >= len(got) || got[i] != text {
				t.Errorf("%s: column %s: row %d of %d is %q, want %q", name, column, i, len(got), got[min(i, len(got)-1)], text)
				break
			}
		}
	}
}

// texts returns the values of a column, each with a | after it.
func texts(f *table.File, column string) (all []string, err error) {
	lists := make([]value.List, 1)
	for g := range f.Groups() {
		r, err := f.Rows(g, []string{column}, true)
		if err != nil {
			return all, err
		}
		defer r.Close()
		for {
			row, err := r.Append(nil)
			if err == io.EOF {
				break
			}
			if err == nil {
				err = table.Decode(row, lists)
			}
			if err != nil {
				return all, err
			}
			var text []byte
			for i := range lists[0].Len() {
				text = append(lists[0].Append(text, i), '|')
			}
			all = append(all, string(text))
		}
	}
	return all, nil
}
