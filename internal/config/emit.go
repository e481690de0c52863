package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/wdlrun/wdlrun/internal/config/network"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/optim"
)

// YAML returns the effective configuration: every setting that is used, with defaults filled
// in. Parsing it gives the filled Config again.
func (c *Config) YAML() []byte {
	full := c.Clone()
	full.Fill()
	e := emitter{schema: newGrammar()}
	e.WriteString("# Configuration in effect: defaults are filled in.\n")
	e.block(reflect.ValueOf(full).Elem(), 0)
	return []byte(e.String())
}

// emitter writes a Config. Mappings are blocks; entries of lists and rules are on one line
// each.
type emitter struct {
	strings.Builder
	schema grammar
}

// present reports whether a key is written: it has a value, or its zero is informative.
func present(v reflect.Value, k key) bool {
	if v.Kind() == reflect.Slice {
		return v.Len() > 0
	}
	return k.shown || !v.IsZero()
}

// isOwn reports whether t is the own key of a kind of network.
func isOwn(t reflect.Type) bool {
	return slices.ContainsFunc(network.Kinds(), func(k network.Kind) bool { return k.Parts != nil && k.Parts.Type == t })
}

func (e *emitter) block(v reflect.Value, depth int) {
	indent := strings.Repeat("  ", depth)
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("yaml")
		f := v.Field(i)
		oneLine := slices.Contains([]reflect.Type{reflect.TypeFor[optim.Rule](), reflect.TypeFor[Init](), reflect.TypeFor[Classes](), reflect.TypeFor[schema.Follow](), reflect.TypeFor[schema.Registry](), reflect.TypeFor[Gate](), reflect.TypeFor[From](), reflect.TypeFor[Retain](), reflect.TypeFor[Export](), reflect.TypeFor[Guard]()}, f.Type()) || isOwn(f.Type())
		switch {
		case f.Kind() == reflect.Struct && !oneLine:
			if depth == 0 {
				e.WriteByte('\n')
			}
			e.WriteString(indent + name + ":\n")
			e.block(f, depth+1)
		case !present(f, e.schema.key(v.Type(), name)):
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			e.WriteString("\n" + indent + name + ":\n")
			for j := range f.Len() {
				e.WriteString(indent + "  - " + e.line(f.Index(j)) + "\n")
			}
		default:
			e.WriteString(indent + name + ": " + e.line(f) + "\n")
		}
	}
}

// line writes a value on one line.
func (e *emitter) line(v reflect.Value) string {
	var parts []string
	switch v.Kind() {
	case reflect.Pointer:
		return e.line(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Tag.Get("yaml")
			if f := v.Field(i); present(f, key{}) {
				parts = append(parts, name+": "+e.line(f))
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case reflect.Slice:
		if all, ok := v.Interface().([]schema.Derived); ok {
			for _, d := range all {
				parts = append(parts, text(d.Name())+": "+text(d.Expression()))
			}
			return "{" + strings.Join(parts, ", ") + "}"
		}
		for i := range v.Len() {
			parts = append(parts, e.line(v.Index(i)))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case reflect.String:
		return text(v.String())
	case reflect.Float64:
		return number(v.Float())
	}
	return fmt.Sprint(v.Interface())
}

// text formats a string so that it parses to the same string, without quotes if it is
// unambiguous.
func text(s string) string {
	bare := s != "" && len(s) <= 200 && plainScalar(s).kind == "string" && unicode.IsLetter(rune(s[0])) && s[0] < 0x80
	for i := 0; i < len(s) && bare; i++ {
		c := s[i]
		bare = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '/'
	}
	if bare {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x100 && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
