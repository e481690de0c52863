package avro

import (
	"errors"
	"fmt"
	"slices"
)

// Exploder makes records of one whose field is an array: one per item, which takes the place of the array.
// It does not change, and many may share it.
type Exploder struct {
	schema *Schema // of the records that it makes
	before []*node // the fields before the array
	list   *node   // the array, or a union of null and the array
	array  *node
	after  []*node
}

// Explode returns an Exploder of the field of a name.
func (x *Schema) Explode(name string) (*Exploder, error) {
	i := slices.Index(x.root.names, name)
	if i < 0 {
		return nil, fmt.Errorf("its schema has no field %q, whose elements are records (data.explode)", name)
	}
	list := x.root.of[i]
	array := list.plain()
	if array == nil || array.kind != "array" {
		return nil, fmt.Errorf("field %s of its schema is no array, whose elements are records (data.explode)", name)
	}
	one := *x.root
	one.of = slices.Clone(one.of)
	one.of[i] = array.of[0]
	s, err := schemaOf(&one)
	return &Exploder{s, x.root.of[:i], list, array, x.root.of[i+1:]}, err
}

// Schema returns the schema of the records that an Exploder makes.
func (e *Exploder) Schema() *Schema { return e.schema }

// Split returns the parts of a record, which refer to it: each record that it makes is head, an item and tail. Missing
// and empty arrays have no items.
func (e *Exploder) Split(record []byte) (head []byte, items [][]byte, tail []byte, err error) {
	r := &reader{b: record, left: int64(len(record)) + maxEmpty}
	for _, n := range e.before {
		r.skip(n, 0)
	}
	head = record[:len(record)-len(r.rest())]
	array := e.list
	if array.kind == "union" {
		array = r.branch(array)
	}
	for n := int64(0); array == e.array && !r.short; n-- {
		if n == 0 {
			if n = r.items(); n == 0 {
				break
			}
		}
		item := r.rest()
		r.skip(e.array.of[0], 0)
		items = append(items, item[:len(item)-len(r.rest())])
	}
	tail = r.rest()
	for _, n := range e.after {
		r.skip(n, 0)
	}
	switch {
	case r.short:
		return nil, nil, nil, errShort
	case len(r.rest()) > 0:
		return nil, nil, nil, errors.New("bytes follow the record")
	}
	return head, items, tail, nil
}
