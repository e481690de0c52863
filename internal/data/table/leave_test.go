package table

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// Rows that are left out are in no row and in no span, whatever pages and groups they are in.
func TestLeave(t *testing.T) {
	type pair struct {
		N int64
		S *string `parquet:"s,optional,dict"`
	}
	const rows = 700
	var b bytes.Buffer
	w := parquet.NewGenericWriter[pair](&b, parquet.PageBufferSize(100), parquet.MaxRowsPerRowGroup(150))
	for i := range int64(rows) {
		p := pair{N: i}
		if i%3 > 0 {
			s := fmt.Sprint(i % 7)
			p.S = &s
		}
		_, err := w.Write([]pair{p})
		fatal.If(t, err)
	}
	fatal.If(t, w.Close())
	r := rand.New(rand.NewPCG(1, 2))
	for _, share := range []float64{0.02, 0.5, 0.95} {
		var gone, want []uint32
		for i := range uint32(rows) {
			if r.Float64() < share || i >= 300 && i < 450 || i == rows-1 { // one whole group
				gone = append(gone, i)
			} else {
				want = append(want, i)
			}
		}
		f, err := Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
		fatal.If(t, err)
		fatal.If(t, f.Leave(gone))
		var single, spans []uint32
		total := int64(0)
		for g, n := range f.Groups() {
			total += n
			single = append(single, rowNumbers(t, f, g)...)
			spans = append(spans, spanNumbers(t, f, g, 1+r.IntN(40))...)
		}
		if !slices.Equal(single, want) || !slices.Equal(spans, want) || total != int64(len(want)) {
			t.Errorf("%d rows left out: rows %d, spans %d, %d in groups, want %d", len(gone), len(single), len(spans), total, len(want))
		}
		if err := f.Leave([]uint32{rows}); err == nil {
			t.Error("a row behind the last is left out")
		}
	}
}

func rowNumbers(t *testing.T, f *File, group int) (all []uint32) {
	r, err := f.Rows(group, []string{"N", "s"}, true)
	fatal.If(t, err)
	lists := make([]value.List, 2)
	for {
		row, err := r.Append(nil)
		if err == io.EOF {
			return all
		}
		fatal.If(t, err)
		fatal.If(t, Decode(row, lists))
		n := lists[0].Ints[0]
		if want := n%3 > 0; want != (lists[1].Len() > 0) || want && string(lists[1].Texts[0]) != fmt.Sprint(n%7) {
			t.Fatalf("row %d has %v", n, lists[1])
		}
		all = append(all, uint32(n))
	}
}

func spanNumbers(t *testing.T, f *File, group, most int) (all []uint32) {
	r, err := f.Rows(group, []string{"N", "s"}, true)
	fatal.If(t, err)
	spans, x := make([]Span, 2), new(Records)
	x.Begin()
	for {
		n, err := r.Next(most, spans)
		if err == io.EOF {
			return all
		}
		fatal.If(t, err)
		x.Begin()
		if !x.Set(spans, n) {
			t.Fatal("a span is damaged")
		}
		for i := range n {
			row := x.Row(i)
			number := binary.LittleEndian.Uint64(row[2:])
			if want := number%3 > 0; want != (value.Kind(row[10]) == value.Text) || want && string(row[13:]) != fmt.Sprint(number%7) {
				t.Fatalf("row %d is %v", number, row)
			}
			all = append(all, uint32(number))
		}
	}
}
