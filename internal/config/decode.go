package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/text/nearest"
)

// deleted maps keys of earlier versions to what replaces them.
var deleted = map[string]string{
	"train.shuffle_window": "records are shuffled as a whole up to 64 MiB, and drawn from 1,024 random groups of 64 KiB beyond; leave it out",
	"train.hot":            "hot keys were removed in favour of shards placed by load, which needs no key; leave it out",
	"train.lanes":          "the order does not depend on the number of ranks; leave it out, and set train.shuffle to false for the order of the files",
}

// value fills v from a node. It rejects a node of the wrong kind.
func (d *decoder) value(n ast.Node, v reflect.Value, path string) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.mapping(n, v, path)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[[]schema.Derived]() {
			d.derived(n, v, path)
			return
		}
		d.sequence(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

// pairsOf returns the keys and values of a mapping; ok is false for any other node.
func pairsOf(n ast.Node) (pairs []*ast.MappingValueNode, ok bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func (d *decoder) mapping(n ast.Node, v reflect.Value, path string) {
	pairs, ok := pairsOf(n)
	if !ok {
		d.fault(begin(n), path, "is %s; it must be keys and values (%s)", d.what(n), strings.Join(d.schema.names(v.Type()), ", "))
		return
	}
	seen := map[string]place{}
	for _, pair := range pairs {
		at := placeOf(pair.Key.GetToken())
		key, ok := scalarOf(pair.Key)
		field, index := d.schema.field(v.Type(), key.text)
		switch first, again := seen[key.text]; {
		case !ok || index < 0:
			d.unknown(at, path, key.text, v.Type())
			continue
		case again:
			d.fault(at, join(path, key.text), "is given again; the first is in line %d", first.line)
			continue
		}
		seen[key.text] = at
		d.pair(pair.Value, v.Field(index), join(path, key.text), at, field)
	}
}

// pair fills the field of one key.
func (d *decoder) pair(n ast.Node, v reflect.Value, path string, at place, k key) {
	d.place[path] = at
	s, isScalar := scalarOf(n)
	if n == nil || isScalar && s.kind == "null" {
		d.fault(at, path, "has no value: give %s, or leave the key out", d.schema.kindOf(v.Type()))
		return
	}
	if isScalar {
		d.place[path] = placeOf(n.GetToken())
	}
	before := len(d.faults)
	d.value(n, v, path)
	if len(d.faults) > before {
		return
	}
	// An explicit zero is checked here, since it can mean the default later.
	if v.Kind() != reflect.Struct && v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
		if why := k.explicitZero(v); why != "" {
			d.fault(d.place[path], path, "%s", why)
		}
	}
}

// derived reads a mapping of names and expressions.
func (d *decoder) derived(n ast.Node, v reflect.Value, path string) {
	pairs, ok := pairsOf(n)
	if !ok {
		d.fault(begin(n), path, `is %s; it must be %s, such as {liked: "rating >= 4"}`, d.what(n), d.schema.kindOf(v.Type()))
		return
	}
	if len(pairs) > maxItems {
		d.fault(begin(n), path, "has %d entries, at most %d are possible", len(pairs), maxItems)
		return
	}
	var all []schema.Derived
	for _, pair := range pairs {
		at := placeOf(pair.Key.GetToken())
		key, isName := scalarOf(pair.Key)
		s, isText := scalarOf(pair.Value)
		if !isName || pair.Value == nil || !isText || s.kind == "null" {
			d.fault(at, join(path, clip(key.text)), "has no expression: write a string such as \"tips / fare\"")
			continue
		}
		if key.text == "" || strings.Contains(key.text, "=") {
			d.fault(at, join(path, clip(key.text)), "is not a name of a column")
			continue
		}
		d.place[join(path, key.text)] = placeOf(pair.Value.GetToken())
		all = append(all, schema.NewDerived(key.text, s.text))
	}
	v.Set(reflect.ValueOf(all))
}

func (d *decoder) sequence(n ast.Node, v reflect.Value, path string) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		why := fmt.Sprintf("is %s; it must be %s", d.what(n), d.schema.kindOf(v.Type()))
		if s, ok := scalarOf(n); ok && v.Type().Elem().Kind() != reflect.Struct {
			why += ": write [" + clip(s.text) + "]"
		}
		d.fault(begin(n), path, "%s", why)
		return
	}
	if len(seq.Values) > maxItems {
		d.fault(begin(n), path, "has %d entries, at most %d are possible", len(seq.Values), maxItems)
		return
	}
	if len(seq.Values) == 0 {
		return // nil, as for an absent key: equal configurations are DeepEqual
	}
	v.Set(reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values)))
	for i, item := range seq.Values {
		at := path + "[" + strconv.Itoa(i) + "]"
		d.place[at] = begin(item)
		if s, ok := scalarOf(item); item == nil || ok && s.kind == "null" {
			d.fault(begin(item), at, "has no value: write null in quotes if it is meant as a string")
			continue
		}
		d.value(item, v.Index(i), at)
	}
}

func (d *decoder) scalar(n ast.Node, v reflect.Value, path string) {
	s, ok := scalarOf(n)
	if !ok {
		d.fault(begin(n), path, "is %s; it must be %s", d.what(n), d.schema.kindOf(v.Type()))
		return
	}
	if why := d.schema.assign(v, s); why != "" {
		d.fault(begin(n), path, "%s", why)
	}
}

// assign stores a scalar in v. If it cannot, it returns the reason.
func (c grammar) assign(v reflect.Value, s scalar) string {
	ok := false
	switch v.Kind() {
	case reflect.String:
		if ok = s.kind == "string"; ok {
			v.SetString(s.text)
		}
	case reflect.Bool:
		if ok = s.kind == "bool"; ok {
			v.SetBool(s.text[0] == 't' || s.text[0] == 'T')
		}
	case reflect.Int, reflect.Int64:
		var i int64
		if i, ok = s.integer(); ok {
			v.SetInt(i)
		}
	case reflect.Uint64:
		var u uint64
		if u, ok = s.unsigned(); ok {
			v.SetUint(u)
		}
	case reflect.Float64:
		var f float64
		if f, ok = s.number(); ok {
			v.SetFloat(f)
		}
	}
	if ok {
		return ""
	}
	why := fmt.Sprintf("is %s; it must be %s", s.name(), c.kindOf(v.Type()))
	if v.Kind() == reflect.String {
		why += ": write " + quote(s.text)
	}
	return why
}

// unknown records a key that does not exist.
func (d *decoder) unknown(at place, path, word string, t reflect.Type) {
	if d.crowded() {
		return
	}
	if instead, ok := deleted[join(path, word)]; ok {
		if !d.saved {
			d.fault(at, join(path, word), "is no longer a key: %s", instead)
		}
		return
	}
	names := d.schema.names(t)
	instead := nearest.Instead(word, names)
	if n := nearest.Of(word, names); n != "" {
		d.meant = append(d.meant, join(path, n))
		if d.file == "" { // -set takes whole paths
			instead = strings.Replace(instead, n, join(path, n), 1)
		}
	}
	elsewhere := ""
	for _, s := range d.schema.sections {
		if s.typ != t && s.has(word) {
			elsewhere = fmt.Sprintf("; %s is a key of %s", word, s.path)
			break
		}
	}
	d.fault(at, join(path, clip(word)), unknownKey+"%s%s", elsewhere, instead)
}

// what describes a node in messages.
func (d *decoder) what(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping of keys and values"
	case *ast.SequenceNode:
		return "a list"
	}
	if s, ok := scalarOf(n); ok {
		return s.name()
	}
	return "of a kind that is not used here"
}

// begin returns the place where a node starts: a collection starts at its bracket or first
// key.
func begin(n ast.Node) place {
	switch n := n.(type) {
	case nil:
		return place{1, 1}
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return placeOf(n.Values[0].Key.GetToken())
		}
		return placeOf(n.Start)
	case *ast.MappingValueNode:
		return placeOf(n.Key.GetToken())
	case *ast.LiteralNode:
		return placeOf(n.Start)
	}
	return placeOf(n.GetToken())
}
