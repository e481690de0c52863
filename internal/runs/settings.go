package runs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Settings are the keys of a configuration with their values, as text. An entry of a list
// of mappings is called by its name: features[age].encode.
type Settings struct {
	Keys   []string // in order
	values map[string]string
}

// Of returns the value of a key, "" if there is none.
func (s *Settings) Of(key string) string { return s.values[key] }

// Limits of a configuration.
const (
	maxKeys  = 1 << 16
	maxDepth = 32
	maxValue = 4096 // bytes of a value that are kept
)

// parseSettings reads YAML, of whatever version it is. Anchors are not followed.
func parseSettings(b []byte) (s Settings, err error) {
	defer func() {
		if x := recover(); x != nil { // of the library, on what is no YAML
			err = fmt.Errorf("it cannot be parsed: %v", x)
		}
	}()
	f, err := parser.ParseBytes(b, 0)
	if err != nil {
		return Settings{}, fmt.Errorf("it is no YAML: %s", firstLine(err.Error()))
	}
	s.values = map[string]string{}
	for _, doc := range f.Docs {
		if doc.Body != nil {
			if err := s.add("", doc.Body, 0); err != nil {
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

func (s *Settings) add(path string, n ast.Node, depth int) error {
	if depth > maxDepth || len(s.Keys) >= maxKeys {
		return fmt.Errorf("it is nested more than %d deep or has more than %d keys", maxDepth, maxKeys)
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			if err := s.add(joined(path, v.Key.String()), v.Value, depth+1); err != nil {
				return err
			}
		}
		return nil
	case *ast.MappingValueNode:
		return s.add(joined(path, n.Key.String()), n.Value, depth+1)
	case *ast.SequenceNode:
		if len(n.Values) > 0 && isMapping(n.Values[0]) {
			for i, v := range n.Values {
				if err := s.add(fmt.Sprintf("%s[%s]", path, entryName(v, i)), v, depth+1); err != nil {
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
	if len(value) > maxValue {
		value = value[:maxValue] + "…"
	}
	if _, has := s.values[key]; !has {
		s.Keys = append(s.Keys, key)
	}
	s.values[key] = strings.ToValidUTF8(strings.Trim(value, `"`), "\uFFFD")
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

// entryName is the name of an entry of a list, or its number.
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
