package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// tableRow has columns that schemas over y, a, b and c can use in many ways.
type tableRow struct {
	Y int64    `parquet:"y"`
	A string   `parquet:"a,dict"`
	B *int64   `parquet:"b,optional,dict"`
	C *float64 `parquet:"c,optional"`
}

type tableOfFloats struct {
	Y float32 `parquet:"y"`
	A *string `parquet:"a,optional"`
	B string  `parquet:"b"`
	C int32   `parquet:"c"`
}

type tableOfLists struct {
	Y bool     `parquet:"y"`
	A []string `parquet:"a,list"`
	B uint32   `parquet:"b"`
	C float32  `parquet:"c"`
}

// tables writes rows of each kind; some can only be encoded by parser and coder.
func tables(t *testing.T) map[string][]byte {
	t.Helper()
	const rows = 1200
	one := make([]tableRow, rows)
	two := make([]tableOfFloats, rows)
	three := make([]tableOfLists, rows)
	words := []string{"red", "", "blue", "a long colour that is no short key", "7", "2014-10-21T08:30:15+02:00"}
	for i := range rows {
		n, x := int64(i*i%2000), float64(i%7)/4
		one[i] = tableRow{Y: int64(i % 2), A: words[i%6], B: &n, C: &x}
		if i%3 == 0 {
			one[i].B, one[i].C = nil, nil
		}
		two[i] = tableOfFloats{Y: float32(i % 2), A: &words[i%6], B: fmt.Sprint(i % 9), C: int32(i % 3)}
		if i%50 == 7 {
			two[i].A, two[i].B = nil, "12345678901234567.5" // more digits than are read at once
		}
		three[i] = tableOfLists{Y: i%2 == 0, A: words[:i%3], B: uint32(i), C: float32(i) / 8}
		if i%3 > 1 {
			three[i].A = words[:1]
		}
	}
	return map[string][]byte{"ints": inTable(t, one), "floats": inTable(t, two), "lists": inTable(t, three)}
}

func inTable[T any](t *testing.T, rows []T, options ...parquet.WriterOption) []byte {
	t.Helper()
	var out bytes.Buffer
	w := parquet.NewGenericWriter[T](&out, append([]parquet.WriterOption{parquet.MaxRowsPerRowGroup(500), parquet.PageBufferSize(1000)}, options...)...)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, w.Close())
	return out.Bytes()
}

// outcome returns the batches of a reader up to its end or error, as text.
func outcome(t *testing.T, d *Dataset, e *encode.Encoder, c ReaderConfig) (batches []string) {
	t.Helper()
	r, err := NewReader(d, e, c)
	fatal.If(t, err)
	defer r.Close()
	for epochs := max(c.Epochs, 1); ; {
		b, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			if epochs--; epochs == 0 {
				return batches
			}
			continue
		}
		if err != nil {
			return append(batches, err.Error())
		}
		batches = append(batches, fmt.Sprint(b.Dense, b.Sparse, b.Label, b.Weight, b.Labels, b.RowID))
		r.Recycle(b)
	}
}

// sameCoded reads a file column by column and row by row. It returns the number of comparisons,
// which is 0 if the schema does not match the file.
func sameCoded(t *testing.T, path string, missing []string, s schema.Schema, configs ...ReaderConfig) (compared int) {
	t.Helper()
	d, err := Open(schema.Source{Format: "parquet", Missing: missing}, s, []string{path})
	if err != nil {
		return 0
	}
	sameSurveys(t, path, missing, s)
	fit := encode.NewFit(s)
	counts, err := d.Scan(context.Background(), 0, 1, fit, nil)
	if err != nil {
		return 0
	}
	fatal.If(t, d.Use(counts))
	e, err := encode.NewEncoder(fit)
	if err != nil {
		return 0
	}
	for _, c := range configs {
		d.bad = 0
		got := outcome(t, d, e, c)
		d.bad = 1 // as if there were some: then nothing is encoded by column
		want := outcome(t, d, e, c)
		if compared++; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q missing, %+v, schema %+v:\n got %.300s\nwant %.300s", missing, c, s, got, want)
		}
	}
	return compared
}

// tableCases returns the schemas of Schemas that a table can have.
func tableCases() []schema.Schema {
	all := datatest.Schemas()
	for i := range all {
		all[i].Features = slices.Clone(all[i].Features)
		for j := range all[i].Features {
			all[i].Features[j].Log = false // Open rejects it here
		}
	}
	return all
}

// Tables encoded by column equal the rows encoded by parser and coder.
func TestCodedRowsAreParserAndCoder(t *testing.T) {
	compared := 0
	for name, content := range tables(t) {
		path := datatest.Write(t, name+".parquet", string(content))
		for _, s := range tableCases() {
			for _, missing := range [][]string{nil, {"blue", "4"}} {
				compared += sameCoded(t, path, missing, s, ReaderConfig{GlobalBatch: 100},
					ReaderConfig{GlobalBatch: 130, Rank: 1, Size: 5, Start: 520, Epochs: 3},
					ReaderConfig{GlobalBatch: 2000, Select: Train}, ReaderConfig{GlobalBatch: 5, Rank: 8, Size: 9, Start: 1190},
					ReaderConfig{GlobalBatch: 100, Shuffle: true, Seed: 1, Start: 333})
			}
		}
	}
	if compared < 12 {
		t.Errorf("only %d pairs were compared", compared)
	}
}

// A table of any values, in pages and row groups of any size, with a byte of it
// changed or none.
func FuzzCodedRows(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x10\x21\x32\x43\xff"), uint16(40), uint8(7), uint32(0), uint8(0))
	f.Add([]byte("red, blue and 4"), uint16(1), uint8(1), uint32(900), uint8(0x80))
	f.Add([]byte{0x2a}, uint16(700), uint8(200), uint32(150), uint8(1))
	f.Fuzz(func(t *testing.T, picks []byte, page uint16, group uint8, at uint32, flip uint8) {
		if len(picks) == 0 {
			return
		}
		words := []string{"red", "", "blue", "a long colour that is no short key", "7", "4", "2014-10-21", "12345678901234567.5"}
		rows := make([]tableRow, 64)
		for i := range rows {
			pick := int(picks[i%len(picks)]) + i/len(picks)
			n, x := int64(pick-20), float64(pick)/4
			rows[i] = tableRow{Y: int64(pick >> 1 & 1), A: words[pick%8], B: &n, C: &x}
			if pick%16 == 3 {
				rows[i].B = nil
			}
			if pick%16 > 12 {
				rows[i].C = nil
			}
		}
		content := inTable(t, rows, parquet.PageBufferSize(1+int(page)), parquet.MaxRowsPerRowGroup(1+int64(group)))
		content[int(at)%len(content)] ^= flip
		path := datatest.Write(t, "t.parquet", string(content))
		for i, s := range tableCases() {
			missing := [][]string{nil, {"blue", "4"}}[(int(page)+i)%2]
			sameCoded(t, path, missing, s, ReaderConfig{GlobalBatch: 13, Rank: i % 2, Size: 2, Start: int64(page % 32)}, ReaderConfig{GlobalBatch: 10, Shuffle: true, Seed: 1, Start: int64(page % 32)})
		}
	})
}

// Faults of tables encoded by column are reported by row, as in any other format.
func TestCodedRowsReportFaults(t *testing.T) {
	rows := make([]tableRow, 900)
	x, nan := 1.5, math.NaN()
	for i := range rows {
		rows[i] = tableRow{Y: int64(i % 2), A: "1", C: &x}
	}
	rows[700].A, rows[800].C = "many", &nan
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "a", Encode: "hash"}}}
	d, _ := prepare(t, schema.Source{Format: "parquet"}, s, 1, datatest.Write(t, "t.parquet", string(inTable(t, rows))))
	for field, row := range map[string]int64{"a": 701, "c": 801} {
		s.Features[0] = schema.Feature{Field: field, Encode: "raw"}
		got := outcome(t, d, newEncoder(t, encode.NewFit(s)), ReaderConfig{GlobalBatch: 50})
		if want := fmt.Sprintf("row %d", row); len(got) != int(row-1)/50+1 || !bytes.Contains([]byte(got[len(got)-1]), []byte(want)) {
			t.Errorf("%d batches, the last %.200s, want a fault of %s", len(got), got[len(got)-1], want)
		}
	}
}
