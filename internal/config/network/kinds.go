package network

import (
	"fmt"
	"reflect"
	"strings"
)

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

// New returns the network of a filled model. It fails if the kind cannot read such an input.
func New(m Model, s Shape) (*Network, error) {
	k, known := Of(m.Kind)
	if !known {
		return nil, fmt.Errorf("model %q is not known", m.Kind)
	}
	b := &Builder{Network: Network{Shape: s}, model: m}
	if err := k.Build(b, m); err != nil {
		return nil, fmt.Errorf("%s: %w", m.Kind, err)
	}
	return &b.Network, nil
}

// HasWide reports whether the model has a wide part.
func (m *Model) HasWide() bool {
	if m.Wide == nil {
		k, _ := Of(m.Kind)
		return !k.NoWide
	}
	return *m.Wide
}

// Nominal returns the network of a model over one embedding and one dense input, for what does not
// depend on the input.
func Nominal(m Model) (*Network, error) {
	return New(m, Shape{Fields: []Field{{Cols: 1}}, Dense: 1})
}
