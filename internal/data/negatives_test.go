package data

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestKeepNegatives: training reads all positives and about the share of negatives, the
// same ones for any number of parts; validation reads all.
func TestKeepNegatives(t *testing.T) {
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "%d,%d\n", min(i%10, 1)^1, i)
	}
	path := datatest.Write(t, "a.csv", text.String())
	src, s := schema.Source{Fields: []string{"y", "n"}}, schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "n", Encode: "id"}}}
	read := func(parts int, seed uint64, sel Select) (ids []uint64, positives int) {
		d, err := Open(src, s, []string{path})
		fatal.If(t, err)
		if err := d.HoldOut(0.2, 7); err != nil { // by the seed of the negatives, as in a job: the two choices are independent
			t.Fatal(err)
		}
		fatal.If(t, d.KeepNegatives(0.1, seed))
		counts, fit := new(Counts), encode.NewFit(s)
		for p := range parts {
			c, err := d.Scan(context.Background(), p, parts, fit, nil)
			if err == nil {
				err = counts.Merge(c.Marshal())
			}
			fatal.If(t, err)
		}
		fatal.If(t, d.Use(counts))
		for _, b := range readAll(t, d, newEncoder(t, fit), ReaderConfig{Select: sel, GlobalBatch: 64}) {
			ids = append(ids, b.Sparse[0].Values...)
			for _, y := range b.Label {
				positives += int(y)
			}
		}
		if int64(len(ids)) != d.Rows(sel) {
			t.Errorf("%d records are read, Rows says %d", len(ids), d.Rows(sel))
		}
		slices.Sort(ids)
		return ids, positives
	}
	ids, positives := read(1, 7, Train)
	if want := 400.0; math.Abs(float64(positives)-want) > 40 {
		t.Errorf("%d positives are left of about %v", positives, want)
	}
	if negatives := float64(len(ids) - positives); math.Abs(negatives-360) > 4*math.Sqrt(360*0.9) {
		t.Errorf("%v negatives are left of about 360", negatives)
	}
	if again, _ := read(3, 7, Train); !slices.Equal(again, ids) {
		t.Error("a scan in three parts leaves others out")
	}
	if other, _ := read(1, 8, Train); slices.Equal(other, ids) {
		t.Error("another seed leaves the same ones out")
	}
	if valid, _ := read(1, 7, Valid); math.Abs(float64(len(valid))-1000) > 150 {
		t.Errorf("%d records are held out of 1000", len(valid))
	}
	if all, _ := read(1, 7, All); len(all) != 5000 {
		t.Errorf("%d of all 5000 records", len(all))
	}
}
