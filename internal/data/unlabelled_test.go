package data

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestRecordsWithoutLabel: records to be predicted need neither label nor weight, nor the fields
// that these are computed from, in each format. Their inputs are those of the same records with
// a label.
func TestRecordsWithoutLabel(t *testing.T) {
	criteo := slices.Repeat([]string{"7"}, len(schema.CriteoFields()))
	criteo[0] = "1"
	for name, x := range map[string]struct {
		src             schema.Source
		label           schema.Label
		features        []schema.Feature
		labelled, asked string
	}{
		"libsvm": {schema.Source{Format: "libsvm"}, schema.Label{Field: "label"}, []schema.Feature{{Field: "features", Encode: "id", Weights: "values"}, {Field: "7", Encode: "raw"}},
			"1 1:1 7:0.5\n0 2:1 7:2\n", "1:1 7:0.5\n2:1 7:2\n"},
		"libffm": {schema.Source{Format: "libffm"}, schema.Label{Field: "label"}, []schema.Feature{{Field: "1", Encode: "id", Weights: "1_values"}},
			"1 1:5:1 7:6:0.5\n0 1:2:1\n", "1:5:1 7:6:0.5\n1:2:1\n"},
		"criteo": {schema.Source{Format: "criteo"}, schema.Label{Field: "label"}, []schema.Feature{{Field: "I1", Encode: "raw"}, {Field: "C26", Encode: "hash"}},
			strings.Join(criteo, "\t"), strings.Join(criteo[1:], "\t")},
		"derived": {
			schema.Source{Header: true, Derive: []schema.Derived{schema.NewDerived("liked", "rating >= 4"), schema.NewDerived("w", "rating / 5"), schema.NewDerived("double", "2 * price")}},
			schema.Label{Field: "liked", Weight: "w"}, []schema.Feature{{Field: "double", Encode: "raw"}},
			"rating,price\n5,1.5\n2,3\n", "price\n1.5\n3\n"},
	} {
		s := schema.Schema{Label: x.label, Features: x.features}.Fill()
		d, fit := prepare(t, x.src, s, 1, datatest.Write(t, "labelled", x.labelled))
		e, err := encode.NewEncoder(fit)
		fatal.If(t, err)
		inputs := func(d *Dataset) string {
			b := readAll(t, d, e, ReaderConfig{GlobalBatch: 10})[0]
			out := fmt.Sprint(b.Dense)
			for _, j := range b.Sparse {
				out += fmt.Sprint(j.Values, j.Weights, j.Offsets)
			}
			return out
		}
		want := inputs(d)
		asked, err := OpenEval(x.src, s.Unlabelled(), []string{datatest.Write(t, "asked", x.asked)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c, err := asked.Scan(context.Background(), 0, 1, nil, nil)
		fatal.If(t, err)
		fatal.If(t, asked.Use(c))
		if e = e.WithLabels(s.Unlabelled().Label, nil); inputs(asked) != want {
			t.Errorf("%s: %s, with a label %s", name, inputs(asked), want)
		}
		again, err := OpenEval(x.src, s, []string{datatest.Write(t, "again", x.asked)})
		if err == nil {
			_, err = again.Scan(context.Background(), 0, 1, nil, nil)
		}
		if err == nil || !strings.Contains(err.Error(), "label") && !strings.Contains(err.Error(), "rating") {
			t.Errorf("%s: evaluated without labels: %v", name, err)
		}
	}
}
