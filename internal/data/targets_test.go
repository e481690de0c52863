package data

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// targetsSchema returns a schema with a weight and two labels after the first.
func targetsSchema() schema.Schema {
	return schema.Schema{
		Label:    schema.Label{Field: "click", Weight: "w"},
		Labels:   []schema.Label{{Field: "buy"}, {Field: "watch", Kind: "number"}},
		Features: []schema.Feature{{Field: "city", Encode: "hash"}, {Field: "price", Encode: "raw"}},
	}
}

// TestTargets: batches contain weights and labels, in every format.
func TestTargets(t *testing.T) {
	const csv = "city,price,w,click,buy,watch\nBasel,1.5,2,1,0,-3.25\nBern,4,0,0,1,100\nZug,0.25,0.5,1,1,7\n"
	const jsonl = `{"city":"Basel","price":1.5,"w":2,"click":1,"buy":0,"watch":-3.25}
{"city":"Bern","price":4,"w":0,"click":0,"buy":1,"watch":100}
{"city":"Zug","price":0.25,"w":0.5,"click":1,"buy":1,"watch":7}
`
	for _, x := range []struct {
		src        schema.Source
		name, text string
	}{{schema.Source{Header: true}, "a.csv", csv}, {schema.Source{Format: "jsonl"}, "a.jsonl", jsonl}} {
		d, fit := prepare(t, x.src, targetsSchema(), 1+len(x.name)%2, datatest.Write(t, x.name, x.text))
		means, _ := d.LabelMeans()
		if got := fmt.Sprint(means); got != "[0.6666666666666666 0.6666666666666666 34.583333333333336]" {
			t.Errorf("%s: means %s", x.name, got)
		}
		b := readAll(t, d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 3})[0]
		got := fmt.Sprint(b.Dense, b.Label, b.Weight, b.Labels)
		if want := "[1.5 4 0.25] [1 0 1] [2 0 0.5] [[0 1 1] [-3.25 100 7]]"; got != want {
			t.Errorf("%s: %s, want %s", x.name, got, want)
		}
	}
}

// TestFaultyTargets: a record without a usable weight or label is an error with its line.
func TestFaultyTargets(t *testing.T) {
	for _, x := range []struct{ record, want string }{
		{"Bern,4,,0,1,100", "a.csv:3: column w: \"\" is missing; every record needs a weight"},
		{"Bern,4,-1,0,1,100", "a.csv:3: column w: \"-1\" is not a weight: it must be from 0 to 1048576"},
		{"Bern,4,2e6,0,1,100", "is not a weight"},
		{"Bern,4,x,0,1,100", "a.csv:3: column w"},
		{"Bern,4,1,0,2,100", "a.csv:3: column buy: \"2\" is neither 0 nor 1; give labels[].threshold"},
		{"Bern,4,1,0,1,1e39", "a.csv:3: column watch: \"1e39\" is larger"},
	} {
		path := datatest.Write(t, "a.csv", "city,price,w,click,buy,watch\nBasel,1.5,2,1,0,-3.25\n"+x.record+"\n")
		d, err := Open(schema.Source{Header: true}, targetsSchema(), []string{path})
		if err == nil {
			_, err = d.Scan(context.Background(), 0, 1, nil, nil)
		}
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", ""), x.want) {
			t.Errorf("%s: %v, want %s", x.record, err, x.want)
		}
	}
}
