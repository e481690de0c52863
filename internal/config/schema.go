package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/text/nearest"
)

// maxItems bounds every list of a configuration, so that checks which compare all pairs of
// entries take milliseconds.
const maxItems = 16384

// grammar describes the keys of the file: one section per struct.
type grammar struct {
	sections []section
	byType   map[reflect.Type]int
}

// section describes the keys of one struct, in the order of its fields.
type section struct {
	path  string // path in the file
	typ   reflect.Type
	about string
	keys  []key
}

// key describes one key and the values that the checks accept.
type key struct {
	name    string
	def     string // the default as text; "" if about describes it
	about   string
	rng     string   // interval of a number, or of each number of a list: [1, 4096]
	choices []string // accepted texts; nil: any
	filled  bool     // an empty list is rejected
	shown   bool     // printed in the effective configuration even when zero
}

// field returns the key of t called name and the index of its field; -1 if there is none.
func (c grammar) field(t reflect.Type, name string) (key, int) {
	i := fieldOf(t, name)
	if i < 0 {
		return key{}, -1
	}
	return c.key(t, name), i
}

// fieldOf returns the index of the field of a key called name; -1 if there is none.
func fieldOf(t reflect.Type, name string) int {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("yaml") == name {
			return i
		}
	}
	return -1
}

// key returns the description of a key of t.
func (c grammar) key(t reflect.Type, name string) key {
	if i, ok := c.byType[t]; ok {
		for _, k := range c.sections[i].keys {
			if k.name == name {
				return k
			}
		}
	}
	return key{name: name}
}

// names lists the keys of t in order.
func (c grammar) names(t reflect.Type) []string {
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = t.Field(i).Tag.Get("yaml")
	}
	return names
}

func (s section) has(name string) bool {
	return slices.ContainsFunc(s.keys, func(k key) bool { return k.name == name })
}

// kindOf describes the form of a value of type t in the file.
func (c grammar) kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return c.kindOf(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "an integer"
	case reflect.Uint64:
		return "an integer from 0 to 2^64-1"
	case reflect.Float64:
		return "a finite number"
	case reflect.Slice:
		switch t.Elem().Kind() {
		case reflect.String:
			if t.Elem() == reflect.TypeFor[schema.Derived]() {
				return "a mapping of names and expressions"
			}
			return "a list of strings"
		case reflect.Struct:
			return "a list of mappings"
		case reflect.Float64:
			return "a list of numbers"
		}
		return "a list of integers"
	}
	return "a mapping"
}

// explicitZero returns why the file must not set a key to the value that means "not given" in
// memory, or "" if it may.
func (k key) explicitZero(v reflect.Value) string {
	if v.Kind() == reflect.Slice {
		if k.filled {
			return "is an empty list; leave the key out for the default"
		}
		return ""
	}
	if len(k.choices) > 0 {
		return "is empty; it must be one of " + strings.Join(k.choices, ", ")
	}
	return k.outside(v)
}

// complaint returns why a given value is rejected, or "" if it is accepted.
func (k key) complaint(v reflect.Value) string {
	if v.Kind() == reflect.String {
		return k.odd(v.String())
	}
	return k.outside(v)
}

// odd returns why a text is rejected, or "".
func (k key) odd(s string) string {
	if len(k.choices) == 0 {
		return ""
	}
	for _, c := range k.choices {
		if c == s {
			return ""
		}
	}
	return fmt.Sprintf("%s is unknown%s", quote(s), nearest.Instead(k.meant(s), k.choices))
}

// meant returns the choice for which s is a common other name, or s if there is none.
func (k key) meant(s string) string {
	for _, alike := range [][]string{{"fp32", "float32", "f32", "single"}, {"bf16", "bfloat16"}, {"rows", "replicated"}} {
		for _, c := range k.choices {
			if slices.Contains(alike, c) && slices.Contains(alike, strings.ToLower(s)) {
				return c
			}
		}
	}
	return s
}

// outside returns why a number is outside the interval, or "".
func (k key) outside(v reflect.Value) string {
	if k.rng == "" {
		return ""
	}
	var x float64
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		x = float64(v.Int())
	case reflect.Uint64:
		x = float64(v.Uint())
	case reflect.Float64:
		x = v.Float()
	default:
		return ""
	}
	low, high, openLow, openHigh := interval(k.rng)
	if x > low && x < high || x == low && !openLow || x == high && !openHigh {
		return ""
	}
	return fmt.Sprintf("is %v; it must be %s", v.Interface(), describeInterval(k.rng))
}

// interval parses "[1, 4096]" or "(0, inf)". It is called only with intervals of this
// package, which a test parses.
func interval(s string) (low, high float64, openLow, openHigh bool) {
	a, b, _ := strings.Cut(s[1:len(s)-1], ", ")
	low, errLow := strconv.ParseFloat(a, 64)
	high, errHigh := strconv.ParseFloat(b, 64)
	if errLow != nil || errHigh != nil {
		panic("config: interval: " + s)
	}
	return low, high, s[0] == '(', s[len(s)-1] == ')'
}

// describeInterval describes an interval in words.
func describeInterval(s string) string {
	low, high, openLow, openHigh := interval(s)
	from, to := "at least ", "at most "
	if openLow {
		from = "more than "
	}
	if openHigh {
		to = "less than "
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	switch {
	case math.IsInf(low, 0) && math.IsInf(high, 0):
		return "finite"
	case math.IsInf(high, 0):
		return from + number(low)
	case !openLow && !openHigh:
		return "from " + number(low) + " to " + number(high)
	}
	return from + number(low) + " and " + to + number(high)
}

// walk calls visit for every value of v that is not a struct, including those in lists, with
// its path and key. Nil pointers are skipped.
func (c grammar) walk(v reflect.Value, path string, k key, visit func(path string, k key, v reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.walk(v.Elem(), path, k, visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Tag.Get("yaml")
			c.walk(v.Field(i), join(path, name), c.key(v.Type(), name), visit)
		}
	case reflect.Slice:
		visit(path, k, v)
		for i := range v.Len() {
			c.walk(v.Index(i), path+"["+strconv.Itoa(i)+"]", k, visit)
		}
	default:
		visit(path, k, v)
	}
}

// join appends a key to a path.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
