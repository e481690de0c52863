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
)

// TestMarkedPairs: a field with values and their weights trains as the two fields would.
func TestMarkedPairs(t *testing.T) {
	one := func(encode string) schema.Schema {
		return schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "hist", Encode: encode, Separator: "|", Pairs: ":"}}}
	}
	two := func(encode string) schema.Schema {
		return schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "hist", Encode: encode, Separator: "|", Weights: "ws"}}}
	}
	for format, content := range map[string][2]string{
		"csv": {"y,hist\n1,t1:1.5|t4:0.5\n0,\n0,a:b:-2||t1:\n1, t1 : 3 |?|:7\n1,t9:nan\n",
			"y,hist,ws\n1,t1|t4,1.5|0.5\n0,,\n0,a:b||t1,-2||\n1,t1|?|,3|1|7\n1,t9,nan\n"},
		"jsonl": {`{"y":1,"hist":["t1:1.5","t4:0.5"]}` + "\n" + `{"y":0}` + "\n" + `{"y":0,"hist":["a:b:-2",null,"t1:"]}` + "\n" + `{"y":1,"hist":"t1:3|?"}` + "\n" + `{"y":1,"hist":[]}` + "\n",
			`{"y":1,"hist":["t1","t4"],"ws":[1.5,0.5]}` + "\n" + `{"y":0}` + "\n" + `{"y":0,"hist":["a:b",null,"t1"],"ws":[-2,null,null]}` + "\n" + `{"y":1,"hist":"t1|?","ws":[3,1]}` + "\n" + `{"y":1,"hist":[]}` + "\n"},
	} {
		for _, how := range []string{"hash", "vocabulary"} {
			var got [2]string
			for i, s := range []schema.Schema{one(how), two(how)} {
				src := schema.Source{Format: format, Missing: []string{"?"}, Header: format == "csv"}
				d, fit := prepare(t, src, s, 2, datatest.Write(t, "a."+format, content[i]))
				b := readAll(t, d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 100})[0]
				got[i] = fmt.Sprint(b.Sparse[0].Offsets, b.Sparse[0].Values, b.Sparse[0].Weights)
			}
			if got[0] != got[1] || !strings.Contains(got[0], "1.5 0.5 1 -2 3") {
				t.Errorf("%s, %s: %s\nas two fields: %s", format, how, got[0], got[1])
			}
		}
	}
}

func TestFaultyPairs(t *testing.T) {
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "hist", Encode: "id", Separator: "|", Pairs: ":"}}}
	for value, want := range map[string]string{
		"7:1|8":       `column hist: "8" has no ":" between a value and its weight`,
		"7:1|x:2":     `"x" is not a 64-bit integer`,
		"7:1|8:heavy": `"heavy" is not a number`,
	} {
		d, err := Open(schema.Source{Header: true}, s, []string{datatest.Write(t, "a.csv", "y,hist\n0,7:1\n1,"+value+"\n")})
		if err == nil {
			_, err = d.Scan(context.Background(), 0, 1, nil, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", value, err, want)
		}
	}
	s.Features[0].Weights = "ws"
	if err := fmt.Sprint(s.Validate(nil)); !strings.Contains(err, "has pairs and weights") {
		t.Error(err)
	}
}

// TestPadding: padding is no value, and a limit applies to the values that are left.
func TestPadding(t *testing.T) {
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{
		{Field: "ids", Encode: "id", Padding: "-1", Name: "all"},
		{Field: "ids", Encode: "id", Padding: "-1", MaxLen: 2, Name: "first"},
		{Field: "ids", Encode: "id", Padding: "-1", MaxLen: -2, Name: "last"},
		{Field: "ids", Encode: "vocabulary", Padding: "-1", MaxLen: -1, Name: "word"},
		{Field: "ids", Encode: "id", Padding: "-1", MaxLen: -2, Name: "weighted", Weights: "ws"},
	}}
	text := `{"y":1,"ids":[5,6,7,-1,-1],"ws":[1,2,3,0,0]}` + "\n" + `{"y":0,"ids":[-1,-1],"ws":[0,0]}` + "\n" + `{"y":0,"ids":[5.0,-1.0],"ws":[4,1]}` + "\n" + `{"y":0,"ids":-1,"ws":1}` + "\n"
	d, fit := prepare(t, schema.Source{Format: "jsonl"}, s, 1, datatest.Write(t, "a.jsonl", text))
	e := newEncoder(t, fit)
	b := readAll(t, d, e, ReaderConfig{GlobalBatch: 100})[0]
	none := encode.KeyMissing
	for i, want := range [][]uint64{{5, 6, 7, none, 5, none}, {5, 6, none, 5, none}, {6, 7, none, 5, none}, {key("7"), none, key("5"), none}, {6, 7, none, 5, none}} {
		if got := b.Sparse[i].Values; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", e.Sparse()[i].Name, got, want)
		}
	}
	if got, want := b.Sparse[4].Weights, []float32{2, 3, 1, 4, 1}; !slices.Equal(got, want) {
		t.Errorf("weights %v, want %v", got, want)
	}
	if n := e.Sparse()[3].Vocabulary; n != 3 {
		t.Errorf("%d words in the vocabulary", n)
	}
}
