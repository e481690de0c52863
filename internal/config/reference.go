package config

import (
	"reflect"
	"strings"
	"text/tabwriter"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/text/nearest"
)

// Reference returns every key with its type, default and meaning, in the order
// of the file.
func Reference() string {
	var b strings.Builder
	s := newGrammar()
	for i, sec := range s.sections {
		if i > 0 {
			b.WriteByte('\n')
		}
		if sec.path != "" {
			b.WriteString(sec.path + "\n")
		}
		about := strings.ReplaceAll(sec.about, "\n", "\n  ")
		b.WriteString("  " + strings.ReplaceAll(about, "\n  \n", "\n\n") + "\n\n")
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, k := range sec.keys {
			row := "    " + k.name + "\t" + sec.shortKind(k) + "\t" + k.def + "\t" + k.meaning() + "\n"
			w.Write([]byte(row)) // a Builder never fails
		}
		w.Flush()
	}
	return b.String()
}

// Key is the documentation of one key, for programs.
type Key struct {
	Section string   `json:"section"` // such as train or features[]; "" for the top level
	Name    string   `json:"key"`
	Type    string   `json:"type"`
	Default string   `json:"default,omitempty"`
	Range   string   `json:"range,omitempty"` // interval of a number
	Choices []string `json:"choices,omitempty"`
	About   string   `json:"about"`
}

// Keys returns every key in the order of Reference.
func Keys() (all []Key) {
	for _, sec := range sections() {
		for _, k := range sec.keys {
			all = append(all, Key{sec.path, k.name, sec.shortKind(k), k.def, k.rng, k.choices, k.about})
		}
	}
	return all
}

// Setting returns the path of the key that a user probably meant by the unknown flag name:
// the key of train or model with that name, such as train.epochs, or the nearest key of a
// section, such as model.kind for model.knd. It returns "" if there is none.
func Setting(name string) string {
	name = strings.ReplaceAll(name, "-", "_")
	if at := strings.LastIndex(name, "."); at > 0 {
		for _, sec := range sections() {
			var keys []string
			for _, k := range sec.keys {
				keys = append(keys, k.name)
			}
			if near := nearest.Of(name[at+1:], keys); sec.path == name[:at] && near != "" {
				return sec.path + "." + near
			}
		}
		return ""
	}
	for _, of := range []string{"train", "model"} {
		for _, sec := range sections() {
			if sec.path == of && sec.has(name) {
				return of + "." + name
			}
		}
	}
	return ""
}

// shortKind returns the name of the type of a key for a column.
func (s section) shortKind(k key) string {
	return shortKind(s.typ.Field(fieldOf(s.typ, k.name)).Type)
}

// shortKind returns the name of a type for a column.
func shortKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return shortKind(t.Elem())
	case reflect.Slice:
		if t.Elem() == reflect.TypeFor[schema.Derived]() {
			return "{name: string}"
		}
		return "[" + shortKind(t.Elem()) + "]"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "true|false"
	case reflect.Float64:
		return "number"
	case reflect.Struct:
		return "mapping"
	}
	return "integer"
}

// meaning returns the description of a key with its accepted values.
func (k key) meaning() string {
	switch {
	case len(k.choices) > 0:
		return k.about + " (" + strings.Join(k.choices, ", ") + ")"
	case k.rng != "" && describeInterval(k.rng) != "finite":
		return k.about + " (" + describeInterval(k.rng) + ")"
	}
	return k.about
}
