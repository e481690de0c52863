// Package datatest provides data for tests of several packages: records that contain their
// own number, in every format and packing, and schemas with every encoding.
package datatest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// Numbered returns records lo to hi: record n has n, its parity as label, and a string of
// varying length.
func Numbered(t testing.TB, format string, lo, hi int) []byte {
	t.Helper()
	var b bytes.Buffer
	if format == "parquet" {
		writeTable(t, &b, lo, hi)
		return b.Bytes()
	}
	for n := lo; n < hi; n++ {
		text := strings.Repeat("x", n*7%23)
		switch format {
		case "csv", "tsv":
			d := map[string]string{"csv": ",", "tsv": "\t"}[format]
			fmt.Fprintf(&b, "%d%s%s%s%d\n", n, d, text, d, n%2)
		case "libsvm":
			fmt.Fprintf(&b, "%d %d:1 # %s\n", n%2, n, text)
		case "libffm":
			fmt.Fprintf(&b, "%d 7:1:0.5 3:%d:1 # %s\n", n%2, n, text)
		case "jsonl":
			fmt.Fprintf(&b, "{\"x\": %q, \"n\": %d, \"y\": %v, \"o\": {\"n\": [%d]}}\n", text, n, n%2 == 1, n)
		case "tfrecord":
			b.Write(tfrecord.AppendFrame(nil, tfrecord.AppendExample(nil, []string{"x", "n", "y"}, []value.List{
				{Kind: value.Text, Texts: [][]byte{[]byte(text)}}, {Kind: value.Int, Ints: []int64{int64(n)}}, {Kind: value.Int, Ints: []int64{int64(n % 2)}},
			})))
		default:
			t.Fatalf("no records are written in %s", format)
		}
	}
	return b.Bytes()
}

// Row is a row of a table.
type Row struct {
	X string   `parquet:"x,dict"`
	N int64    `parquet:"n"`
	Y *int32   `parquet:"y,optional"`
	L []string `parquet:"l,list"`
}

// writeTable writes row groups of 500 rows.
func writeTable(t testing.TB, out io.Writer, lo, hi int) {
	w := parquet.NewGenericWriter[Row](out, parquet.PageBufferSize(1000), parquet.Compression(&parquet.Snappy))
	for n := lo; n < hi; n++ {
		y := int32(n % 2)
		if _, err := w.Write([]Row{{X: strings.Repeat("x", n*7%23), N: int64(n), Y: &y}}); err != nil {
			t.Fatal(err)
		}
		if n%500 == 499 {
			fatal.If(t, w.Flush())
		}
	}
	fatal.If(t, w.Close())
}

// Fields returns the schema of Numbered.
func Fields(format string) (schema.Source, schema.Schema) {
	src, n, y := schema.Source{Format: format}, "n", "y"
	switch format {
	case "csv", "tsv":
		src.Fields = []string{"n", "x", "y"}
	case "libsvm":
		n, y = "features", "label"
	case "libffm":
		n, y = "3", "label"
	}
	return src, schema.Schema{Label: schema.Label{Field: y}, Features: []schema.Feature{{Field: n, Encode: "id"}}}
}

// Pack compresses b; with "" it returns b.
func Pack(t testing.TB, how string, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch how {
	case "":
		return b
	case ".gz":
		w = gzip.NewWriter(&out)
	case ".zst":
		w, _ = zstd.NewWriter(&out)
	case ".sz":
		w = snappy.NewBufferedWriter(&out)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, w.Close())
	return out.Bytes()
}

// Files writes each content to a separate file and returns the folder.
func Files(t testing.TB, suffix string, contents ...[]byte) string {
	t.Helper()
	dir := t.TempDir()
	for i, b := range contents {
		fatal.If(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("part-%02d%s", i, suffix)), b, 0o644))
	}
	return dir
}

// EveryFormat calls f for each format and packing.
func EveryFormat(t *testing.T, f func(t *testing.T, format, packing string)) {
	for _, format := range schema.Formats() {
		switch format { // a layout without a field for a number, otherwise tsv; not written
		case "criteo", "arrow", "avro", "protobuf":
			continue
		}
		for _, packing := range []string{"", ".gz", ".zst", ".sz"} {
			if format == "parquet" && packing != "" {
				continue // its pages are compressed already
			}
			t.Run(format+packing, func(t *testing.T) {
				t.Parallel()
				f(t, format, packing)
			})
		}
	}
}

// Write makes a file of a test.
func Write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	fatal.If(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

// Schemas returns schemas over the fields y, a, b, c with all encodings.
func Schemas() []schema.Schema {
	on := 2.0
	all := []schema.Feature{
		{Name: "h", Field: "a", Encode: "hash"}, {Name: "hb", Field: "b", Encode: "hash", Buckets: 10},
		{Name: "v", Field: "a", Encode: "vocabulary"}, {Name: "q", Field: "b", Encode: "boundaries", Boundaries: []float64{1, 5}},
		{Name: "l", Field: "b", Encode: "log"}, {Name: "r", Field: "c", Encode: "raw"}, {Name: "s", Field: "c", Encode: "raw", Log: true},
	}
	return []schema.Schema{
		{Label: schema.Label{Field: "y"}, Features: all, Crosses: []schema.Cross{{Name: "x", Of: []string{"h", "hb"}}}},
		{Label: schema.Label{Field: "y", Positive: []string{"yes", "1"}, Negative: []string{"no"}}, Features: all[:1]},
		{Label: schema.Label{Field: "y"}, Features: []schema.Feature{
			{Name: "d", Field: "a", Encode: "weekday", Format: "iso"}, {Name: "e", Field: "b", Encode: "hour", Format: "unix", Zone: "+05:30"},
			{Name: "f", Field: "b", Encode: "age", Format: "unix", Reference: "1970-01-02"}, {Name: "g", Field: "c", Encode: "month", Format: "unix_ms"}, all[4],
		}},
		{Label: schema.Label{Field: "y", Threshold: &on}, Features: append([]schema.Feature{{Name: "i", Field: "c", Encode: "id"}}, all[1])},
		{Label: schema.Label{Field: "y", Kind: "number", Weight: "b"}, Labels: []schema.Label{{Field: "c", Threshold: &on}}, Features: all[:5]},
		{Label: schema.Label{Field: "y", Weight: "c"}, Labels: []schema.Label{{Field: "b"}, {Field: "a", Kind: "number", Loss: "poisson"}}, Features: all[5:6]},
		{Label: schema.Label{Field: "y", Weight: "c"}, Features: []schema.Feature{all[0], {Name: "k", Field: "c", Encode: "boundaries", Boundaries: []float64{2}}, all[4], {Name: "t", Field: "a", Encode: "rate"}, {Name: "u", Field: "b", Encode: "rate"}}, Crosses: []schema.Cross{{Name: "x", Of: []string{"h", "k"}}}},
	}
}

// People is some records in csv.
const People = `id,age,city,tags,score,label
1,34,Basel,a|b,0.5,1
2,,Bern,,1.25,0
3,51,"Zug, Stadt",c,-3,1
4,7,Basel,a|c|d,1e2,0
`
