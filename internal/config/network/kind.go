package network

import (
	"reflect"
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

// Key describes a key of a configuration.
type Key struct {
	Name, Default, About string
	Range                string   // interval of a number, or of each number of a list: [1, 4096]
	Choices              []string // accepted strings
	Filled               bool     // an empty list is rejected
}

// Section describes the keys of a mapping.
type Section struct {
	Type  reflect.Type
	About string
	Keys  []Key
}

// Default is the kind of a model that names none. It is the only one that may lack the deep part.
const Default = "wide_deep"
