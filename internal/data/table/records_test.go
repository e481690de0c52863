package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// Records are the rows that Append encodes, with and without encoded dictionaries.
func TestRecordsAreRows(t *testing.T) {
	type row struct {
		Short string   `parquet:"short,dict"`
		Long  *string  `parquet:"long,optional,dict"`
		Plain string   `parquet:"plain"`
		Int   *int32   `parquet:"int,optional,dict"`
		Real  float64  `parquet:"real,dict"`
		Wide  uint32   `parquet:"wide"`
		Half  *float32 `parquet:"half,optional"`
	}
	rows := make([]row, 1000)
	for i := range rows {
		long, n, half := fmt.Sprintf("%0*d", i%200, i), int32(-i%9), float32(i)/8
		rows[i] = row{Short: fmt.Sprint("w", i%70), Long: &long, Plain: fmt.Sprintf("%x", i*i), Int: &n, Real: float64(i%11) / 3, Wide: uint32(1<<32 - i - 1), Half: &half}
		if i%7 == 3 {
			rows[i].Long, rows[i].Int, rows[i].Half = nil, nil, nil
		}
	}
	var out bytes.Buffer
	w := parquet.NewGenericWriter[row](&out, parquet.PageBufferSize(2000), parquet.MaxRowsPerRowGroup(600))
	_, err := w.Write(rows)
	fatal.If(t, err)
	fatal.If(t, w.Close())
	f, err := Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
	fatal.If(t, err)
	names := []string{"short", "int", "long", "absent", "plain", "real", "half", "wide"}
	for _, encoded := range []bool{true, false} {
		x, total := Records{entries: make([]entries, len(names))}, 0
		for g := range f.Groups() {
			byColumn, err := f.Rows(g, names, true)
			fatal.If(t, err)
			byRow, err := f.Rows(g, names, true)
			fatal.If(t, err)
			x.Begin()
			spans := make([]Span, len(names))
			for {
				n, err := byColumn.Next(100, spans)
				if errors.Is(err, io.EOF) {
					break
				}
				fatal.If(t, err)
				for i := range x.entries {
					x.entries[i].known = x.entries[i].known || !encoded
				}
				if !x.Set(spans, n) {
					t.Fatalf("group %d: no records", g)
				}
				for i := range n {
					want, err := byRow.Append(nil)
					fatal.If(t, err)
					if !bytes.Equal(x.Row(i), want) {
						t.Fatalf("row %d: %x, want %x", total, x.Row(i), want)
					}
					total++
				}
			}
		}
		if total != len(rows) {
			t.Errorf("%d rows of %d", total, len(rows))
		}
	}
}

// Rows that are very long, and indexes beyond a dictionary, are left to Append.
func TestRecordsHaveLimits(t *testing.T) {
	text := &Values{typed{kind: 1, bytes: make([]byte, maxRecords), offsets: []uint32{0, 1, maxRecords}}}
	number := &Values{typed{kind: 2, int64s: []int64{1, 2}}}
	for _, c := range []struct {
		span Span
		want bool
	}{
		{Span{Values: text, Index: []int32{0, 0}, Dict: 1}, true},
		{Span{Values: text, Index: []int32{0, 1}, Dict: 1}, false},
		{Span{Values: text, Index: []int32{0, 2}, Dict: 1}, false},
		{Span{Values: number, Index: []int32{1, 1}, Dict: 1}, true},
		{Span{Values: number, Index: []int32{1, 2}, Dict: 1}, false},
		{Span{Values: number, Index: []int32{1, -1}, Dict: 1}, false},
	} {
		for _, known := range []bool{false, true} {
			x := Records{entries: []entries{{known: known}}}
			if got := x.Set([]Span{c.span}, 2); got != c.want {
				t.Errorf("index %v, %v: %v", c.span.Index, known, got)
			}
		}
	}
}
