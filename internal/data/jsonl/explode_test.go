package jsonl

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// exploded returns the records that one makes, or the error.
func exploded(record string) []string {
	e := NewExploder("data")
	if err := e.Begin([]byte(record)); err != nil {
		return []string{err.Error()}
	}
	var all []string
	for {
		b, ok := e.Next()
		if !ok {
			return all
		}
		all = append(all, string(b))
	}
}

func TestExplode(t *testing.T) {
	for in, want := range map[string][]string{
		`{"data":[{"id":"1"},{"id":"2"}],"old":[{"id":"0"}],"type":"UPDATE","xs":[1,2]}`: {`{"type":"UPDATE","xs":[1,2],"data":{"id":"1"}}`, `{"type":"UPDATE","xs":[1,2],"data":{"id":"2"}}`},
		` { "data" : [ 1 , [2] ] } `:    {`{"data":1}`, `{"data":[2]}`},
		`{"a\"":1,"da\u0074a":{"b":2}}`: {`{"a\"":1,"data":{"b":2}}`},
		`{"data":null,"sql":"CREATE"}`:  nil,
		`{"data":[]}`:                   nil,
		`{"data":[1],"data":[2]}`:       {`{"data":2}`},
		`{"id":1}`:                      {`there is no member "data", whose elements are records (data.explode)`},
		`{"data":[1,]}`:                 {"the record is not a JSON object: byte 11: no value of JSON begins so"},
		`{"data":[1]} x`:                {"the record is not a JSON object: byte 13: 'x' follows the object"},
	} {
		if got := exploded(in); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

// FuzzExplode compares with encoding/json.
func FuzzExplode(f *testing.F) {
	for _, s := range []string{`{"data":[{"id":"1"},{"id":2.5}],"t":"é"}`, `{"data":null}`, `{"data":[[1],"x"],"o":{"p":[]},"n":[[]]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var whole map[string]json.RawMessage
		if json.Unmarshal([]byte(in), &whole) != nil || whole["data"] == nil || strings.ContainsRune(in, '\ufffd') {
			_ = exploded(in)
			return
		}
		want := []any{}
		if json.Unmarshal(whole["data"], &want) != nil {
			return
		}
		got := exploded(in)
		if len(got) != len(want) {
			t.Fatalf("%q, want %d", got, len(want))
		}
		for i := range got {
			var x map[string]any
			if err := json.Unmarshal([]byte(got[i]), &x); err != nil || !reflect.DeepEqual(x["data"], want[i]) {
				t.Errorf("%s: %v, want %v: %v", got[i], x["data"], want[i], err)
			}
		}
	})
}
