package data

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// TestObjectsWithOtherFields: the names of fields are joined over files. A name that is in
// no first record of any file is an error, unless the data grows.
func TestObjectsWithOtherFields(t *testing.T) {
	first := strings.Repeat(`{"y": 1, "site": "a"}`+"\n", 10)
	second := strings.Repeat(`{"y": 0, "site": "b", "late": 7}`+"\n", 10)
	dir := datatest.Files(t, ".jsonl", []byte(first), []byte(second))
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "site", Encode: "vocabulary"}, {Field: "late", Encode: "id"}}}
	d, _ := prepare(t, schema.Source{Format: "jsonl"}, s, 1, dir)
	if d.Rows(All) != 20 || d.Positives() != 10 {
		t.Errorf("%d rows, %d positive", d.Rows(All), d.Positives())
	}
	src, one := schema.Source{Format: "jsonl"}, []string{dir + "/part-00.jsonl"}
	if _, err := Open(src, s, one); err == nil || !strings.Contains(err.Error(), `there is no field "late"`) {
		t.Error(err)
	}
	src.Follow.On = true
	if _, err := Open(src, s, one); err != nil {
		t.Error(err)
	}
}

// TestObjectsAreTheSameKeys: a column gives the same keys as in csv, whatever its JSON
// type.
func TestObjectsAreTheSameKeys(t *testing.T) {
	s := schema.Schema{
		Label: schema.Label{Field: "y"},
		Features: []schema.Feature{
			{Field: "id", Encode: "id"}, {Field: "site", Encode: "hash"}, {Field: "n", Encode: "raw"},
			{Field: "tags", Encode: "hash", Separator: "|"}, {Field: "code", Encode: "vocabulary"},
		},
	}
	csv := "y,id,site,n,tags,code\n1,18446744073709551615,é\"q,2.5,a|b,7\n0,,,,,\n1,3,b,-1e3,c,7\n"
	lines := []string{
		`{"y": true, "id": 18446744073709551615, "site": "\u00e9\"q", "n": 2.5, "tags": ["a", "b"], "code": 7}`,
		`{"y": 0, "id": null, "site": "", "tags": []}`,
		`{"code": "7", "tags": "c", "n": "-1e3", "site": "b", "id": 3.0, "y": "1"}`,
	}
	path := datatest.Write(t, "a.jsonl", strings.Join(lines, "\r\n"))
	want := firstBatch(t, schema.Source{Header: true}, s, datatest.Write(t, "a.csv", csv))
	if got := firstBatch(t, schema.Source{Format: "jsonl"}, s, path); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestMembersAreFields: a member of an object gives the same keys as a column with its name.
func TestMembersAreFields(t *testing.T) {
	s := schema.Schema{
		Label:    schema.Label{Field: "event.click"},
		Features: []schema.Feature{{Field: "user.id", Encode: "id"}, {Field: "user.geo.city", Encode: "vocabulary"}, {Field: "n", Encode: "raw"}},
	}
	lines := []string{
		`{"event": {"id": 9, "click": true}, "user": {"id": 7, "geo": {"city": "Bern"}}, "n": 2.5}`,
		`{"n": 1, "user": null, "event": {"click": 0}}`,
		`{"user": {"geo": {"city": "Rome", "zip": "3"}}, "event": {"click": "1"}}`,
	}
	want := firstBatch(t, schema.Source{Header: true}, s, datatest.Write(t, "a.csv", "event.click,user.id,user.geo.city,n\n1,7,Bern,2.5\n0,,,1\n1,,Rome,\n"))
	if got := firstBatch(t, schema.Source{Format: "jsonl"}, s, datatest.Write(t, "a.jsonl", strings.Join(lines, "\n"))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// firstBatch returns all rows of a file as text, in file order.
func firstBatch(t *testing.T, src schema.Source, s schema.Schema, path string) string {
	t.Helper()
	d, fit := prepare(t, src, s, 1, path)
	b := readAll(t, d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 100})[0]
	out := fmt.Sprint(b.Label, b.Dense)
	for i := range b.Sparse {
		out += fmt.Sprint(" ", b.Sparse[i].Offsets, b.Sparse[i].Values)
	}
	return out
}

// TestObjectsThatAreNot: the error for a file of another layout names the layout and gives
// advice.
func TestObjectsThatAreNot(t *testing.T) {
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "x", Encode: "hash"}}}
	for content, want := range map[string]string{
		"[{\"y\": 1}]":                          "jq -c '.[]'",
		"{\n\"y\": 1\n}\n":                      "jq -c . ",
		"y,x\n1,a\n":                            "none of its first lines is a JSON object",
		`{"y": 1, "x": {"z": 1}}`:               `there is no field "x"`,
		"{\"y\":1,\"x\":2}\n{\"y\":1,\"x\":{}}": `:2: field "x" is an object`,
	} {
		d, err := Open(schema.Source{Format: "jsonl"}, s, []string{datatest.Write(t, "a.jsonl", content)})
		if err == nil {
			_, err = d.Scan(context.Background(), 0, 1, nil, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", content, err, want)
		}
	}
}
