package jsonl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

var kinds = map[value.Kind]string{value.None: "none", value.Text: "text", value.Int: "int", value.Float64: "float64", value.Float32: "float32"}

func shown(l *value.List) string {
	if l.Len() == 0 {
		return "none"
	}
	var b []byte
	for i := range l.All {
		if i < 0 {
			b = append(b, " null"...)
			continue
		}
		b = fmt.Appendf(b, " %q", l.Append(nil, i))
	}
	return kinds[l.Kind] + string(b)
}

// decoded returns field x of a record as text, or the error.
func decoded(record string) string {
	lists := make([]value.List, 1)
	if err := NewDecoder([]string{"x"}).Decode([]byte(record), lists); err != nil {
		return err.Error()
	}
	return shown(&lists[0])
}

func TestValues(t *testing.T) {
	for _, x := range [][2]string{
		{`{}`, "none"},
		{` { } `, "none"},
		{`{"y": {"x": [1, {"x": 2}]}, "z": "x"}`, "none"},
		{`{"x": null}`, "none"},
		{`{"x": []}`, "none"},
		{`{"x": [null, null]}`, "none"},
		{`{"x": "a"}`, `text "a"`},
		{`{"x": ""}`, `text ""`},
		{`{"x": "\u00e9\n\"\\\/\ud83d\ude00"}`, `text "é\n\"\\/😀"`},
		{`{"x": "\ud83d"}`, `text "�"`},
		{`{"x": "\ud83d\u0041"}`, `text "�A"`},
		{`{"x": "\ud83dA"}`, `text "�A"`},
		{`{"\u0078": 1}`, `int "1"`},
		{`{"x": 1, "x": "b"}`, `text "b"`},
		{`{"x": [1], "x": null}`, "none"},
		{`{"x": -0}`, `int "0"`},
		{`{"x": 39.0}`, `float64 "39.0"`},
		{`{"x": 2.5e-1}`, `float64 "0.25"`},
		{`{"x": 9223372036854775807}`, `int "9223372036854775807"`},
		{`{"x": 18446744073709551615}`, `text "18446744073709551615"`},
		{`{"x": true}`, `text "true"`},
		{`{"x": false}`, `text "false"`},
		{`{"x": ["a", null, "b"]}`, `text "a" null "b"`},
		{`{"x": [null, 1, null, 0.5, null]}`, `text null "1" null "0.5" null`},
		{`{"x": [null, 1], "x": ["a"]}`, `text "a"`},
		{`{"x": [1, 2.5, 3]}`, `text "1" "2.5" "3"`},
		{`{"x": [1.0, 2.5]}`, `float64 "1.0" "2.5"`},
		{`{"x": [1, "a", 2.5, true]}`, `text "1" "a" "2.5" "true"`},
		{`{"x": 12345678901234567.25}`, `text "12345678901234567.25"`},
		{`{"x": 1234567890123456.1}`, `text "1234567890123456.1"`},
		{`{"x": -0.30000000000000004}`, `float64 "-0.30000000000000004"`},
		{`{"x": 0.10000000000000001}`, `float64 "0.1"`},
		{`{"x": 1.50000000000000000000}`, `float64 "1.5"`},
		{`{"x": 7.205759403792794e+16}`, `float64 "7.205759403792794e+16"`},
		{`{"x": [9007199254740993, 0.5]}`, `text "9007199254740993" "0.5"`},
		{`{"x": [0.5, 9007199254740993]}`, `text "0.5" "9007199254740993"`},
		{`{"x": {"y": 1}}`, `field "x" is an object; its members are fields: x.MEMBER`},
		{`{"x": [{}]}`, `field "x" is a list of objects; a field is a value or a list of plain values: flatten it where the records are written`},
		{`{"x": [1, {"x": 2}, []]}`, `field "x" is a list of objects; a field is a value or a list of plain values: flatten it where the records are written`},
		{`{"x": [1, []]}`, `field "x" is a list of lists; a field is a value or a list of plain values: flatten it where the records are written`},
		{`{"x": 1e999}`, "1e999 is a number past 1.8e308, the range of 64 bits"},
		{``, "the record is not a JSON object: byte 0: it ends here"},
		{`[1]`, "the record is not a JSON object: byte 0: '[' instead of '{'"},
		{`{"x": [1.5, Infinity], "y": [NaN]}`, `float64 "1.5" "inf"`},
		{`{"x": -NaN}`, "the record is not a JSON object: byte 7: no value of JSON begins so"},
		{`{"x": Nan}`, "the record is not a JSON object: byte 6: no value of JSON begins so"},
		{`{"x": NaN}`, `float64 "nan"`},
		{`{"x": -Infinity}`, `float64 "-inf"`},
		{`{"x": 01}`, "the record is not a JSON object: byte 7: '1' instead of '}'"},
		{`{"x": 1.}`, "the record is not a JSON object: byte 8: a number lacks digits behind its point"},
		{`{"x": 1,}`, `the record is not a JSON object: byte 8: '}' instead of '"'`},
		{`{"x": 1} 2`, "the record is not a JSON object: byte 9: '2' follows the object"},
		{`{'x': 1}`, `the record is not a JSON object: byte 1: '\'' instead of '"'`},
		{"{\"x\": \"a\tb\"}", "the record is not a JSON object: byte 8: a string contains a control character; JSON writes it as an escape"},
		{`{"x": "\q"}`, "the record is not a JSON object: byte 7: a backslash in a string begins no escape"},
		{`{"x": "abc`, "the record is not a JSON object: byte 10: it ends within a string"},
		{`{"x"`, "the record is not a JSON object: byte 4: it ends here"},
		{`{"x":`, "the record is not a JSON object: byte 5: it ends where a value belongs"},
		{`{"y": nul}`, "the record is not a JSON object: byte 6: no value of JSON begins so"},
	} {
		if got := decoded(x[0]); got != x[1] {
			t.Errorf("%s\n got %s\nwant %s", x[0], got, x[1])
		}
	}
	if got := decoded(`{"y":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`); !strings.HasSuffix(got, "more than 128 deep") {
		t.Error(got)
	}
}

// The members of objects in a list are lists, with a null where an object has no value.
func TestObjectsInLists(t *testing.T) {
	d, lists := NewDecoder([]string{"h.id", "u.h.w", "h.w", "x"}), make([]value.List, 4)
	for range 2 {
		for _, x := range [][2]string{
			{`{"h": [{"id": "a", "w": 1.5}, {"w": 2.0, "z": {"id": 7}}, null, {"id": null}, {"w": 0.5, "id": "e"}], "x": 1}`, `text "a" null null null "e", none, float64 "1.5" "2.0" null null "0.5", int "1"`},
			{`{"u": {"h": [null, {"w": 3}, {}]}, "x": 2, "h": [{"id": 4, "w": 1}]}`, `int "4", int null "3" null, int "1", int "2"`},
			{`{"h": [], "u": {"h": null}, "x": 3}`, `none, none, none, int "3"`},
			{`{"h": [null], "x": 3}`, `none, none, none, int "3"`},
			{`{"h": {"id": 5}, "x": 3}`, `int "5", none, none, int "3"`},
			{`{"h": [{"id": 1}], "h": [{"w": 2}, {"id": 3}]}`, `int null "3", none, int "2" null, none`},
			{`{"h": [{"id": 1, "id": 2}]}`, `an object in the list "h" has a member twice`},
			{`{"h": [{"id": [1, 2]}]}`, `field "h.id" is a list in a list of objects; a field is a value or a list of plain values: flatten it where the records are written`},
			{`{"h": [{"id": {"a": 1}}]}`, `field "h.id" is an object; its members are fields: h.id.MEMBER`},
			{`{"h": [{"id": 1}, 2]}`, `field "h" is a list of objects and other values; a field is a value or a list of plain values: flatten it where the records are written`},
			{`{"h": [{"id": 1}`, "the record is not a JSON object: byte 16: it ends here"},
			{`{"h": [{"w": [{"id": 1}]}]}`, `field "h.w" is a list in a list of objects; a field is a value or a list of plain values: flatten it where the records are written`},
		} {
			got := ""
			if err := d.Decode([]byte(x[0]), lists); err != nil {
				got = err.Error()
			} else {
				var all []string
				for i := range lists {
					all = append(all, shown(&lists[i]))
				}
				got = strings.Join(all, ", ")
			}
			if got != x[1] {
				t.Errorf("%s\n got %s\nwant %s", x[0], got, x[1])
			}
		}
	}
}

// The members of objects are fields with the names of all objects around them. A record may
// have a value, null, or nothing in the place of the object.
func TestMembersOfObjects(t *testing.T) {
	d, lists := NewDecoder([]string{"x", "u.id", "u.geo.city", "u.geo.city.zip", "v.w"}), make([]value.List, 5)
	for range 2 { // the second time in the order that is expected
		for _, x := range [][2]string{
			{`{"x": 1, "u": {"id": 2, "name": "n", "geo": {"lat": 1.5, "city": "c"}, "n": 3}, "v": {"w": [4, 5]}}`, `int "1", int "2", text "c", none, int "4" "5"`},
			{`{"v": {"v": {"w": 1}, "w": null}, "x": "a", "u": {}}`, `text "a", none, none, none, none`},
			{`{"u": null, "v": 7, "x": 1}`, `int "1", none, none, none, none`},
			{`{"u.id": 1, "u": {"geo.city": 2}, "v": {"\u0077": 3, "w": 4}}`, `none, int "1", int "2", none, int "4"`},
			{`{"u": {"x": 1, "geo": {"city": {"zip": 8}}, "id": 9}, "id": 7}`, `none, int "9", none, int "8", none`},
			{`{"u": {"id": {"x": 1}}}`, `field "u.id" is an object; its members are fields: u.id.MEMBER`},
			{`{"u": {"id": [{}]}}`, `field "u.id" is a list of objects; a field is a value or a list of plain values: flatten it where the records are written`},
			{`{"u": {"id": 1}`, "the record is not a JSON object: byte 15: it ends here"},
		} {
			got := ""
			if err := d.Decode([]byte(x[0]), lists); err != nil {
				got = err.Error()
			} else {
				var all []string
				for i := range lists {
					all = append(all, shown(&lists[i]))
				}
				got = strings.Join(all, ", ")
			}
			if got != x[1] {
				t.Errorf("%s\n got %s\nwant %s", x[0], got, x[1])
			}
		}
	}
	deep := strings.Repeat(`{"a":`, 130) + "1" + strings.Repeat("}", 130)
	err := NewDecoder([]string{strings.Repeat("a.", 129) + "a"}).Decode([]byte(deep), lists[:1])
	if err == nil || !strings.HasSuffix(err.Error(), "more than 128 deep") {
		t.Error(err)
	}
	if err := Names([]byte(deep), func([]byte) {}); err == nil || !strings.HasSuffix(err.Error(), "more than 128 deep") {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	var names, nested []string
	record := []byte(`{"a": 1, "o": {}, "b": null, "l": ["x", 1], "e": [], "lo": [1, {}], "ll": [[]], "u": {"i": 1, "g": {"c": 2}, "l": [{"k": 1}, null, {"m": 2, "k": [3], "o": [{}]}, {"k": {}}]}, "\u0063": true}`)
	err := Names(record, func(name []byte) { names = append(names, string(name)) })
	if want := []string{"a", "b", "l", "e", "u.i", "u.g.c", "u.l.k", "u.l.m", "c"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v; want %q", names, err, want)
	}
	blank := ""
	err = Fields([]byte(`{"a": null, "b": [], "c": [null, null], "d": [null, 1], "e": [{"x": null}, {"x": 2}, {"y": []}, {"x": null}]}`), func(name []byte, valued bool) { blank += fmt.Sprintf("%s %v ", name, valued) })
	if want := "a false b false c false d true e.x false e.x true e.y false "; err != nil || blank != want {
		t.Errorf("%q, %v; want %q", blank, err, want)
	}
	err = Nested(record, func(name []byte) { nested = append(nested, string(name)) })
	if want := []string{"lo", "ll", "u.l.o"}; err != nil || !slices.Equal(nested, want) {
		t.Errorf("%q, %v; want %q", nested, err, want)
	}
}

// Every truncated record is an error, whichever fields are decoded.
func TestEveryCut(t *testing.T) {
	record := `{"x": ["a\u00e9\\", 1, -2.5e3], "y": {"z": [true, false, null]}, "w": 12}`
	for n := range len(record) {
		for _, names := range [][]string{nil, {"x"}, {"x", "y.z", "w"}} {
			if err := NewDecoder(names).Decode([]byte(record[:n]), make([]value.List, len(names))); err == nil {
				t.Errorf("cut at %d, fields %q: no error", n, names)
			}
		}
	}
}

// plain equals a loop over bytes.
func TestPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.SampledFrom([]byte{'a', 'z', '"', '\\', 0, 0x1f, ' ', '!', '#', '[', ']', 0x7f, 0x80, 0xa2, 0xdc, 0xff}), 0, 40).Draw(t, "b")
		want := slices.IndexFunc(b, func(c byte) bool { return c == '"' || c == '\\' || c < ' ' })
		if want < 0 {
			want = len(b)
		}
		if got := plain(b); got != want {
			t.Fatalf("%q: %d, want %d", b, got, want)
		}
	})
}

// like returns the values of a member by encoding/json and the rules of the package; ok is
// false if they are rejected.
func like(x any) (l value.List, ok bool) {
	all, many := x.([]any)
	if !many {
		all = []any{x}
	}
	kind := value.None
	var texts []string
	for i, x := range all {
		k, text := value.Text, ""
		switch x := x.(type) {
		case nil:
			if many {
				l.Nulls = append(l.Nulls, int32(i))
			}
			continue
		case string:
			text = x
		case bool:
			text = strconv.FormatBool(x)
		case json.Number:
			if k, text, ok = likeNumber(string(x)); !ok {
				return l, false
			}
		default:
			return l, false
		}
		texts = append(texts, text)
		switch {
		case kind == value.None || kind == k:
			kind = k
		default:
			kind = value.Text
		}
	}
	l.Kind = kind
	for _, text := range texts {
		n, _ := strconv.ParseInt(text, 10, 64)
		x, _ := strconv.ParseFloat(text, 64)
		l.Texts, l.Ints, l.Reals = append(l.Texts, []byte(text)), append(l.Ints, n), append(l.Reals, x)
	}
	return l, true
}

func likeNumber(s string) (k value.Kind, text string, ok bool) {
	if !strings.ContainsAny(s, ".eE") {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return value.Text, s, true
		}
		return value.Int, strconv.FormatInt(n, 10), true
	}
	x, err := strconv.ParseFloat(s, 64)
	digits := func(s string) string {
		mantissa, _, _ := strings.Cut(strings.ToLower(s), "e")
		return strings.Trim(strings.TrimPrefix(strings.Replace(mantissa, ".", "", 1), "-"), "0")
	}
	if n := len(digits(s)); err == nil && n > 15 && (n > 17 || digits(strconv.FormatFloat(x, 'e', n-1, 64)) != digits(s)) {
		return value.Text, s, true
	}
	return value.Float64, string(value.AppendNumber(nil, x, 64)), err == nil && !math.IsInf(x, 0)
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"a": 1, "b": [1, 2.5, "x", true, null], "c": {"d": []}, "e\n": "\ud83d\ude00\u0041", "a": -0.5e+3}`,
		`{"n": [9007199254740993, 0.5, 18446744073709551616], "m": [0.5, 9007199254740993], "x": "\ud800"}`, `{"u":{"i":1,"g":{"c":"x"},"l":[{"k":2}]},"v":{}}`,
		`{"a":[[1]],"b":01}`, `{"a":tru}`, "{\"a\":\"\x01\"}", `{} x`, `{"":""}`, `{"a":{"b":1,"c":{"d":[2]}},"a.b":3}`, `{"a":1e400}`, `{"a":[1,]}`,
		`{"a":12345678901234567.25,"b":[1.5,0.30000000000000004,-0.10000000000000001]}`, `{"a":NaN,"b":[-Infinity]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		if !utf8.Valid(record) || bytes.Count(record, []byte{'['})+bytes.Count(record, []byte{'{'}) >= maxDeep {
			return // encoding/json changes or accepts it
		}
		var want map[string]any
		from := json.NewDecoder(bytes.NewReader(record))
		from.UseNumber()
		bad := !json.Valid(record) || !strings.HasPrefix(strings.TrimLeft(string(record), " \t\r\n"), "{")
		if bad && (bytes.Contains(record, []byte("NaN")) || bytes.Contains(record, []byte("Infinity"))) {
			return // encoding/json rejects them
		}
		if !bad {
			fatal.If(t, from.Decode(&want))
		}
		if err := NewDecoder(nil).Decode(record, nil); (err != nil) != bad {
			t.Fatalf("%q: %v; encoding/json refuses it: %v", record, err, bad)
		}
		if err := Names(record, func([]byte) {}); (err != nil) != bad {
			t.Fatalf("%q: names: %v; encoding/json refuses it: %v", record, err, bad)
		}
		fields, members := map[string]any{}, 0
		clash := flatten(fields, &members, "", want)
		if clash || members != bytes.Count(record, []byte{':'}) {
			fields = want // some name may occur twice
			maps.DeleteFunc(fields, func(name string, _ any) bool { return strings.Contains(name, ".") })
		}
		for name, x := range fields {
			compare(t, record, name, x)
		}
	})
}

// flatten adds the fields of an object to all, and the number of its members, also in lists, to
// n. It reports whether two fields have the same name.
func flatten(all map[string]any, n *int, path string, x any) (clash bool) {
	switch x := x.(type) {
	case map[string]any:
		for name, y := range x {
			*n++
			if _, is := y.(map[string]any); is {
				clash = flatten(all, n, path+name+".", y) || clash
				continue
			}
			_, twice := all[path+name]
			all[path+name] = y
			clash = flatten(map[string]any{}, n, "", y) || twice || clash
		}
	case []any:
		for _, y := range x {
			flatten(map[string]any{}, n, "", y)
		}
	}
	return clash
}

// compare decodes one field twice: the second time the decoder knows the order of the
// record.
func compare(t *testing.T, record []byte, name string, x any) {
	d, lists := NewDecoder([]string{name}), make([]value.List, 1)
	want, ok := like(x)
	for range 2 {
		err := d.Decode(record, lists)
		if err != nil && !ok {
			continue
		}
		if err != nil && bytes.Count(record, []byte{':'}) > 1 {
			return // an earlier member of that name may be rejected
		}
		if err != nil || !ok || shown(&lists[0]) != shown(&want) {
			t.Fatalf("%q: field %q: %s, %v; want %s, %v", record, name, shown(&lists[0]), err, shown(&want), ok)
		}
	}
}

// Written records are read back.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Draw(t, "name")
		l := value.List{Kind: rapid.SampledFrom([]value.Kind{value.None, value.Text, value.Int, value.Float64}).Draw(t, "kind")}
		for range rapid.IntRange(1, 4).Draw(t, "values") {
			l.Texts = append(l.Texts, []byte(rapid.String().Draw(t, "text")))
			l.Ints = append(l.Ints, rapid.Int64().Draw(t, "int"))
			l.Reals = append(l.Reals, rapid.Float64().Draw(t, "real")+0.25)
		}
		record, err := AppendString([]byte("{"), []byte(name))
		if err == nil {
			record, err = AppendList(append(record, ':'), &l, true, false)
		}
		if err != nil {
			if l.Kind == value.Float64 && slices.ContainsFunc(l.Reals, func(x float64) bool { return math.IsInf(x, 0) }) {
				return
			}
			t.Fatal(err)
		}
		record = append(record, '}')
		if !json.Valid(record) {
			t.Fatalf("no JSON: %q", record)
		}
		lists := make([]value.List, 1)
		if err := NewDecoder([]string{name}).Decode(record, lists); err != nil {
			t.Fatalf("%q: %v", record, err)
		}
		for i := range l.Len() { // 1e30 is read back as the string of an integer
			if got := string(lists[0].Append(nil, i)); lists[0].Len() != l.Len() || got != string(l.Append(nil, i)) && !sameNumber(got, string(l.Append(nil, i))) {
				t.Fatalf("%q: %s, want %s", record, shown(&lists[0]), shown(&l))
			}
		}
	})
}

func sameNumber(a, b string) bool {
	x, err := strconv.ParseFloat(a, 64)
	y, also := strconv.ParseFloat(b, 64)
	return err == nil && also == nil && x == y
}

const usual = `{"label": 1, "I1": 5, "I2": 1024, "I3": null, "price": 12.75, "C1": "68fd1e64", "C2": "80e26c9b", "C3": "a\u00e9b", "tags": ["x", "y", "z"], "weights": [1, 0.5, 2], "other": {"a": [1, 2, "three"]}, "C4": "7e0ccccf"}`

func TestNothingIsAllocated(t *testing.T) {
	names := []string{"label", "I1", "I2", "I3", "price", "C1", "C2", "C3", "tags", "weights", "C4", "absent"}
	d, lists, record := NewDecoder(names), make([]value.List, len(names)), []byte(usual)
	if n := testing.AllocsPerRun(100, func() {
		fatal.If(t, d.Decode(record, lists))
	}); n > 0 {
		t.Errorf("%v allocations a record", n)
	}
}
