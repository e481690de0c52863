package table

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

func doubles(values ...float64) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

func texted(values ...string) (b []byte) {
	for _, v := range values {
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(v))), v...)
	}
	return b
}

// claim is a column with statistics.
func claim(e format.SchemaElement, n int, body []byte, lo, hi string) made {
	return made{element: e, rows: int64(n), statistics: &statistics{Min: []byte(lo), Max: []byte(hi)}, pages: []page{first(format.Plain, n, body)}}
}

// as sets the logical type of a column.
func as(e format.SchemaElement, logical format.LogicalTypeValue) format.SchemaElement {
	if e.LogicalType.Value = logical; e.Type.V == format.FixedLenByteArray {
		e.TypeLength = thrift.New(int32(2))
	}
	return e
}

// A value outside the statistics of its page or its column is an error that names both; values
// within them, and statistics whose order is undefined, are none.
func TestStatistics(t *testing.T) {
	long, real, text, fixed := flatElement(format.Int64, false), flatElement(format.Double, false), flatElement(format.ByteArray, false), flatElement(format.FixedLenByteArray, false)
	int64f := func(v ...int64) string { return string(int64s(v...)) }
	f64 := func(v ...float64) string { return string(doubles(v...)) }
	unsigned := as(long, &format.IntType{BitWidth: 64})
	decimal := as(fixed, &format.DecimalType{Precision: 4, Scale: 1})
	exact := func(m made) made { m.statistics.MinExact, m.statistics.MaxExact = true, true; return m }
	old := func(m made) made {
		m.statistics.OldMin, m.statistics.OldMax, m.statistics.Min, m.statistics.Max = m.statistics.Min, m.statistics.Max, nil, nil
		return m
	}
	unordered := func(m made) made { m.unordered = true; return m }
	nulls := func(n int64) made {
		m := made{element: flatElement(format.Int64, true), rows: 3, statistics: &statistics{Nulls: thrift.New(n)}}
		m.pages = []page{first(format.Plain, 3, append([]byte{2, 0, 0, 0, 3, 0b101}, int64s(5, 7)...))}
		return m
	}
	ofPage := func(s statistics) made {
		m := made{element: long, rows: 2, pages: []page{first(format.Plain, 2, int64s(5, 7))}}
		m.pages[0].head.V1.V.Statistics = thrift.New(s)
		return m
	}
	for name, c := range map[string]struct {
		made
		want string // of the error
	}{
		"within":                {claim(long, 2, int64s(5, 7), int64f(5), int64f(9)), ""},
		"too small":             {claim(long, 2, int64s(5, 7), int64f(6), int64f(9)), "column x: row group 0: value 5 is less than 6, the least of the column by its statistics"},
		"too great":             {claim(long, 2, int64s(5, 7), int64f(5), int64f(6)), "column x: row group 0: value 7 is greater than 6, the greatest of the column"},
		"not exact":             {exact(claim(long, 2, int64s(5, 7), int64f(5), int64f(9))), "the greatest value of the column is 7, its statistics state exactly 9"},
		"not exact, least":      {exact(claim(long, 2, int64s(5, 7), int64f(4), int64f(7))), "the least value of the column is 5, its statistics state exactly 4"},
		"exact":                 {exact(claim(long, 2, int64s(5, 7), int64f(5), int64f(7))), ""},
		"old fields":            {old(claim(long, 2, int64s(5, 7), int64f(6), int64f(7))), "value 5 is less than 6"},
		"old, no order":         {unordered(old(claim(real, 1, doubles(.5), f64(.75), f64(1)))), "value 0.5 is less than 0.75"},
		"new, no order":         {unordered(claim(long, 2, int64s(5, 7), int64f(6), int64f(7))), ""},
		"old, unsigned":         {old(claim(unsigned, 1, int64s(5), int64f(6), int64f(7))), ""},
		"old, text":             {old(claim(text, 1, texted("b"), "c", "d")), ""},
		"unsigned, within":      {claim(unsigned, 2, int64s(5, -1), int64f(5), int64f(-1)), ""},
		"unsigned, too great":   {claim(unsigned, 2, int64s(5, -1), int64f(5), int64f(-2)), `value "18446744073709551615" is greater than "18446744073709551614"`},
		"NaN value":             {claim(real, 2, doubles(math.NaN(), 1), f64(1), f64(1)), ""},
		"NaN bound":             {claim(real, 2, doubles(5, 1), f64(math.NaN()), f64(math.NaN())), ""},
		"zeros":                 {claim(real, 2, doubles(0, math.Copysign(0, -1)), f64(0), f64(math.Copysign(0, -1))), ""},
		"number too great":      {claim(real, 2, doubles(5138.7, 1), f64(1), f64(5138.6)), "value 5138.7 is greater than 5138.6"},
		"text, shortened":       {claim(text, 2, texted("banana", "citrus"), "ban", "cit\xff"), ""},
		"text, too small":       {claim(text, 2, texted("banana", "citrus"), "bb", "d"), `value "banana" is less than "bb"`},
		"text, high bytes":      {claim(text, 2, texted("a", "é"), "a", "é"), ""},
		"decimals, within":      {claim(decimal, 2, []byte("\xff\xfe\x00\x05"), "\xff\xfe", "\x00\x05"), ""},
		"decimals, too great":   {claim(decimal, 2, []byte("\xff\xfe\x00\x05"), "\xff\xfe", "\x00\x04"), `value "0.5" is greater than "0.4"`},
		"half, too small":       {claim(as(fixed, new(format.Float16Type)), 1, []byte("\x00\xbc"), "\x00\x00", "\x00\x3c"), "value -1 is less than 0"},
		"half, within":          {claim(as(fixed, new(format.Float16Type)), 1, []byte("\x00\xbc"), "\x00\xbc", "\x00\x3c"), ""},
		"INT96":                 {claim(flatElement(format.Int96, false), 1, make([]byte, 12), strings.Repeat("a", 12), strings.Repeat("b", 12)), ""},
		"of another width":      {claim(long, 1, int64s(5), "abc", ""), ""},
		"boolean":               {claim(flatElement(format.Boolean, false), 2, []byte{3}, "\x00", "\x00"), `value "true" is greater than "false"`},
		"nulls":                 {nulls(1), ""},
		"other nulls":           {nulls(2), "the column has 1 nulls, its statistics state 2"},
		"of a page":             {ofPage(statistics{Min: int64s(5), Max: int64s(6)}), "value 7 is greater than 6, the greatest of a page"},
		"other nulls of a page": {ofPage(statistics{Nulls: thrift.New(int64(1))}), "a page has 0 nulls, its statistics state 1"},
	} {
		t.Run(name, func(t *testing.T) { c.read(t, c.want) })
	}
}

// read reads a file, checked and unchecked.
func (m *made) read(t *testing.T, want string) {
	b := m.bytes(t)
	_, err := readAll(b, []string{"x"})
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%v, want %q", err, want)
	}
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	fatal.If(t, err)
	r, err := f.Rows(0, []string{"x"}, false)
	fatal.If(t, err)
	if _, err := r.Append(nil); err != nil {
		t.Errorf("not checked: %v", err)
	}
}

// Entries of a dictionary are checked if a page refers to them.
func TestStatisticsOfDictionary(t *testing.T) {
	entries := texted("a", "m", "z")
	for _, c := range []struct{ least, greatest, want string }{
		{"a", "m", ""}, {"b", "m", `value "a" is less than "b"`}, {"a", "k", `value "m" is greater than "k"`},
	} {
		m := claim(flatElement(format.ByteArray, false), 4, []byte{2, 4, 0, 4, 1}, c.least, c.greatest)
		m.pages[0].head.V1.V.Encoding = format.RLEDictionary
		dictionary := page{pageHeader{Type: format.DictionaryPage, Plain: int32(len(entries)), Dictionary: thrift.New(dictionaryPage{Values: 3})}, entries}
		m.pages = []page{dictionary, m.pages[0]}
		rows, err := readAll(m.bytes(t), []string{"x"})
		if c.want == "" && (err != nil || strings.Join(rows, "") != "[a][a][m][m]") || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s to %s: %v, %v, want %q", c.least, c.greatest, rows, err, c.want)
		}
	}
}

// TestIndexesBeyondDictionary: the readers of rows and of columns both reject an index beyond the end of the dictionary.
func TestIndexesBeyondDictionary(t *testing.T) {
	entries := texted("a", "m", "z")
	for _, stated := range []bool{false, true} {
		for last, want := range []string{"", "", "", "column x: a page names entry 3 of a dictionary of 3 entries"} {
			m := claim(flatElement(format.ByteArray, false), 4, []byte{2, 6, 0, 2, byte(last)}, "a", "z")
			if !stated {
				m.statistics = nil
			}
			m.pages[0].head.V1.V.Encoding = format.RLEDictionary
			m.pages = []page{{pageHeader{Type: format.DictionaryPage, Plain: int32(len(entries)), Dictionary: thrift.New(dictionaryPage{Values: 3})}, entries}, m.pages[0]}
			b := m.bytes(t)
			rows, err := readAll(b, []string{"x"})
			if want == "" && (err != nil || len(rows) != 4) || want != "" && (err == nil || err.Error() != want) {
				t.Errorf("%d, statistics %v: %q, %v, want %q", last, stated, rows, err, want)
			}
			f, err := Open(bytes.NewReader(b), int64(len(b)))
			fatal.If(t, err)
			r, err := f.Rows(0, []string{"x"}, true)
			fatal.If(t, err)
			spans, x := make([]Span, 1), new(Records)
			n, err := r.Next(10, spans)
			fatal.If(t, err)
			if x.Begin(); n != 4 || x.Set(spans, n) != (want == "") {
				t.Errorf("%d, statistics %v: records of %d rows, want %v", last, stated, n, want == "")
			}
		}
	}
}

// A page whose bytes do not have the checksum of its header is an error.
func TestChecksum(t *testing.T) {
	body := int64s(5)
	for wrong := range uint32(2) {
		m := made{element: flatElement(format.Int64, false), rows: 1, pages: []page{first(format.Plain, 1, body)}}
		m.pages[0].head.CRC = int32(crc32.ChecksumIEEE(body) + wrong)
		if _, err := readAll(m.bytes(t), []string{"x"}); (err != nil) != (wrong != 0) {
			t.Errorf("checksum %d off: %v", wrong, err)
		}
	}
}

// TestExtentOfStrings: the extent of a page covers its strings. If the page has no statistics, it covers
// the strings that are in no earlier page.
func TestExtentOfStrings(t *testing.T) {
	var c column
	var words []string
	d := &c.dictionary.stored
	element := &format.SchemaElement{Type: thrift.New(format.ByteArray)}
	d.prepare(element)
	d.offsets = []uint32{0}
	for i := range 500 {
		words = append(words, fmt.Sprintf("%0*x", 6+i%7, uint32(i)*0x9e3779b1>>(i%3*8))) // some are shorter than 8 bytes
		d.bytes = append(d.bytes, words[i]...)
		d.offsets = append(d.offsets, uint32(len(d.bytes)))
	}
	for _, stated := range []bool{true, false} {
		k, before := checker{order: byBytes, element: element}, map[int32]bool{}
		for page := range int32(40) {
			c.index = c.index[:0]
			var in []string
			for i := range int32(60) {
				at := (page*37 + i*i*7) % 500
				if c.index = append(c.index, at); stated || !before[at] {
					in = append(in, words[at])
				}
			}
			for _, at := range c.index {
				before[at] = true
			}
			e := k.extentOf(&c, len(c.index), stated)
			if e.any != (len(in) > 0) || e.any && (string(e.lo.b) != slices.Min(in) || string(e.hi.b) != slices.Max(in)) {
				t.Fatalf("page %d, statistics %v: %q to %q, want the extent of %q", page, stated, e.lo.b, e.hi.b, in)
			}
		}
	}
}
