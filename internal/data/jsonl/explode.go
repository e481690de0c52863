package jsonl

import "fmt"

// Exploder makes records of one whose member is a list: one per element, which takes the place of the
// list. Other members that are lists of lists or objects are left out, since no field can have them.
//
//	{"type": "INSERT", "data": [{"id": 1}, {"id": 2}], "old": [{}]}
//	{"type": "INSERT", "data": {"id": 1}}
//	{"type": "INSERT", "data": {"id": 2}}
//
// null and an empty list make none, any other value one. It belongs to one goroutine.
type Exploder struct {
	name  string
	key   []byte // the name as JSON, and a colon
	scan  scanner
	found bool
	items []byte // the rest of the list, behind [ or a comma; nil: none
	outer []byte // the other members, each with a comma
	one   []byte // instead of items: the only element
	text  []byte
	row   []byte
}

// NewExploder returns an Exploder of the member of a name, which is UTF-8.
func NewExploder(name string) *Exploder {
	key, _ := AppendString(nil, []byte(name))
	return &Exploder{name: name, key: append(key, ':')}
}

// Begin checks a record. Next returns those that it makes. It refers to the record.
func (e *Exploder) Begin(record []byte) error {
	e.scan, e.found, e.items, e.one, e.outer = scanner{b: record}, false, nil, nil, e.outer[:0]
	if err := e.scan.record(&e.text, e.member); err != nil {
		return err
	}
	if !e.found {
		return fmt.Errorf("there is no member %q, whose elements are records (data.explode)", e.name)
	}
	return nil
}

func (e *Exploder) member(name []byte) error {
	s := &e.scan
	c, lo := s.peek(), s.i
	if string(name) != e.name {
		at := len(e.outer)
		outer, err := AppendString(e.outer, name)
		if skip := s.skip(1); skip != nil {
			return skip
		}
		v := s.b[lo:s.i]
		if in := (scanner{b: v}); err == nil && !in.listsNested() {
			e.outer = append(append(append(outer, ':'), v...), ',')
		} else {
			e.outer = outer[:at]
		}
		return nil
	}
	err := s.skip(1)
	e.found, e.items, e.one = true, nil, nil
	switch v := s.b[lo:s.i]; c {
	case '[':
		e.items = v[1:]
	case 'n':
	default:
		e.one = v
	}
	return err
}

// Next returns the next record, valid until the next call; false after the last.
func (e *Exploder) Next() (record []byte, ok bool) {
	element := e.one
	if e.one = nil; element == nil {
		s := scanner{b: e.items}
		if c := s.peek(); c == 0 || c == ']' {
			return nil, false
		}
		lo := s.i
		_ = s.skip(1) // valid
		element, e.items = s.b[lo:s.i], nil
		if s.peek() == ',' {
			e.items = s.b[s.i+1:]
		}
	}
	e.row = append(append(e.row[:0], '{'), e.outer...)
	e.row = append(append(append(e.row, e.key...), element...), '}')
	return e.row, true
}
