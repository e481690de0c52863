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
	element  *format.SchemaElement
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
	inside map[string]leaf // keys and values of maps, which are not among names
	unread []Unread
}

var errSchema = errors.New("its schema is damaged")

// columnsOf returns the layout of a schema. Members of a struct are columns named
// struct.member.
func columnsOf(schema []format.SchemaElement, meant meanings) (*layout, error) {
	l := &layout{schema: schema, meant: meant, found: map[string]leaf{}, inside: map[string]leaf{}}
	root, err := l.next()
	if err != nil {
		return nil, err
	}
	for range children(root) {
		if err := l.walk("", 0, 0); err != nil {
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

// walk reads the next element and its members. within is the name of the enclosing struct;
// level and repeats count the optional and repeated elements above it.
func (l *layout) walk(within string, level, repeats int) error {
	e, err := l.next()
	if err != nil {
		return err
	}
	name := joined(within, e.Name)
	level, repeats = levels(e, level, repeats)
	switch why := unreadable(e); {
	case e.Type.Valid:
		l.add(name, e, level, repeats)
		return nil
	case why != "":
		l.entries(name, level, repeats)
		return l.skip(name, why, e)
	case l.meant[name] != "":
		return l.skip(name, l.meant[name], e)
	case repeats > 0:
		return l.skip(name, notPlain, e)
	case l.isList(e):
		return l.list(name, e, level, repeats)
	}
	if l.depth++; l.depth > maxDepth {
		return fmt.Errorf("%w: %d structs in one another, at most %d are possible", errSchema, l.depth, maxDepth)
	}
	for range children(e) {
		if err := l.walk(name, level, repeats); err != nil {
			return err
		}
	}
	l.depth--
	return nil
}

// maxDepth is the maximum number of structs in one another.
const maxDepth = 100

// levels returns the levels of an element below others.
func levels(e *format.SchemaElement, level, repeats int) (int, int) {
	switch e.RepetitionType.V {
	case format.Optional:
		return level + 1, repeats
	case format.Repeated:
		return level + 1, repeats + 1
	}
	return level, repeats
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

// entries finds the keys and values of a map, just read. They are lists named NAME.key and
// NAME.value, which only callers that know of them read.
func (l *layout) entries(name string, level, repeats int) {
	if l.at+2 >= len(l.schema) || repeats > 0 {
		return
	}
	pair, key, of := &l.schema[l.at], &l.schema[l.at+1], &l.schema[l.at+2]
	if children(pair) != 2 || pair.RepetitionType.V != format.Repeated || !key.Type.Valid || !of.Type.Valid {
		return
	}
	level, repeats = levels(pair, level, repeats)
	for i, e := range []*format.SchemaElement{key, of} {
		most, again := levels(e, level, repeats)
		if _, err := conversionOf(e); err != nil || again != 1 {
			return
		}
		l.inside[name+[]string{".key", ".value"}[i]] = leaf{index: l.leaves + i, maxLevel: byte(most), repeats: 1, element: e}
	}
}

// isList reports whether a group, just read, is a list: its only member is repeated.
func (l *layout) isList(e *format.SchemaElement) bool {
	return children(e) == 1 && l.at < len(l.schema) && l.schema[l.at].RepetitionType.V == format.Repeated
}

// list reads a list: its values are the repeated member, or the only member of that.
func (l *layout) list(name string, e *format.SchemaElement, level, repeats int) error {
	for range 2 {
		if children(e) != 1 || unreadable(e) != "" {
			break
		}
		member, err := l.next()
		if err != nil {
			return err
		}
		level, repeats = levels(member, level, repeats)
		if e = member; e.Type.Valid {
			l.add(name, e, level, repeats)
			return nil
		}
	}
	return l.skip(name, notPlain, e)
}

const notPlain = "is a list of structs, maps or lists; write lists of plain values (DuckDB: flatten, list_transform)"

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
func (l *layout) add(name string, e *format.SchemaElement, level, repeats int) {
	c := leaf{index: l.leaves, maxLevel: byte(level), repeats: byte(repeats), element: e}
	l.leaves++
	var why string
	if _, twice := l.found[name]; twice {
		l.unread = append(l.unread, Unread{name + " (again)", "has the name of another column, which is read; rename one"})
		return
	}
	switch {
	case repeats > 1:
		why = notPlain
	case l.meant[name] != "":
		why = l.meant[name]
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

// typeName returns the name of the physical type.
func typeName(e *format.SchemaElement) string {
	if e.Type.V == format.FixedLenByteArray {
		return fmt.Sprintf("%v(%d)", e.Type.V, e.TypeLength.V)
	}
	return e.Type.V.String()
}
