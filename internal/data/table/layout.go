package table

import (
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// Unread is a column, or a group of columns, that this package cannot read.
type Unread struct{ Name, Why string }

// leaf is a column of plain values or of lists of them.
type leaf struct {
	index    int  // among the column chunks of a row group
	maxLevel byte // definition level of a value that is not null
	repeats  byte // 1 in a list, otherwise 0
	place    byte // in a list: definition level from which there is a value or a null
	element  *format.SchemaElement
	vector   []leaf // instead of the other members: those of a vector of Spark
}

// layout finds the columns of a schema, which the format stores as a tree in
// depth-first order.
type layout struct {
	schema []format.SchemaElement
	at     int // next element
	depth  int // of the enclosing structs
	leaves int // so far

	meant  meanings
	names  []string
	found  map[string]leaf
	unread []Unread
}

var errSchema = errors.New("its schema is damaged")

// columnsOf returns the layout of a schema. Members of a struct are columns named
// struct.member, and so are those of a list of structs, which are lists.
func columnsOf(schema []format.SchemaElement, meant meanings) (*layout, error) {
	l := &layout{schema: schema, meant: meant, found: map[string]leaf{}}
	root, err := l.next()
	if err != nil {
		return nil, err
	}
	for range children(root) {
		if err := l.walk("", above{}); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *layout) next() (*format.SchemaElement, error) {
	if l.at >= len(l.schema) {
		return nil, errSchema
	}
	l.at++
	return &l.schema[l.at-1], nil
}

func children(e *format.SchemaElement) int {
	if e.Type.Valid || !e.NumChildren.Valid {
		return 0
	}
	return int(e.NumChildren.V)
}

// walk reads the next element and its members. within is the name of the enclosing struct.
func (l *layout) walk(within string, up above) error {
	e, err := l.next()
	if err != nil {
		return err
	}
	name := joined(within, e.Name)
	up = up.and(e)
	switch why := unreadable(e); {
	case e.Type.Valid:
		l.add(name, e, up)
		return nil
	case why != "":
		if l.entries(name, up) {
			return nil
		}
		return l.skip(name, why, e)
	case l.meant.why[name] == sparkVector && l.vector(name, e, up):
		return nil
	case l.meant.why[name] != "":
		return l.skip(name, l.meant.why[name], e)
	case l.isList(e):
		return l.list(name, e, up)
	}
	return l.members(name, e, up)
}

// members reads the members of a struct.
func (l *layout) members(name string, e *format.SchemaElement, up above) error {
	if up.repeats > 1 {
		return l.skip(name, notPlain, e)
	}
	if l.depth++; l.depth > maxDepth {
		return fmt.Errorf("%w: %d structs in one another, at most %d are possible", errSchema, l.depth, maxDepth)
	}
	for range children(e) {
		if err := l.walk(name, up); err != nil {
			return err
		}
	}
	l.depth--
	return nil
}

// maxDepth is the maximum number of structs in one another.
const maxDepth = 100

// above counts the optional and repeated elements (level) and the repeated ones above a member.
// place is the level of the last repeated one.
type above struct{ level, repeats, place int }

// and adds an element.
func (a above) and(e *format.SchemaElement) above {
	switch e.RepetitionType.V {
	case format.Optional:
		a.level++
	case format.Repeated:
		a.level++
		a.repeats++
		a.place = a.level
	}
	return a
}

// leaf returns a column of plain values below a.
func (a above) leaf(index int, e *format.SchemaElement) leaf {
	return leaf{index: index, maxLevel: byte(a.level), repeats: byte(a.repeats), place: byte(a.place), element: e}
}

// unreadable returns why a group cannot be read, "" if its members may be readable.
func unreadable(e *format.SchemaElement) string {
	switch e.LogicalType.Value.(type) {
	case *format.MapType:
		return "is a map; write a column for each key that matters (DuckDB: SELECT m['key'] AS key)"
	case *format.VariantType:
		return "is a VARIANT; write its members as columns"
	}
	if c := e.ConvertedType; c.Valid && (c.V == deprecated.Map || c.V == deprecated.MapKeyValue) {
		return "is a map; write a column for each key that matters (DuckDB: SELECT m['key'] AS key)"
	}
	return ""
}

// entries reads a map of plain values, whose group was just read, as the lists NAME.key and
// NAME.value. It returns false if the element is none.
func (l *layout) entries(name string, up above) bool {
	if l.at+2 >= len(l.schema) || up.repeats > 0 {
		return false
	}
	pair, key, of := &l.schema[l.at], &l.schema[l.at+1], &l.schema[l.at+2]
	if children(pair) != 2 || pair.RepetitionType.V != format.Repeated || !key.Type.Valid || !of.Type.Valid {
		return false
	}
	up = up.and(pair)
	l.add(name+".key", key, up.and(key))
	l.add(name+".value", of, up.and(of))
	l.at += 3
	return true
}

// vector reads a vector of Spark, whose group was just read. It returns false if its members are
// others than those of both classes of vectors:
//
//	type 0: size, indices and values of the elements that are not 0
//	type 1: values
func (l *layout) vector(name string, e *format.SchemaElement, up above) bool {
	begin, index := l.at, l.leaves
	of := &layout{schema: l.schema, at: l.at, leaves: l.leaves, found: map[string]leaf{}}
	if up.repeats > 0 || of.members("", e, up) != nil {
		return false
	}
	v := leaf{index: index, repeats: 1}
	for _, member := range []string{"type", "size", "indices", "values"} {
		m, ok := of.found[member]
		if !ok || (m.repeats == 1) != (len(v.vector) > 1) {
			l.at, l.leaves = begin, index
			return false
		}
		v.vector = append(v.vector, m)
	}
	l.at, l.leaves = of.at, of.leaves
	l.found[name], l.names = v, append(l.names, name)
	return true
}

// isList reports whether a group, just read, is a list: it is marked as one, and its only member
// is repeated. Without the mark, the group is a struct, and the member a list.
func (l *layout) isList(e *format.SchemaElement) bool {
	_, marked := e.LogicalType.Value.(*format.ListType)
	return (marked || e.ConvertedType.Valid && e.ConvertedType.V == deprecated.List) && children(e) == 1 && l.at < len(l.schema) && l.schema[l.at].RepetitionType.V == format.Repeated
}

// list reads a list: its values are the repeated member, or the only member of that.
func (l *layout) list(name string, e *format.SchemaElement, up above) error {
	for range 2 {
		if children(e) != 1 || unreadable(e) != "" {
			break
		}
		member, err := l.next()
		if err != nil {
			return err
		}
		up = up.and(member)
		if e = member; e.Type.Valid {
			l.add(name, e, up)
			return nil
		}
	}
	if unreadable(e) != "" || l.isList(e) {
		return l.skip(name, notPlain, e)
	}
	return l.members(name, e, up)
}

const notPlain = "is a list of lists or maps; write lists of plain values or of structs of them (DuckDB: flatten, list_transform)"

// skip skips the members of a group that cannot be read.
func (l *layout) skip(name, why string, e *format.SchemaElement) error {
	l.unread = append(l.unread, Unread{name, why})
	for left := children(e); left > 0; left-- {
		member, err := l.next()
		if err != nil {
			return err
		}
		if left += children(member); member.Type.Valid {
			l.leaves++
		}
	}
	return nil
}

// add adds a column.
func (l *layout) add(name string, e *format.SchemaElement, up above) {
	c := up.leaf(l.leaves, e)
	l.leaves++
	var why string
	if _, twice := l.found[name]; twice {
		l.unread = append(l.unread, Unread{name + " (again)", "has the name of another column, which is read; rename one"})
		return
	}
	switch {
	case up.repeats > 1:
		why = notPlain
	case l.meant.why[name] != "":
		why = l.meant.why[name]
	case e.Type.V == format.FixedLenByteArray && (e.TypeLength.V <= 0 || e.TypeLength.V > maxPage):
		why = fmt.Sprintf("has strings of %d bytes, 1 to %d are possible", e.TypeLength.V, maxPage)
	default:
		if _, err := conversionOf(e); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		l.unread = append(l.unread, Unread{name, why})
		return
	}
	l.found[name], l.names = c, append(l.names, name)
}
