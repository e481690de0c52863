package body

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/jsonl"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/serve/rows"
	"github.com/wdlrun/wdlrun/internal/serve/tfs"
)

var roomy = tfs.Limits{Inputs: 16, Rows: 100, Values: 1000}

// written formats columns: name, kind and values of each row.
func written(columns []rows.Column) string {
	var all []string
	for _, c := range columns {
		var cells []string
		for i := range c.Rows {
			l := &c.Rows[i]
			var parts []string
			for k := range l.All {
				if k < 0 {
					parts = append(parts, "-")
					continue
				}
				parts = append(parts, string(l.Append(nil, k)))
			}
			cells = append(cells, [...]string{"-", "t", "i", "f", "d"}[l.Kind]+strings.Join(parts, "+"))
		}
		all = append(all, c.Name+"="+strings.Join(cells, ","))
	}
	return strings.Join(all, " ")
}

func TestPredict(t *testing.T) {
	for _, x := range []struct{ text, want string }{
		{`{"instances": [{"age": 17, "tags": ["a", "b"]}, {"age": 0.5}]}`, "age=i17,d0.5 tags=ta+b,-"},
		{`{"instances": [{}, {"n": -1e2, "s": "\u00e9\n"}, {"x": true}]}`, "n=-,d-100.0,- s=-,té\n,- x=-,-,ttrue"},
		{`{"inputs": {"age": [17, 38], "tags": [["a"], ["b", "c"]], "day": "mon"}}`, "age=i17,i38 tags=ta,tb+c day=tmon"},
		{`{"instances": [{"x": NaN}, {"x": -Infinity}, {"x": null}, {"x": []}]}`, "x=dnan,d-inf,-,-"},
		{`{"instances": [{"x": 1e400}, {"x": -1e400}]}`, "x=dinf,d-inf"},
		{`{"instances": [{"x": {"b64": "/w=="}}]}`, "x=t\xff"},
		{`{"instances": [{"b64": "QQ=="}, {"b64": "Qg=="}]}`, "=tA,tB"},
		{`{"instances": [{"x": {"b64": "/w"}}, {"x": {"b64": "QQ"}}]}`, "x=t\xff,tA"},
		{`{"inputs": [1, 2]}`, "=i1,i2"},
		{`{"instances": [1, [2, 3]]}`, "=i1,i2+3"},
		{`{"instances": [{"x": [1, 0.5]}]}`, "x=t1+0.5"},
		{`{"instances": [{"x": [null, "a", null]}, {"x": ["b", null]}]}`, "x=t-+a+-,tb+-"},
		{`{"inputs": {"x": [[null, 2], [1, null]]}}`, "x=i-+2,i1+-"},
		{`{"instances": [{"x": 18446744073709551615}]}`, "x=t18446744073709551615"},
		{` { "more" : {"a": [[1], {}]}, "signature_name": "s", "instances": [ { "x" : 1 } ] } `, "x=i1"},
		{`{"instances": []}`, ""},
		{`{"instances": [{"x": [{"a": 1}, {"a": [2]}], "n": 1}, {"n": 2, "x": [[1], 2]}, {"x": [{"b64": "QQ=="}]}]}`, "x=-,-,tA x.a=--,-,- n=i1,i2,-"},
		{`{"instances": [{"n": 1}, {"h": [null, {"id": 5, "z": {"k": "a"}}, {}, {"w": 0.5, "id": null}, {"id": 7}]}, {"h": [{"w": 1}], "n": 2}, {"h": []}]}`,
			"n=i1,-,i2,- h=-,-,-,- h.id=-,i-+5+-+-+7,-,- h.z.k=-,t-+a+-+-+-,-,- h.w=-,d-+-+-+0.5+-,i1,-"},
		{`{"instances": [{"user": {"id": 7, "geo": {"city": "Bern"}}, "n": 1}, {"n": 2, "user": {"age": {"b64": "QQ=="}}, "w": {}}]}`, "user.id=i7,- user.geo.city=tBern,- n=i1,i2 user.age=-,tA"},
	} {
		r, err := Predict([]byte(x.text), roomy)
		if got := written(r.Columns); err != nil || got != x.want {
			t.Errorf("%s: %q, %v; want %q", x.text, got, err, x.want)
		}
		if r.Instances == strings.Contains(x.text, "inputs") {
			t.Errorf("%s: instances %v", x.text, r.Instances)
		}
	}
}

// TestRefused: columns that cannot be an input say why, and in which row.
func TestRefused(t *testing.T) {
	const a = `; an input is a number, a string, a list of these, or {"b64": "…"}`
	for text, want := range map[string]string{
		`{"h": [{"id": 1}]}`:              `input "h": row 1: is a list of objects, whose members are inputs: h.MEMBER` + a,
		`{"h": [{"id": 1}, 2, {"w": 3}]}`: `input "h.w": row 1: is in a list of objects and other values` + a,
		`{"h": [{"id": [1, 2]}]}`:         `input "h.id": row 1: is a list in a list of objects` + a,
		`{"h": [{"id": 1, "id": 2}]}`:     `input "h.id": row 1: occurs twice in an object` + a,
		`{"h": [[1, 2]]}`:                 `input "h": row 1: is a list of lists` + a,
	} {
		r, err := Predict([]byte(`{"instances": [{}, `+text+`]}`), roomy)
		found := false
		for _, c := range r.Columns {
			found = found || c.Fault != nil && c.Fault.Error() == want
		}
		if err != nil || !found {
			t.Errorf("%s: %v, %+v; want %s", text, err, r.Columns, want)
		}
	}
	wide := `{"instances": [{"h": [{"a":1,"b":1,"c":1}` + strings.Repeat(",{}", 400) + `]}]}`
	if _, err := Predict([]byte(wide), roomy); err == nil || !strings.Contains(err.Error(), "too many values") {
		t.Error(err)
	}
}

func TestExamples(t *testing.T) {
	r, err := Examples([]byte(`{"signature_name": "s", "context": {"c": "CH", "u": {"age": 5}}, "examples": [{"u": {"age": 17}}, {"x": [1.5, 2]}]}`), roomy)
	if got := written(r.Columns); err != nil || got != "u.age=i17,i5 x=-,t1.5+2 c=tCH,tCH" || r.Rows != 2 || r.Signature != "s" {
		t.Errorf("%q, %v, %+v", got, err, r)
	}
}

func TestFaults(t *testing.T) {
	for want, text := range map[string]string{
		`one of "instances" and "inputs"`: `{}`,
		`byte 14: "instances" is a list of rows, such as [{"age": 38}]; columns are in "inputs"`: `{"instances": {"age": [38]}}`,
		`byte 17: expected ']'`:     `{"instances": [1 2]}`,
		`expected '{'`:              `[]`,
		"there is more after":       `{"inputs": [1]} x`,
		"the string does not end":   `{"inputs": "a`,
		"b64: illegal base64":       `{"inputs": {"x": {"b64": "?"}}}`,
		`member "b": a value is`:    `{"inputs": [{"b": 1}]}`,
		`member "user": a value is`: `{"instances": [[{"user": 1}]]}`,
		`input "x" has an object with the member "b" in its values; send its members as inputs: "x.b"; a value is a number`: `{"inputs": {"x": {"b": 1}}}`,
		`more than 32 levels`:                           `{"instances": [` + strings.Repeat(`{"x": `, 40),
		`the name of an object has more than 256 bytes`: `{"instances": [{"` + strings.Repeat("x", 256) + `": {"y": 1}}]}`,
		`input "c" has an object with the member "age"`: `{"instances": [{"id": 1, "c": [1, {"age": 38}]}]}`,
		`input "x" has a list in a list of values`:      `{"inputs": {"x": [[[1, 2]]]}}`,
		"at most two dimensions":                        `{"instances": [[[1, 2]]]}`,
		"expected a value":                              `{"inputs": {"x": 01}}`,
		"a control character":                           "{\"inputs\": \"a\x01\"}",
		"invalid character 'q'":                         `{"inputs": "\q"}`,
		"JSON: byte 38: more than 32 levels":            `{"x": ` + strings.Repeat("[", 40),
		"more than 100 rows":                            `{"instances": [` + strings.Repeat("1,", 100) + `1]}`,
		"more than 16 inputs":                           `{"inputs": {` + strings.Join(strings.Split(`"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"p":1,"q":1`, ","), ",") + `}}`,
		"too many values":                               `{"inputs": {"x": [` + strings.Repeat("["+strings.Repeat("1,", 20)+"1],", 60) + `1]}}`,
		"are too many values":                           `{"instances": [` + strings.Repeat("{},", 99) + `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1}]}`,
		`"examples" is a list of rows, such as`:         `not here`,
		`to classify or regress has "example`:           `not here`,
	} {
		_, err := Predict([]byte(text), roomy)
		if strings.HasPrefix(want, `"examples"`) {
			_, err = Examples([]byte(`{"examples": {"age": 38}}`), roomy)
		}
		if strings.Contains(want, "classify") {
			_, err = Examples([]byte(`{"context": {}}`), roomy)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestAnswers(t *testing.T) {
	outputs := []tfs.Output{{Name: "score", Values: []float32{.5, float32(math.NaN())}}, {Name: `a"b`, Values: []float32{0.1, float32(math.Inf(-1))}}}
	for got, want := range map[string]string{
		string(AppendPredictions(nil, outputs, true)):  `{"predictions": [{"score": 0.5, "a\"b": 0.1}, {"score": NaN, "a\"b": -Infinity}]}` + "\n",
		string(AppendPredictions(nil, outputs, false)): `{"outputs": {"score": [0.5, NaN], "a\"b": [0.1, -Infinity]}}` + "\n",
		string(AppendValues(nil, []float32{1, 2})):     `{"results": [1, 2]}` + "\n",
		string(AppendClasses(nil, []tfs.Class{{Label: "0", Scores: []float32{.25}}, {Label: "1", Scores: []float32{.75}}})): `{"results": [[["0", 0.25], ["1", 0.75]]]}` + "\n",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A value of a request equals the value of the same JSON in training data. Every accepted text
// is JSON, except for NaN, infinities and a bare b64.
func FuzzPredict(f *testing.F) {
	for _, s := range []string{`{"instances": [{"x": [1, 2.5, "a"]}]}`, `{"instances": [{"x": "\u0041", "y": null}, {"x": true}]}`, `{"inputs": {"x": [1]}}`, `{"instances": [{"x": {"b64": "QQ=="}}]}`, "{\"instances\":[{\"\xcf\":[\"\"]}]}", `{"instances":[{"h":[null,{"a":1},{"b":true}]}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = Examples(b, roomy)
		r, err := Predict(b, roomy)
		if err != nil {
			return
		}
		var like struct{ Instances []json.RawMessage }
		if json.Unmarshal(b, &like) != nil || len(like.Instances) == 0 || strings.Contains(string(b), "b64") || strings.Count(string(b), `"`) > 8 {
			return
		}
		for i, in := range like.Instances { // compare bytes, because names may not be UTF-8
			var members map[string]json.RawMessage
			if json.Unmarshal(in, &members) != nil || len(members) != 1 || hasTwice(in) {
				continue
			}
			for _, c := range r.Columns {
				lists := make([]value.List, 1)
				if c.Fault != nil || jsonl.NewDecoder([]string{c.Name}).Decode(in, lists) != nil {
					continue
				}
				if got, want := written([]rows.Column{{Rows: c.Rows[i : i+1]}}), written([]rows.Column{{Rows: lists}}); got != want {
					t.Fatalf("row %d of %s is %s; in training data it is %s", i, b, got, want)
				}
			}
		}
	})
}

// hasTwice reports whether an object may have a member twice.
func hasTwice(object []byte) bool {
	var all map[string]any
	_ = json.Unmarshal(object, &all)
	once, err := json.Marshal(all)
	return err != nil || bytes.Count(once, []byte{':'}) != bytes.Count(object, []byte{':'})
}
