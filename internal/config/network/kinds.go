package network

import (
	"reflect"
	"strings"
)

// Kind is one kind of network.
type Kind struct {
	Name    string // model.kind
	Paper   string // such as Guo et al. 2017
	Formula string
	NoWide  bool // model.wide is false by default

	Own   *Key                  // its own key of model; nil: none
	Terms string                // what the own key describes, in a message: cross layers
	Parts *Section              // keys of a mapping as own key; nil: the key is a list
	Fill  func(m *Model)        // sets the defaults of the own key; nil: none
	Check func(m *Model) string // returns why the own key is rejected, or ""; nil: no check
	Build func(b *Builder, m Model) error
}

// Section describes the keys of a mapping.
type Section struct {
	Type  reflect.Type
	About string
	Keys  []Key
}

// Key describes a key of a configuration.
type Key struct {
	Name, Default, About string
	Range                string   // interval of a number, or of each number of a list: [1, 4096]
	Choices              []string // accepted strings
	Filled               bool     // an empty list is rejected
}

// Default is the kind of a model that names none. It is the only one that may lack the deep part.
const Default = "wide_deep"

// Kinds returns all kinds, in the order of the reference.
func Kinds() []Kind { return []Kind{wideDeep(), deepFM(), dcnV2(), xDeepFM(), maskNet()} }

// Names returns the names of all kinds.
func Names() (all []string) {
	for _, k := range Kinds() {
		all = append(all, k.Name)
	}
	return all
}

// Of returns the kind of a name.
func Of(name string) (k Kind, known bool) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

// About describes all kinds, for the reference.
func About() string {
	var b strings.Builder
	names, papers := 0, 0
	for _, k := range Kinds() {
		names, papers = max(names, len(k.Name)), max(papers, len(k.Paper))
	}
	for _, k := range Kinds() {
		b.WriteString("\n" + k.Name + strings.Repeat(" ", names-len(k.Name)) + " (" + k.Paper + ")" + strings.Repeat(" ", papers-len(k.Paper)+2) + k.Formula)
	}
	return b.String()
}

// Value returns the value of a kind's own key.
func (m *Model) Value(k Kind) reflect.Value {
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("yaml") == k.Own.Name {
			return v.Field(i)
		}
	}
	panic("network: Value: Model has no field " + k.Own.Name)
}

// Given reports whether a kind's own key has a value.
func (m *Model) Given(k Kind) bool {
	if k.Own == nil {
		return false
	}
	v := m.Value(k)
	return v.Kind() == reflect.Slice && v.Len() > 0 || v.Kind() != reflect.Slice && !v.IsZero()
}
