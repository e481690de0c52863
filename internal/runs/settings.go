package runs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/wdlrun/wdlrun/internal/text/cut"
)

// Settings are the keys of a configuration with their values, as text. An entry of a list
// of mappings is identified by its name: features[age].encode.
type Settings struct {
	*shape          // nil if they could not be read
	values []string // by key; read through value, since runs of an index share them
	varied []int    // keys with another value
	to     []string // their values
}

// value returns the value of the i-th key.
func (s *Settings) value(i int) string {
	if j := slices.Index(s.varied, i); j >= 0 {
		return s.to[j]
	}
	return s.values[i]
}

// all returns the values by key.
func (s *Settings) all() []string {
	all := slices.Clone(s.values)
	for j, i := range s.varied {
		all[i] = s.to[j]
	}
	return all
}

// shape is the sequence of keys of a configuration. Runs of one folder share it.
type shape struct {
	keys []string
	at   map[string]int
}

func newShape(keys []string) *shape {
	s := &shape{at: make(map[string]int, len(keys))}
	for _, key := range keys {
		s.add(key)
	}
	return s
}

func (s *shape) add(key string) {
	s.at[key] = len(s.keys)
	s.keys = append(s.keys, key)
}

// Of returns the value of a key, "" if there is none.
func (s *Settings) Of(key string) string {
	if s.shape != nil {
		if i, has := s.at[key]; has {
			return s.value(i)
		}
	}
	return ""
}

// Keys returns the keys in the order of the file.
func (s *Settings) Keys() []string {
	if s.shape == nil {
		return nil
	}
	return s.keys
}

// Limits of a configuration.
const (
	maxKeys  = 1 << 16
	maxDepth = 32
	maxValue = 4096 // maximum bytes kept of a value
)

// ParseSettings parses the YAML of any version. Anchors are not followed.
func ParseSettings(b []byte) (s Settings, err error) {
	defer func() {
		if x := recover(); x != nil { // a panic of the library, on invalid YAML
			err = fmt.Errorf("it cannot be parsed: %v", x)
		}
	}()
	f, err := parser.ParseBytes(b, 0)
	if err != nil {
		return Settings{}, fmt.Errorf("it is not YAML: %s", firstLine(err.Error()))
	}
	s.shape = newShape(nil)
	for _, doc := range f.Docs {
		if doc.Body != nil {
			if err := s.read("", doc.Body, 0); err != nil {
				return Settings{}, err
			}
		}
	}
	return s, nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func (s *Settings) read(path string, n ast.Node, depth int) error {
	if depth > maxDepth || len(s.keys) >= maxKeys {
		return fmt.Errorf("it is nested more than %d deep or has more than %d keys", maxDepth, maxKeys)
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			if err := s.read(joined(path, v.Key.String()), v.Value, depth+1); err != nil {
				return err
			}
		}
		return nil
	case *ast.MappingValueNode:
		return s.read(joined(path, n.Key.String()), n.Value, depth+1)
	case *ast.SequenceNode:
		if len(n.Values) > 0 && isMapping(n.Values[0]) {
			for i, v := range n.Values {
				if err := s.read(fmt.Sprintf("%s[%s]", path, entryName(v, i)), v, depth+1); err != nil {
					return err
				}
			}
			return nil
		}
	}
	s.set(path, strings.TrimSpace(n.String()))
	return nil
}

func (s *Settings) set(key, value string) {
	value = cut.To(maxValue, value)
	key = short(strings.ToValidUTF8(key, "\uFFFD"))
	i, has := s.at[key]
	if !has {
		i = len(s.values)
		s.add(key)
		s.values = append(s.values, "")
	}
	s.values[i] = strings.ToValidUTF8(strings.Trim(value, `"`), "\uFFFD")
}

func joined(path, key string) string {
	key = strings.Trim(key, `"`)
	if path == "" {
		return key
	}
	return path + "." + key
}

func isMapping(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

// entryName returns the name of an entry of a list, or its number.
func entryName(n ast.Node, i int) string {
	var pairs []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	}
	at := slices.IndexFunc(pairs, func(p *ast.MappingValueNode) bool { return p.Key.String() == "name" })
	if at < 0 {
		return fmt.Sprint(i)
	}
	return strings.Trim(pairs[at].Value.String(), `"`)
}

// short returns the first maxText bytes of a text of a run directory.
func short(text string) string { return cut.To(maxText, text) }

// Limits of files, in bytes.
const (
	maxVerdict = 1 << 20
	maxResult  = 64 << 20
	maxConfig  = 1 << 20
	maxMetrics = 1 << 30
	maxText    = 1 << 10 // kept of a name, a note or a reason
	maxTags    = 32
)
