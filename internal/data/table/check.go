package table

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// checker compares the values of a column of a row group with the statistics in the file: a
// decoder that returns wrong values returns values outside their bounds.
//
// A page and a column of a row group may have statistics: the number of nulls, the least and
// the greatest value. Bounds may be rounded outwards, so values must be within them. They
// must be values of the column only if the writer states so. Bounds are not checked if their
// order is undefined (INT96, INTERVAL, no order in the footer). The older fields are used for
// signed numbers only, because writers differ in their order. Lists are not checked: writers
// differ in how they count empty ones, and arrow-go 18.8.0 writes wrong bounds of them.
type checker struct {
	group   int
	element *format.SchemaElement
	order   order
	defined bool // the footer states that the order is that of the type
	chunk   thrift.Null[statistics]
	total   int64 // values of the column, with nulls

	seen, nulls int64 // so far
	all         extent
	marks       []mark // by entry of the dictionary
	pages       int32
}

// order is how the values of a column are compared.
type order uint8

const (
	noOrder order = iota
	bySigned
	byUnsigned
	byReal
	byBytes
	byDecimal // two's complement, the highest byte first
)

// orderOf returns the order that the format defines for a column.
func orderOf(e *format.SchemaElement) order {
	switch kind := kindOf(e); kind {
	case "UINT", "UINT64":
		return byUnsigned
	case "INTERVAL", "NULL":
		return noOrder
	case "FLOAT16":
		return byReal
	case "DECIMAL":
		if e.Type.V == format.ByteArray || e.Type.V == format.FixedLenByteArray {
			return byDecimal
		}
	}
	switch e.Type.V {
	case format.Boolean, format.Int32, format.Int64:
		return bySigned
	case format.Float, format.Double:
		return byReal
	case format.ByteArray, format.FixedLenByteArray:
		return byBytes
	}
	return noOrder
}

// bound is a value: an integer, a number or bytes. Unsigned integers are moved by -2^63.
type bound struct {
	n int64
	x float64
	b []byte
}

func (o order) compare(a, b *bound) int {
	switch o {
	case byReal:
		return cmp.Compare(a.x, b.x)
	case byBytes:
		return bytes.Compare(a.b, b.b)
	case byDecimal:
		return compareDecimals(a.b, b.b)
	}
	return cmp.Compare(a.n, b.n)
}

func compareDecimals(a, b []byte) int {
	negative := func(b []byte) bool { return len(b) > 0 && b[0] >= 0x80 }
	sign := negative(a)
	if sign != negative(b) {
		if sign {
			return -1
		}
		return 1
	}
	at := func(b []byte, i int) byte { // byte i of a number of the longer length
		if i -= max(len(a), len(b)) - len(b); i >= 0 {
			return b[i]
		} else if sign {
			return 0xff
		}
		return 0
	}
	for i := range max(len(a), len(b)) {
		if x, y := at(a, i), at(b, i); x != y {
			return cmp.Compare(x, y)
		}
	}
	return 0
}

// extent is the least and the greatest of some values.
type extent struct {
	any    bool
	lo, hi bound
}

func (e *extent) add(o order, v bound) {
	if o == byReal && math.IsNaN(v.x) {
		return
	}
	if !e.any || o.compare(&v, &e.lo) < 0 {
		e.lo = v
	}
	if !e.any || o.compare(&v, &e.hi) > 0 {
		e.hi = v
	}
	e.any = true
}

// page checks a page, in which there values are not null.
func (k *checker) page(c *column, there int, s *thrift.Null[statistics]) error {
	nulls := int64(c.count - there)
	if s.Valid && s.V.Nulls.Valid && s.V.Nulls.V != nulls {
		return k.wrong("a page has %d nulls, its statistics state %d", nulls, s.V.Nulls.V)
	}
	k.seen, k.nulls = k.seen+int64(c.count), k.nulls+nulls
	if k.order != noOrder && (s.Valid || k.chunk.Valid) {
		e := k.extentOf(c, there, s.Valid)
		if err := k.within(&e, s, "a page"); err != nil {
			return err
		}
		if err := k.within(&e, &k.chunk, "the column"); err != nil {
			return err
		}
		if e.any && (k.chunk.V.MinExact || k.chunk.V.MaxExact) {
			e.lo.b, e.hi.b = bytes.Clone(e.lo.b), bytes.Clone(e.hi.b)
			k.all.add(k.order, e.lo)
			k.all.add(k.order, e.hi)
		}
	}
	if k.seen == k.total && k.chunk.Valid {
		return k.end()
	}
	return nil
}

// end checks what is known at the end of the column.
func (k *checker) end() error {
	s := &k.chunk.V
	if s.Nulls.Valid && s.Nulls.V != k.nulls {
		return k.wrong("the column has %d nulls, its statistics state %d", k.nulls, s.Nulls.V)
	}
	lo, hi := k.bounds(s)
	if !k.all.any {
		return nil
	}
	if lo != nil && s.MinExact && k.order.compare(lo, &k.all.lo) != 0 {
		return k.wrong("the least value of the column is %s, its statistics state exactly %s", k.show(&k.all.lo), k.show(lo))
	}
	if hi != nil && s.MaxExact && k.order.compare(hi, &k.all.hi) != 0 {
		return k.wrong("the greatest value of the column is %s, its statistics state exactly %s", k.show(&k.all.hi), k.show(hi))
	}
	return nil
}

func (k *checker) wrong(text string, values ...any) error {
	return fmt.Errorf("row group %d: %s; the file is damaged or was written wrong, write it with another program", k.group, fmt.Sprintf(text, values...))
}

// within checks values against the bounds of a page or the column.
func (k *checker) within(e *extent, s *thrift.Null[statistics], of string) error {
	if !e.any || !s.Valid {
		return nil
	}
	lo, hi := k.bounds(&s.V)
	if lo != nil && k.order.compare(&e.lo, lo) < 0 {
		return k.wrong("value %s is less than %s, the least of %s by its statistics", k.show(&e.lo), k.show(lo), of)
	}
	if hi != nil && k.order.compare(&e.hi, hi) > 0 {
		return k.wrong("value %s is greater than %s, the greatest of %s by its statistics", k.show(&e.hi), k.show(hi), of)
	}
	return nil
}

// bounds returns the bounds that statistics state, nil for unknown ones.
func (k *checker) bounds(s *statistics) (lo, hi *bound) {
	if k.defined {
		lo, hi = k.parse(s.Min), k.parse(s.Max)
	}
	if k.order == bySigned || k.order == byReal {
		if s.Min == nil {
			lo = k.parse(s.OldMin)
		}
		if s.Max == nil {
			hi = k.parse(s.OldMax)
		}
	}
	return lo, hi
}

// parse reads a bound, nil if it is none.
func (k *checker) parse(b []byte) *bound {
	var t typed
	t.prepare(k.element)
	if b == nil || k.element.Type.V != format.ByteArray && len(b) != max(plainBytes(k.element, 1), 1) {
		return nil
	}
	if err := t.decode(k.element, format.Plain, k.plain(b), 1); err != nil {
		return nil
	}
	v := k.value(&t, 0)
	if math.IsNaN(v.x) {
		return nil
	}
	return &v
}

// plain returns a bound in the encoding PLAIN.
func (k *checker) plain(b []byte) []byte {
	if k.element.Type.V == format.ByteArray {
		return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
	}
	return b
}

// value returns stored value i.
func (k *checker) value(t *typed, i int) (v bound) {
	switch e := k.element; e.Type.V {
	case format.Boolean:
		v.n = int64(t.bits[i/8] >> (i % 8) & 1)
	case format.Int32, format.Int64:
		if v.n = t.integer(i); k.order == byUnsigned {
			v.n ^= math.MinInt64
		}
	case format.Float:
		v.x = float64(t.floats[i])
	case format.Double:
		v.x = t.doubles[i]
	case format.ByteArray, format.FixedLenByteArray:
		if v.b = t.text(i); k.order == byReal {
			v.x = float64(half(binary.LittleEndian.Uint16(v.b)))
		}
	}
	return v
}

// show formats a value as this package reads it.
func (k *checker) show(v *bound) string {
	t, e := typed{kind: value.Int}, k.element
	t.prepare(e)
	switch e.Type.V {
	case format.Boolean:
		t.bits = []byte{byte(v.n)}
	case format.Int32, format.Int64:
		n := v.n
		if k.order == byUnsigned {
			n ^= math.MinInt64
		}
		if t.int64s = []int64{n}; e.Type.V == format.Int32 {
			t.int32s, t.int64s = []int32{int32(n)}, nil
		}
	case format.Float:
		t.floats = []float32{float32(v.x)}
	case format.Double:
		t.doubles = []float64{v.x}
	default:
		t.bytes, t.offsets = v.b, []uint32{0, uint32(len(v.b))}
	}
	out := Values{t}
	if convert, err := conversionOf(e); err == nil && convert != nil {
		out = Values{}
		if err := convert(&out.typed, &t); err != nil {
			return fmt.Sprintf("%x", v.b)
		}
	}
	switch out.Kind() {
	case value.Text:
		const most = 60
		text := out.Text(0)
		if len(text) > most {
			return fmt.Sprintf("%q…", text[:most])
		}
		return fmt.Sprintf("%q", text)
	case value.Int:
		return fmt.Sprint(out.Int(0))
	}
	return fmt.Sprint(out.Real(0))
}

// mark is what the checker knows of an entry of a dictionary, in one place: entries are looked up
// in any order, and most are in no near cache.
type mark struct {
	head uint64 // its first bytes, if it is a string
	page int32  // the last page that contains it
}

// head returns the first bytes of a string as a number: of two strings with different heads, the one
// with the smaller head is less.
func head(text []byte) uint64 {
	if len(text) >= 8 {
		return binary.BigEndian.Uint64(text)
	}
	var b [8]byte
	copy(b[:], text)
	return binary.BigEndian.Uint64(b[:])
}

// markAll prepares the marks of a dictionary.
func (k *checker) markAll(t *typed) {
	k.marks = make([]mark, t.len())
	for i := range k.marks {
		if k.order == byBytes {
			k.marks[i].head = head(t.text(i))
		}
	}
}

// extentOf returns the least and the greatest value of a page. If the page has no statistics, it
// leaves out entries of the dictionary that earlier pages contain.
func (k *checker) extentOf(c *column, there int, stated bool) (e extent) {
	if c.index != nil {
		k.pages++
		t := &c.dictionary.stored
		if k.marks == nil {
			k.markAll(t)
		}
		var lo, hi uint64 // heads of the extent
		for _, i := range c.index {
			if i < 0 || int(i) >= len(k.marks) {
				continue
			}
			m := &k.marks[i]
			if m.page == k.pages || !stated && m.page > 0 {
				continue
			}
			if m.page = k.pages; lo < m.head && m.head < hi {
				continue // strictly within the extent
			}
			if e.add(k.order, k.value(t, int(i))); k.order == byBytes {
				lo, hi = head(e.lo.b), head(e.hi.b)
			}
		}
		return e
	}
	t := &c.plain.stored
	switch {
	case there == 0:
	case k.order == bySigned && t.int32s != nil:
		lo, hi := ends(t.int32s)
		e = extent{true, bound{n: int64(lo)}, bound{n: int64(hi)}}
	case k.order == bySigned && t.int64s != nil:
		lo, hi := ends(t.int64s)
		e = extent{true, bound{n: lo}, bound{n: hi}}
	default:
		for i := range there {
			e.add(k.order, k.value(t, i))
		}
	}
	return e
}

func ends[T cmp.Ordered](values []T) (lo, hi T) {
	lo, hi = values[0], values[0]
	for _, v := range values {
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, hi
}
