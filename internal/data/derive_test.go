package data

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// ride is a record of which columns are derived.
type ride struct {
	Fare float64 `parquet:"fare"`
	Tips *int64  `parquet:"tips,optional"`
	City string  `parquet:"city"`
}

// derivedSource returns a source that has a label, inputs and a condition that are expressions.
func derivedSource(format string) (schema.Source, schema.Schema) {
	src := schema.Source{Format: format, Where: "fare > 0 and city != 'Paris'", Missing: []string{"?"}, Derive: []schema.Derived{
		schema.NewDerived("liked", "tips / fare >= 0.5"), schema.NewDerived("share", "tips / fare"), schema.NewDerived("home", "city in ('Rome', 'Bern')"),
	}}
	if format == "csv" {
		src.Fields = []string{"fare", "tips", "city"}
	}
	return src, schema.Schema{Label: schema.Label{Field: "liked"}, Features: []schema.Feature{
		{Field: "share", Encode: "raw"}, {Field: "city", Encode: "hash"}, {Field: "home", Encode: "vocabulary"}, {Field: "share", Name: "cut", Encode: "quantile", Buckets: 4}}}
}

// rides writes n records in a format. It returns the expected share and label of the selected
// records.
func rides(t *testing.T, format string, n int) (path string, want []string) {
	t.Helper()
	var text strings.Builder
	var rows []ride
	for i := range n {
		fare, tips, city := float64(i%5), int64(i%4), []string{"Rome", "Bern", "Paris", "Oslo"}[i/7%4]
		rows = append(rows, ride{fare, &tips, city})
		if format == "csv" {
			fmt.Fprintf(&text, "%v,%d,%s\n", fare, tips, city)
		} else {
			fmt.Fprintf(&text, `{"fare": %v, "tips": "%d", "city": %q}`+"\n", fare, tips, city)
		}
		if fare > 0 && city != "Paris" {
			share, label := float64(tips)/fare, 0
			if share >= .5 {
				label = 1
			}
			want = append(want, fmt.Sprint(float32(share), label, city == "Rome" || city == "Bern"))
		}
	}
	if format == "parquet" {
		return datatest.Write(t, "rides.parquet", string(inTable(t, rows))), want
	}
	return datatest.Write(t, "rides."+format, text.String()), want
}

// Derived columns and conditions give the same in every format, on any number of ranks
// and from any step on.
func TestDerivedColumns(t *testing.T) {
	for _, format := range []string{"csv", "jsonl", "parquet"} {
		src, s := derivedSource(format)
		path, want := rides(t, format, 2000)
		d, fit := prepare(t, src, s, 3, path)
		excluded, _ := d.Excluded()
		if d.Rows(All) != int64(len(want)) || excluded != int64(2000-len(want)) || d.Positives() == 0 {
			t.Fatalf("%s: %d rows, %d excluded, want %d", format, d.Rows(All), excluded, len(want))
		}
		if bad, _ := d.Bad(); bad != 0 {
			t.Errorf("%s: %d bad records", format, bad)
		}
		e := newEncoder(t, fit)
		check := func(b *encode.Batch) {
			t.Helper()
			for i, id := range b.RowID {
				home := b.Sparse[1].Values[i] == key("1")
				if got := fmt.Sprint(b.Dense[i], b.Label[i], home); got != want[id] {
					t.Fatalf("%s: row %d is %s, want %s", format, id, got, want[id])
				}
			}
		}
		c := ReaderConfig{Seed: 3, GlobalBatch: 100, Shuffle: true}
		whole := readAll(t, d, e, c)
		for _, b := range whole {
			check(b)
		}
		rows := idsOf(whole)
		if sorted := slices.Sorted(slices.Values(rows)); len(sorted) != len(want) || sorted[len(sorted)-1] != uint64(len(want)-1) || len(slices.Compact(sorted)) != len(want) {
			t.Errorf("%s: %d rows, want each of %d once", format, len(rows), len(want))
		}
		c.Start = 500
		if got := idsOf(readAll(t, d, e, c)); !slices.Equal(got, rows[500:]) {
			t.Errorf("%s: from row 500 on the order is another", format)
		}
		var dealt []uint64
		for r := range 3 {
			c.Rank, c.Size = r, 3
			dealt = append(dealt, readAll(t, d, e, c)[0].RowID...)
		}
		if slices.Sort(dealt); !slices.Equal(dealt, slices.Sorted(slices.Values(whole[5].RowID))) {
			t.Errorf("%s: three ranks read other rows than one", format)
		}
	}
}

// idsOf returns the row ids of batches.
func idsOf(batches []*encode.Batch) (ids []uint64) {
	for _, b := range batches {
		ids = append(ids, b.RowID...)
	}
	return ids
}

// A missing value makes a derived one missing: a record without a label is bad, without
// a condition excluded, and one whose field is no number is bad, with its column.
func TestDerivedOfMissing(t *testing.T) {
	src, s := derivedSource("csv")
	src.MaxBad = 2
	d, _ := prepare(t, src, s, 1, datatest.Write(t, "t.csv", "2,1,Rome\n?,1,Rome\n2,?,Rome\n2,1,\nmany,1,Rome\n4,1,Oslo\n"))
	bad, first := d.Bad()
	excluded, _ := d.Excluded()
	if d.Rows(All) != 2 || excluded != 2 || bad != 2 {
		t.Errorf("%d rows, %d excluded, %d bad; want 2, 2 and 2", d.Rows(All), excluded, bad)
	}
	for i, want := range []string{"t.csv:3: column liked: \"\" is missing", "t.csv:5: column fare: \"many\" is not a number"} {
		if got := first[i].Error(); !strings.Contains(got, want) {
			t.Errorf("fault %d: %s, want %s", i, got, want)
		}
	}
}

// Expressions are checked by the fields that files have, and a condition that leaves
// nothing is an error that shows it.
func TestDerivedFaults(t *testing.T) {
	src, s := derivedSource("csv")
	path := datatest.Write(t, "t.csv", "0,1,Rome\n0,1,Bern\n")
	d, err := Open(src, s, []string{path})
	fatal.If(t, err)
	c, err := d.Scan(t.Context(), 0, 1, nil, nil)
	fatal.If(t, err)
	if err := d.Use(c); err == nil || !strings.Contains(err.Error(), "data.where, \"fare > 0 and city != 'Paris'\", excludes 2") {
		t.Errorf("no record is left: %v", err)
	}
	src.Where, src.Derive = "fair > 0", append(src.Derive, schema.NewDerived("city", "1"))
	_, err = Open(src, s, []string{path})
	for _, want := range []string{`data.where: at character 1: there is no field "fair"; did you mean fare?`, "data.derive.city: is the name of a field of the data"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("faults %v, want %s", err, want)
		}
	}
}
