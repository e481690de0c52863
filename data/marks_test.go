package data

import (
	"bytes"
	"testing"

	"github.com/wdlrun/wdlrun/data/datatest"
	"github.com/wdlrun/wdlrun/data/schema"
	"github.com/wdlrun/wdlrun/data/synth"
)

// From a mark on come the records that come from the beginning of its block on, and a
// mark is near.
func TestMarksAreWhereRecordsBegin(t *testing.T) {
	var text bytes.Buffer
	if err := synth.Write(&text, "criteo", 0, 2000); err != nil {
		t.Fatal(err)
	}
	s := schema.Schema{Label: schema.Label{Field: "label"}, Features: []schema.Feature{{Field: "C1", Encode: "hash"}}}
	d, err := Open(schema.Source{Format: "criteo"}, s, []string{datatest.Write(t, "log.tsv", text.String())})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.HoldOut(.2, 1); err != nil {
		t.Fatal(err)
	}
	fit, counts := scanAll(t, d, s, 3)
	if err := d.Use(counts); err != nil {
		t.Fatal(err)
	}
	for _, sel := range []Select{Train, Valid, All} {
		c := ReaderConfig{Lanes: 1, Shuffle: true, Select: sel}.filled()
		f, err := d.newFiller(newEncoder(t, fit), c)
		if err != nil {
			t.Fatal(err)
		}
		f.begin(d.newOrder(&c, 0), 0)
		marked := 0
		for g := int64(0); g < f.order.rows(); g += 17 {
			at, skip := f.order.seek(g)
			record := func(from spot) kept {
				var w window
				if err := f.collect(&from, skip-int64(from.chosen), nil); err != nil {
					t.Fatal(err)
				}
				if err := f.collect(&from, 1, &w); err != nil {
					t.Fatal(err)
				}
				return w.kept[0]
			}
			from := f.spotBefore(at, skip)
			want := record(spot{at: at, offset: -1})
			if got := record(from); got != want {
				t.Fatalf("record %d of %d: %+v from the mark %+v, %+v from the beginning", g, sel, got, from, want)
			}
			if from.row > 0 {
				marked++
			}
			if far, all := want.row-from.row, d.records[want.block]; far > all/marksABlock+2 {
				t.Errorf("record %d of %d: %d of its block's %d records away from the mark before it", g, sel, far, all)
			}
		}
		if marked == 0 {
			t.Errorf("selection %d: there is no mark", sel)
		}
		f.Close()
	}
}
