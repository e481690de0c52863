package avro

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/table"
)

// Limits of a schema.
const (
	maxSchema  = 1 << 20 // bytes
	maxNodes   = 1 << 16
	maxNesting = 64
)

// Schema is the schema of records. It does not change.
type Schema struct {
	root   *node
	all    []table.Column
	unread []table.Unread
	seen   int   // members
	least  int64 // bytes of a record, at least 1
}

// ParseSchema parses a schema. The named types of others can be used in it.
func ParseSchema(text []byte, others ...[]byte) (s *Schema, err error) {
	var root *node
	p := &parser{named: map[string]*node{}}
	for _, one := range append(others[:len(others):len(others)], text) {
		if len(one) > maxSchema {
			return nil, fmt.Errorf("its schema has %d bytes, at most %d are possible", len(one), maxSchema)
		}
		if root, err = p.parse(one, "", 0); err != nil {
			return nil, err
		}
	}
	return schemaOf(root)
}

// schemaOf returns the schema of records of a type.
func schemaOf(root *node) (*Schema, error) {
	s := &Schema{root: root}
	if s.root.kind != "record" {
		return nil, fmt.Errorf("its schema is of the type %s; write records", s.root.kind)
	}
	if s.columns(s.root, "", nil, false); s.seen > maxNodes { // records that contain one another can be more than any number
		return nil, fmt.Errorf("its records have more than %d columns", maxNodes)
	}
	if s.least = leastOf(s.root, map[*node]int64{}); s.least == 0 {
		return nil, errors.New("its records have no values: all fields are of the type null")
	}
	return s, nil
}

// Columns returns the columns that can be read. The caller must not change the slice.
func (s *Schema) Columns() []table.Column { return s.all }

// Unread returns the columns that cannot be read. The caller must not change the slice.
func (s *Schema) Unread() []table.Unread { return s.unread }

// node is a type.
type node struct {
	kind    string // a primitive type, record, enum, array, map, fixed or union
	logical string
	size    int // of fixed
	scale   int
	names   []string // of members, or symbols
	of      []*node  // members, branches, or the type of the items
	entry   *node    // of a map
}

// leastOf returns the least number of bytes of a value. known has those of records.
func leastOf(n *node, known map[*node]int64) int64 {
	switch n.kind {
	case "null":
		return 0
	case "float":
		return 4
	case "double":
		return 8
	case "fixed":
		return int64(n.size)
	case "record":
		if least, ok := known[n]; ok {
			return least
		}
		known[n] = 1 // in itself
		sum := int64(0)
		for _, of := range n.of {
			sum = min(sum+leastOf(of, known), maxBlock)
		}
		known[n] = sum
		return sum
	}
	return 1
}

// parser reads a schema.
type parser struct {
	named map[string]*node
	nodes int
}

type described struct {
	Type      json.RawMessage   `json:"type"`
	Name      string            `json:"name"`
	Namespace *string           `json:"namespace"`
	Logical   any               `json:"logicalType"`
	Scale     any               `json:"scale"`
	Size      any               `json:"size"`
	Symbols   []string          `json:"symbols"`
	Items     json.RawMessage   `json:"items"`
	Values    json.RawMessage   `json:"values"`
	Fields    []json.RawMessage `json:"fields"`
}

var primitives = []string{"null", "boolean", "int", "long", "float", "double", "bytes", "string"}

func (p *parser) parse(b json.RawMessage, space string, nesting int) (*node, error) {
	if p.nodes++; p.nodes > maxNodes || nesting > maxNesting {
		return nil, fmt.Errorf("its schema has more than %d types, or %d in one another", maxNodes, maxNesting)
	}
	if b = json.RawMessage(strings.TrimSpace(string(b))); len(b) == 0 {
		return nil, errors.New("its schema lacks a type")
	}
	switch b[0] {
	case '"':
		var name string
		if err := json.Unmarshal(b, &name); err != nil {
			return nil, err
		}
		return p.byName(name, space)
	case '[':
		var all []json.RawMessage
		if err := json.Unmarshal(b, &all); err != nil {
			return nil, err
		}
		n := &node{kind: "union"}
		for _, one := range all {
			branch, err := p.parse(one, space, nesting+1)
			if err != nil {
				return nil, err
			}
			n.of = append(n.of, branch)
		}
		return n, nil
	}
	var d described
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("its schema: %w", err)
	}
	return p.described(&d, space, nesting)
}

// byName returns a primitive type, or one defined before.
func (p *parser) byName(name, space string) (*node, error) {
	if slices.Contains(primitives, name) {
		return &node{kind: name}, nil
	}
	for _, full := range []string{space + "." + name, name} {
		if n := p.named[full]; n != nil {
			return n, nil
		}
	}
	return nil, fmt.Errorf("its schema does not define the type %q", name)
}

// described reads an object.
func (p *parser) described(d *described, space string, nesting int) (*node, error) {
	var kind string
	if json.Unmarshal(d.Type, &kind) != nil { // {"type": {"type": …}}
		return p.parse(d.Type, space, nesting+1)
	}
	n := &node{kind: kind, names: d.Symbols, size: whole(d.Size), scale: whole(d.Scale)}
	n.logical, _ = d.Logical.(string)
	switch kind {
	case "record", "error", "enum", "fixed":
		n.kind = strings.Replace(kind, "error", "record", 1)
		if d.Namespace != nil {
			space = *d.Namespace
		}
		full := space + "." + d.Name
		if i := strings.LastIndexByte(d.Name, '.'); i >= 0 {
			full, space = d.Name, d.Name[:i]
		}
		p.named[full] = n
		if n.size < 0 || n.size > maxBlock {
			return nil, fmt.Errorf("its schema has a type of %d bytes", n.size)
		}
		return n, p.members(n, d.Fields, space, nesting)
	case "array", "map":
		items := d.Items
		if kind == "map" {
			items = d.Values
		}
		of, err := p.parse(items, space, nesting+1)
		if n.of = []*node{of}; kind == "map" {
			n.entry = &node{kind: "record", names: []string{"key", "value"}, of: []*node{{kind: "string"}, of}}
		}
		return n, err
	}
	if slices.Contains(primitives, kind) {
		return n, nil
	}
	return p.byName(kind, space)
}

func whole(x any) int {
	f, _ := x.(float64)
	return int(f)
}

// members reads the fields of a record.
func (p *parser) members(n *node, fields []json.RawMessage, space string, nesting int) error {
	known := map[string]bool{}
	for _, b := range fields {
		var d described
		if err := json.Unmarshal(b, &d); err != nil {
			return fmt.Errorf("its schema: %w", err)
		}
		if known[d.Name] {
			return fmt.Errorf("its schema has a record with the field %s twice", d.Name)
		}
		known[d.Name] = true
		of, err := p.parse(d.Type, space, nesting+1)
		if err != nil {
			return err
		}
		n.names, n.of = append(n.names, d.Name), append(n.of, of)
	}
	return nil
}

// plain returns the type of a node that may be in a union with null; nil for other unions.
func (n *node) plain() *node {
	if n.kind != "union" {
		return n
	}
	var one *node
	for _, b := range n.of {
		if b.kind == "null" {
			continue
		}
		if one != nil {
			return nil
		}
		one = b
	}
	if one == nil {
		return &node{kind: "null"}
	}
	return one
}

// typeOf returns the type of plain values, and an error for others.
func typeOf(n *node) (t table.Type, err error) {
	t.Unit, t.UTC = unitOf(n.logical), strings.HasPrefix(n.logical, "timestamp-")
	switch n.kind {
	case "null", "string", "enum":
		t.Kind = table.String
	case "boolean":
		t.Kind = table.Boolean
	case "int":
		switch t.Kind = table.Int; n.logical {
		case "date":
			t.Kind = table.Date
		case "time-millis":
			t.Kind = table.TimeOfDay
		}
	case "long":
		switch t.Kind, t.Wide = table.Int, true; {
		case n.logical == "time-micros", n.logical == "time-nanos":
			t.Kind = table.TimeOfDay
		case t.UTC, strings.HasPrefix(n.logical, "local-timestamp-"):
			t.Kind = table.Timestamp
		}
	case "float":
		t.Kind = table.Float
	case "double":
		t.Kind = table.Double
	case "bytes", "fixed":
		if t.Width = n.size; n.kind == "fixed" && n.size == 0 {
			return t, errors.New("has strings of 0 bytes")
		}
		switch {
		case n.logical == "decimal":
			t.Kind, t.Scale = table.Decimal, n.scale
		case n.logical == "uuid" && n.size == 16:
			t.Kind = table.UUID
		case n.logical == "duration" && n.size == 12:
			t.Kind = table.Interval
		}
	default:
		return t, errors.New("is of the type " + n.kind)
	}
	return t, nil
}

func unitOf(logical string) time.Duration {
	switch {
	case strings.HasSuffix(logical, "-millis"):
		return time.Millisecond
	case strings.HasSuffix(logical, "-nanos"):
		return time.Nanosecond
	}
	return time.Microsecond
}

// columns finds the columns of a record. within are the records around it; list says that it is the item
// of an array.
func (x *Schema) columns(n *node, name string, within []*node, list bool) {
	for _, around := range within {
		if around == n {
			x.drop(name, "is a record in itself; write its members as columns")
			return
		}
	}
	if len(within) > maxNesting {
		x.drop(name, fmt.Sprintf("is in more than %d records; write its members as columns", maxNesting))
		return
	}
	for i, member := range n.of {
		of, full := member.plain(), n.names[i]
		if x.seen++; x.seen > maxNodes {
			return
		}
		if len(within) > 0 {
			full = name + "." + full
		}
		inner := append(within[:len(within):len(within)], n)
		switch {
		case of == nil:
			x.drop(full, severalTypes)
		case of.kind == "record":
			x.columns(of, full, inner, list)
		case of.items() == nil:
			x.column(full, of, list)
		case list:
			x.drop(full, notPlain)
		default:
			x.list(full, of, inner)
		}
	}
}

const (
	severalTypes = "is a union of several types; write a column for each, or one of text"
	notPlain     = "is a list of lists or maps; write lists of plain values or of records of them"
)

// list finds the columns of an array or a map.
func (x *Schema) list(name string, n *node, within []*node) {
	switch item := n.items().plain(); {
	case item == nil:
		x.drop(name, "is a list of several types; write lists of one")
	case n.kind == "map" && !item.of[1].isPlain():
		x.drop(name, "is a map of other than plain values; write a column for each key that matters")
	case item.kind == "record":
		x.columns(item, name, within, true)
	case item.items() != nil:
		x.drop(name, notPlain)
	default:
		x.column(name, item, true)
	}
}

// items returns the type of the items of an array, or of the entries of a map, which are stored like
// records; nil for other types.
func (n *node) items() *node {
	switch n.kind {
	case "array":
		return n.of[0]
	case "map":
		return n.entry
	}
	return nil
}

// isPlain reports whether values of a type are plain, or null.
func (n *node) isPlain() bool {
	of := n.plain()
	return of != nil && of.kind != "record" && of.items() == nil
}

func (x *Schema) drop(name, why string) {
	x.unread = append(x.unread, table.Unread{Name: name, Why: why})
}

// column adds a column of plain values, or of lists of them.
func (x *Schema) column(name string, n *node, list bool) {
	t, err := typeOf(n)
	if err == nil {
		_, err = table.NewConverter(t)
	}
	if err != nil {
		x.drop(name, err.Error())
		return
	}
	x.all = append(x.all, table.Column{Name: name, List: list, Type: t})
}
