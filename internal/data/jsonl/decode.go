package jsonl

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Decoder decodes some fields of records.
type Decoder struct {
	place map[string]int
	under map[string][]int // fields by the name of an object in which they are
	last  []expected       // members in the order of earlier records
	path  []byte           // name of the object being decoded and a point; empty: the record
	deep  int              // nesting depth of that object
	text  []byte           // texts that differ from the record's bytes
	scan  scanner
	lists []value.List
	many  bool // the object being decoded is in a list
	at    int  // index in last
	each  func(name []byte) error
}

// expected is a member that may recur at the same place.
type expected struct {
	name string
	use
}

// use is what a member is needed for.
type use struct {
	place int   // as a field; −1: not needed
	under []int // fields of its members, if it is an object
}

const (
	maxExpected = 1 << 10 // members whose order is kept
	maxPath     = 1 << 8  // bytes of the name of an object whose members are fields
	maxAbsent   = 4       // maximum number of consecutive expected members that may be absent
)

// NewDecoder returns a decoder of the fields of these names, in this order.
func NewDecoder(names []string) *Decoder {
	d := &Decoder{place: make(map[string]int, len(names)), under: map[string][]int{}}
	for i, n := range names {
		d.place[n] = i
		for k := range n {
			if n[k] == '.' {
				d.under[n[:k]] = append(d.under[n[:k]], i)
			}
		}
	}
	if d.each = d.named; len(d.under) > 0 {
		d.each = d.member
	}
	return d
}

// Decode fills lists, one per name. A field that the record does not have gets kind None.
// Texts refer to the record, or are valid until the next call.
func (d *Decoder) Decode(record []byte, lists []value.List) error {
	for i := range lists {
		lists[i].Reset()
	}
	d.scan, d.lists, d.text, d.at, d.path = scanner{b: record}, lists, d.text[:0], 0, d.path[:0]
	d.deep, d.many = 1, false
	return d.scan.record(&d.text, d.each)
}

// find returns the use of a member after number at of the expected ones. Records of one
// writer have their members in one order, but some may be absent.
func (d *Decoder) find(name []byte) use {
	for i := d.at; i < len(d.last) && i <= d.at+maxAbsent; i++ {
		if d.last[i].name == string(name) {
			d.at = i + 1
			return d.last[i].use
		}
	}
	u := use{place: -1, under: d.under[string(name)]}
	if place, ok := d.place[string(name)]; ok {
		u.place = place
	}
	if len(d.last) < maxExpected && d.at == len(d.last) {
		d.last = append(d.last, expected{string(name), u})
		d.at++
	}
	return u
}

// member decodes the value of a member of the object at path.
func (d *Decoder) member(name []byte) error {
	outer := len(d.path)
	if outer > 0 {
		d.path = append(d.path, name...)
		name = d.path
	}
	err := d.named(name)
	d.path = d.path[:outer]
	return err
}

// named decodes the value of a member with its complete name.
func (d *Decoder) named(name []byte) error {
	u, s := d.find(name), &d.scan
	if u.under != nil && s.peek() == '{' {
		return d.object(name)
	}
	if u.under != nil && s.peek() == '[' && (scanner{b: s.b, i: s.i}).listsObjects() {
		return d.objects(name, u.under)
	}
	if u.place < 0 {
		return s.skip(d.deep)
	}
	l := &d.lists[u.place]
	if !d.many {
		l.Reset()
	}
	switch s.peek() {
	case '{':
		return fmt.Errorf("field %q is an object; its members are fields: %s.MEMBER", name, name)
	case '[':
		if d.many {
			return nested(name, "a list in a list of objects")
		}
		l.Listed = true
		return d.array(name, l)
	}
	return d.single(l)
}

// object decodes the members of an object.
func (d *Decoder) object(name []byte) error {
	d.path = append(append(d.path[:0], name...), '.')
	d.deep++
	err := d.scan.object(&d.text, d.deep, d.each)
	d.deep--
	return err
}

// objects decodes a list of objects. Each of their members is a list with a place for each object:
// a null where it has no value.
func (d *Decoder) objects(name []byte, fields []int) error {
	if d.many {
		return nested(name, "a list in a list of objects")
	}
	for _, i := range fields {
		d.lists[i].Reset()
		d.lists[i].Listed = true
	}
	s, at := &d.scan, d.at
	s.i++
	d.many = true
	defer func() { d.many = false }()
	for places := 1; ; places++ {
		var err error
		d.at = at // objects have their members in one order
		switch s.peek() {
		case '{':
			err = d.object(name)
		case 'n':
			err = s.word("null")
		default:
			err = nested(name, "a list of objects and other values")
		}
		if err != nil {
			return err
		}
		for _, i := range fields {
			switch n := d.lists[i].Places(); {
			case n < places:
				d.lists[i].AddNull()
			case n > places:
				return fmt.Errorf("an object in the list %q has a member twice", name)
			}
		}
		if s.peek() != ',' {
			return s.take(']')
		}
		s.i++
	}
}

// listsObjects reports whether a list, which may be damaged, begins with an object, or with nulls
// and an object.
func (s scanner) listsObjects() bool {
	for s.i++; s.peek() == 'n'; {
		if s.word("null") != nil || s.take(',') != nil {
			return false
		}
	}
	return s.peek() == '{'
}

// nested returns the error for a needed field that is a list of objects or lists.
func nested(name []byte, what string) error {
	return fmt.Errorf("field %q is %s; a field is a value or a list of plain values: flatten it where the records are written", name, what)
}

// array decodes the values of an array.
func (d *Decoder) array(name []byte, l *value.List) error {
	s := &d.scan
	s.i++
	if s.peek() == ']' {
		s.i++
		return nil
	}
	for {
		switch s.peek() {
		case '{':
			return nested(name, "a list of objects")
		case '[':
			return nested(name, "a list of lists")
		}
		n := l.Len()
		if err := d.single(l); err != nil {
			return err
		}
		if l.Len() == n {
			l.AddNull()
		}
		if s.peek() != ',' {
			return s.take(']')
		}
		s.i++
	}
}

// single decodes a value that is neither object nor array.
func (d *Decoder) single(l *value.List) error {
	s := &d.scan
	switch s.peek() {
	case '"':
		lo, hi, escaped, err := s.str()
		if err != nil {
			return err
		}
		l.AddText(d.unescaped(s.b[lo:hi:hi], escaped), &d.text)
		return nil
	case 't', 'f':
		b, err := s.truth()
		if err == nil {
			l.AddText(b, &d.text)
		}
		return err
	case 'n':
		return s.word("null")
	}
	if s.i == len(s.b) {
		return s.fail("it ends where a value belongs")
	}
	if x, ok := s.notFinite(); ok {
		l.AddReal(x, &d.text)
		return nil
	}
	lo, hi, err := s.number()
	if err != nil {
		return err
	}
	if b := s.b[lo:hi:hi]; !l.AddNumber(b, &d.text) {
		return fmt.Errorf("%.40s %w", b, errLarge)
	}
	return nil
}

// unescaped returns the value of a string.
func (d *Decoder) unescaped(b []byte, escaped bool) []byte {
	if !escaped {
		return b
	}
	at := len(d.text)
	d.text = appendText(d.text, b)
	return d.text[at:len(d.text):len(d.text)]
}

var errLarge = errors.New("is a number past 1.8e308, the range of 64 bits")

// Names calls f with the name of each field of a record: of every member except objects and
// lists of lists. Members of objects in a list are fields.
func Names(record []byte, f func(name []byte)) error {
	return Fields(record, func(name []byte, _ bool) { f(name) })
}

// Fields is Names. valued is false for a null and for a list without values, which other records may
// have in the place of an object or a list of objects.
func Fields(record []byte, f func(name []byte, valued bool)) error {
	return each(record, f, func([]byte) {})
}

// Nested calls f with the name of each list of lists, which cannot be a field.
func Nested(record []byte, f func(name []byte)) error {
	return each(record, func([]byte, bool) {}, f)
}

func each(record []byte, plain func(name []byte, valued bool), nested func(name []byte)) error {
	n := namer{scan: scanner{b: record}, plain: plain, nested: nested}
	return n.scan.record(&n.text, n.member)
}

// namer finds the names of the fields of a record.
type namer struct {
	scan       scanner
	path, text []byte
	deep       int
	many       bool // in a list of objects
	plain      func(name []byte, valued bool)
	nested     func(name []byte)
}

// member calls plain or nested with the complete name of a member of the object at path.
func (n *namer) member(name []byte) (err error) {
	s, outer := &n.scan, len(n.path)
	n.path = append(n.path, name...)
	switch c, lo := s.peek(), s.i; {
	case c == '{' && len(n.path) < maxPath:
		n.path = append(n.path, '.')
		n.deep++
		err = s.object(&n.text, n.deep+1, n.member)
		n.deep--
	default:
		if err = s.skip(n.deep + 1); err != nil || c == '{' {
			break
		}
		switch in := (scanner{b: s.b[lo:s.i]}); {
		case c != '[' || !in.listsNested():
			n.plain(n.path, c != 'n' && (c != '[' || !in.onlyNulls()))
		case !n.many && len(n.path) < maxPath && in.onlyObjects():
			n.objects(s.b[lo:s.i])
		default:
			n.nested(n.path)
		}
	}
	n.path = n.path[:outer]
	return err
}

// objects finds the fields of a list of objects, which is valid. path is its name.
func (n *namer) objects(list []byte) {
	seen := map[string]bool{} // by name: with a value
	plain := func(name []byte, valued bool) {
		if before, ok := seen[string(name)]; !ok || valued && !before {
			seen[string(name)] = valued
			n.plain(name, valued)
		}
	}
	nested := func(name []byte) {
		if !seen[string(name)] {
			seen[string(name)] = true
			n.nested(name)
		}
	}
	in := namer{scan: scanner{b: list, i: 1}, path: append(slices.Clone(n.path), '.'), deep: n.deep + 1, many: true, plain: plain, nested: nested}
	for s := &in.scan; s.peek() != ']'; {
		if s.peek() == '{' {
			_ = s.object(&in.text, in.deep+1, in.member)
		} else {
			_ = s.skip(1)
		}
		if s.peek() == ',' {
			s.i++
		}
	}
}

// onlyNulls reports whether a valid list has no value.
func (s scanner) onlyNulls() bool {
	for s.i = 1; s.peek() == 'n' && s.word("null") == nil && s.peek() == ','; {
		s.i++
	}
	return s.peek() == ']'
}

// onlyObjects reports whether a valid list contains only objects and nulls.
func (s *scanner) onlyObjects() bool {
	s.i = 1
	for s.peek() != ']' {
		if c := s.peek(); c != '{' && c != 'n' {
			return false
		}
		_ = s.skip(1)
		if s.peek() == ',' {
			s.i++
		}
	}
	return true
}

// listsNested reports whether a valid value is a list with an object or a list in it.
func (s *scanner) listsNested() bool {
	if s.peek() != '[' {
		return false
	}
	s.i++
	for s.peek() != ']' {
		if c := s.peek(); c == '{' || c == '[' {
			return true
		}
		_ = s.skip(1) // valid
		if s.peek() == ',' {
			s.i++
		}
	}
	return false
}

// Is reports whether bytes begin like a record. They may be cut anywhere.
func Is(head []byte) bool {
	s := scanner{b: head}
	if s.peek() != '{' {
		return false
	}
	s.i++
	c := s.peek()
	return c == '"' || c == '}'
}

// finite reports whether JSON can represent x.
func finite(x float64) bool { return !math.IsInf(x, 0) && !math.IsNaN(x) }
