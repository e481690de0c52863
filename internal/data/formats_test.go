package data

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// The laws of TestReaderOnAnyNumberOfRanks hold in every format and packing: an
// epoch is every record once, a step is the same records for any number of
// ranks, and from every step on the rest equals the rest of an uninterrupted reader.
func TestEveryFormatKeepsTheLaws(t *testing.T) {
	datatest.EveryFormat(t, func(t *testing.T, format, packing string) {
		const records, batch = 3000, 500
		src, schema := datatest.Fields(format)
		// Three files, the middle one with most of the records.
		cuts := []int{0, 700, 2900, records}
		var parts [][]byte
		for i, lo := range cuts[:3] {
			parts = append(parts, datatest.Pack(t, packing, datatest.Numbered(t, format, lo, cuts[i+1])))
		}
		files := datatest.Files(t, packing, parts...)
		for _, limits := range []limits{{minGroup, maxHeld}, tiny} {
			d, fit := prepareWithin(t, limits, src, schema, 2, files)
			orderedAlike(t, d, newEncoder(t, fit), records, batch)
		}
	})
}

// orderedAlike checks that steps are the same from any step on and on three ranks.
func orderedAlike(t *testing.T, d *Dataset, e *encode.Encoder, records, batch int) {
	c := ReaderConfig{Seed: 5, Epoch: 1, GlobalBatch: batch, Shuffle: true}
	whole := readAll(t, d, e, c)
	rows := rowsOf(t, whole)
	sorted := slices.Sorted(slices.Values(rows))
	if len(rows) != records || slices.Equal(rows, sorted) {
		t.Fatalf("%d rows; in the order of the files: %v", len(rows), slices.Equal(rows, sorted))
	}
	for i, r := range sorted {
		if r != uint64(i) {
			t.Fatalf("place %d of the sorted epoch is row %d", i, r)
		}
	}
	for step, want := range whole {
		c := c
		c.Start = int64(step * batch)
		rest := readAll(t, d, e, c)
		if got := rowsOf(t, rest); !slices.Equal(got, rows[step*batch:]) {
			t.Fatalf("from step %d on the order is another", step)
		}
		if step%4 != 0 {
			continue
		}
		var got []uint64
		for r := range 3 {
			c.Rank, c.Size = r, 3
			got = append(got, readAll(t, d, e, c)[0].RowID...)
		}
		slices.Sort(got)
		if !slices.Equal(got, slices.Sorted(slices.Values(want.RowID))) {
			t.Fatalf("step %d: 3 ranks read other rows than one", step)
		}
	}
}

// A packed file that is not shuffled is read in file order.
func TestStreamInOrder(t *testing.T) {
	src, schema := datatest.Fields("csv")
	d, fit := prepare(t, src, schema, 1, datatest.Files(t, ".gz", datatest.Pack(t, ".gz", datatest.Numbered(t, "csv", 0, 1000))))
	rows := []uint64{}
	for _, b := range readAll(t, d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 64}) {
		slices.Sort(b.RowID)
		rows = append(rows, b.RowID...)
	}
	if len(rows) != 1000 || !slices.IsSorted(rows) {
		t.Errorf("%d rows, in order: %v", len(rows), slices.IsSorted(rows))
	}
}

// The held-out records of a stream are the same in any part and pass.
func TestStreamHoldOut(t *testing.T) {
	src, schema := datatest.Fields("tfrecord")
	path := datatest.Files(t, ".zst", datatest.Pack(t, ".zst", datatest.Numbered(t, "tfrecord", 0, 2000)))
	d, err := Open(src, schema, []string{path})
	fatal.If(t, err)
	fatal.If(t, d.HoldOut(0.25, 3))
	fit := encode.NewFit(schema)
	counts, err := d.Scan(context.Background(), 0, 1, fit, nil)
	fatal.If(t, err)
	fatal.If(t, d.Use(counts))
	e, seen := newEncoder(t, fit), map[uint64]int{}
	for _, sel := range []Select{Train, Valid} {
		for _, r := range rowsOf(t, readAll(t, d, e, ReaderConfig{Seed: 1, GlobalBatch: 100, Shuffle: true, Select: sel})) {
			seen[r]++
		}
	}
	if valid := d.Rows(Valid); valid < 400 || valid > 600 || len(seen) != 2000 {
		t.Errorf("%d held out, %d of 2000 rows seen", valid, len(seen))
	}
}

// A file cut anywhere gives an error or every record that has begun: never a panic or a
// silent loss. Packed text cut between two members looks like a shorter file, so an error
// is only expected of packings with an end mark.
func TestEveryCutOfEveryFormat(t *testing.T) {
	datatest.EveryFormat(t, func(t *testing.T, format, packing string) {
		const records = 6
		src, schema := datatest.Fields(format)
		plain := datatest.Numbered(t, format, 0, records)
		file := datatest.Pack(t, packing, plain)
		dir := t.TempDir()
		for n := 1; n <= len(file); n++ {
			path := filepath.Join(dir, fmt.Sprintf("cut-%d%s", n, packing))
			fatal.If(t, os.WriteFile(path, file[:n], 0o644))
			d, err := Open(src, schema, []string{path})
			var c *Counts
			if err == nil {
				c, err = d.Scan(context.Background(), 0, 1, nil, nil)
			}
			if err != nil {
				if !strings.Contains(err.Error(), filepath.Base(path)) {
					t.Fatalf("cut at %d: the error names no file: %v", n, err)
				}
				continue
			}
			begun := int64(0)
			for r := range records {
				if packing == "" && len(datatest.Numbered(t, format, 0, r)) < n {
					begun++
				}
			}
			if whole := n == len(file) || packing == ".sz"; packing != "" && whole {
				begun = c.Records() // by construction, or as snappy has it
			}
			if c.Records() != begun {
				t.Fatalf("cut at %d of %d: %d records and no error, %d have begun", n, len(file), c.Records(), begun)
			}
		}
	})
}

// With max_bad, damaged records are counted, reported and left out; the order of the
// others obeys the same laws.
func TestDamagedRecordsAreLeftOut(t *testing.T) {
	datatest.EveryFormat(t, func(t *testing.T, format, packing string) {
		if format == "parquet" {
			return // a page is whole or not at all
		}
		const records = 2000
		src, schema := datatest.Fields(format)
		b := datatest.Numbered(t, format, 0, records)
		bad := []int{3, 400, 401, 1999}
		for _, n := range bad {
			lo, hi := len(datatest.Numbered(t, format, 0, n)), len(datatest.Numbered(t, format, 0, n+1))
			if format == "tfrecord" {
				b[hi-1] ^= 1 // the checksum of the record
				continue
			}
			b[lo] = '?'
		}
		path := datatest.Files(t, packing, datatest.Pack(t, packing, b))
		for _, most := range []int64{0, 3} {
			src.MaxBad = most
			d, err := Open(src, schema, []string{path})
			fatal.If(t, err)
			_, err = d.Scan(context.Background(), 0, 1, nil, nil)
			f, ok := errors.AsType[*record.Fault](err)
			if !ok || f.Others == nil && f.Same != 3 || f.Others != nil && f.Same+f.Others.Records != 3 {
				t.Fatalf("max_bad %d: %v", most, err)
			}
		}
		src.MaxBad = 4
		d, fit := prepare(t, src, schema, 2, path)
		n, first := d.Bad()
		told := int64(0)
		for _, f := range first {
			told += 1 + f.Same
		}
		if n != 4 || told != 4 {
			t.Fatalf("%d are bad, %d are told", n, told)
		}
		for i, f := range first {
			lo := len(datatest.Numbered(t, format, 0, bad[i]))
			if format == "tfrecord" && f.Offset != int64(lo) || format != "tfrecord" && f.Line != int64(bad[i]+1) {
				t.Errorf("fault %d is at %s", i, f.Place())
			}
		}
		e := newEncoder(t, fit)
		for _, size := range []int{1, 3} {
			var got []uint64
			for r := range size {
				for _, b := range readAll(t, d, e, ReaderConfig{Seed: 2, GlobalBatch: 100, Shuffle: true, Rank: r, Size: size}) {
					got = append(got, b.Sparse[0].Values...)
				}
			}
			slices.Sort(got)
			want := []uint64{}
			for n := range records {
				if !slices.Contains(bad, n) {
					want = append(want, uint64(n))
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%d ranks read %d records, want %d, or others", size, len(got), len(want))
			}
		}
	})
}

// Damage to a length loses the frame, not the file: the reader finds the next one.
func TestTFRecordFindsTheNextFrame(t *testing.T) {
	src, schema := datatest.Fields("tfrecord")
	src.MaxBad = 1
	whole := datatest.Numbered(t, "tfrecord", 0, 5000)
	for _, n := range []int{0, 1, 2500, 4999} {
		b := slices.Clone(whole)
		b[len(datatest.Numbered(t, "tfrecord", 0, n))] ^= 0x40
		d, err := Open(src, schema, []string{datatest.Files(t, "", b)})
		fatal.If(t, err)
		for _, parts := range []int{1, 4} {
			var counts Counts
			for p := range parts {
				c, err := d.Scan(context.Background(), p, parts, nil, nil)
				fatal.If(t, err)
				fatal.If(t, counts.Merge(c.Marshal()))
			}
			if bad, _ := counts.Bad(); bad != 1 || counts.Records() != 4999 {
				t.Errorf("frame %d lost, in %d parts: %d records, %d bad", n, parts, counts.Records(), bad)
			}
		}
	}
}

// A table of truth values has the same words, numbers and labels in every format.
func TestTruthValuesInEveryFormat(t *testing.T) {
	s := schema.Schema{Label: schema.Label{Field: "click"}, Features: []schema.Feature{
		{Field: "mobile", Encode: "hash"}, {Field: "mobile", Name: "word", Encode: "vocabulary"}, {Field: "mobile", Name: "id", Encode: "id"},
		{Field: "mobile", Name: "number", Encode: "raw"}, {Field: "price", Encode: "raw"},
	}}.Fill()
	for _, format := range []string{"csv", "jsonl", "parquet"} {
		src := schema.Source{Format: format, Header: format == "csv"}
		d, fit := prepareWithin(t, tiny, src, s, 1, filepath.Join("testdata", "bool", "bool."+format))
		var got []string
		for _, b := range readAll(t, d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 100}) {
			for i := range b.Rows {
				hash := b.Sparse[0].Values[i]
				word := b.Sparse[1].Values[i]
				got = append(got, fmt.Sprint(b.Label[i], hash == encode.KeyOf([]byte("true")), word == encode.KeyOf([]byte("true")), b.Sparse[2].Values[i], b.Dense[2*i:2*i+2]))
			}
		}
		if want := []string{"1 false false 0 [0 2.5]", "0 true true 1 [1 1.25]"}; len(got) < 4 || !slices.Equal(got[:2], want) {
			t.Errorf("%s: %q, want %q first", format, got, want)
		}
	}
}
