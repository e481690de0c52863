package config

import (
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
	"github.com/wdlrun/wdlrun/internal/text/cut"
)

// scalar is a value that is neither a mapping nor a sequence. Its kind follows the core
// schema of YAML 1.2 and is determined from the text: the library reads 1e-3 as a string and
// 010 as eight.
type scalar struct {
	kind string // string, integer, number, bool or null
	text string
}

// scalarOf reads a node; ok is false for a collection.
func scalarOf(n ast.Node) (s scalar, ok bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		switch n.GetToken().Type {
		case token.SingleQuoteType, token.DoubleQuoteType:
			return scalar{"string", n.Value}, true
		}
		return plainScalar(n.Value), true
	case *ast.LiteralNode:
		if n.Value == nil {
			return scalar{"string", ""}, true
		}
		return scalar{"string", n.Value.Value}, true
	case *ast.NullNode:
		return scalar{"null", n.GetToken().Value}, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return plainScalar(n.GetToken().Value), true
	}
	return scalar{}, false
}

// plainScalar parses an unquoted text.
func plainScalar(text string) scalar {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return scalar{"null", text}
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return scalar{"bool", text}
	}
	switch {
	case isInteger(text):
		return scalar{"integer", text}
	case isDoubtful(text):
		return scalar{"doubtful", text}
	case isNumber(text):
		return scalar{"number", text}
	}
	return scalar{"string", text}
}

// isInteger reports whether s is an integer: 42, -7, 0x2a or 0o52.
func isInteger(s string) bool {
	s = unsign(s)
	if rest, ok := strings.CutPrefix(s, "0x"); ok {
		return rest != "" && strings.Trim(rest, "0123456789abcdefABCDEF") == ""
	}
	if rest, ok := strings.CutPrefix(s, "0o"); ok {
		return rest != "" && strings.Trim(rest, "01234567") == ""
	}
	return s != "" && digits(s) == len(s) && (s[0] != '0' || s == "0")
}

// isDoubtful reports whether programs disagree about s: 010 is ten or eight, 1_000 a number
// or a string. .inf and .nan are not valid settings either. Such texts are rejected.
func isDoubtful(s string) bool {
	s = strings.ToLower(unsign(s))
	if s == ".inf" || s == ".nan" {
		return true
	}
	return s != "" && digits(s) > 0 && strings.Trim(s, "0123456789_") == "" && !isInteger(s)
}

// isNumber reports whether s is a decimal number: 1.5, .5, 2. or 1e-3.
func isNumber(s string) bool {
	s = unsign(s)
	whole := digits(s)
	s = s[whole:]
	if rest, ok := strings.CutPrefix(s, "."); ok {
		n := digits(rest)
		whole, s = whole+n, rest[n:]
	}
	if whole == 0 || s == "" {
		return whole > 0
	}
	if s[0] != 'e' && s[0] != 'E' {
		return false
	}
	s = unsign(s[1:])
	return s != "" && digits(s) == len(s)
}

// digits counts the decimal digits at the start of s.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// unsign removes one sign.
func unsign(s string) string {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		return s[1:]
	}
	return s
}

// name describes the scalar in messages.
func (s scalar) name() string {
	switch s.kind {
	case "null":
		return "empty"
	case "bool":
		return s.text
	case "integer", "number":
		return "the " + s.kind + " " + clip(s.text)
	case "doubtful":
		return clip(s.text) + ", which YAML readers understand differently"
	}
	return "the string " + quote(s.text)
}

// integer parses a signed integer. Whole numbers such as 1e6 are rejected.
func (s scalar) integer() (int64, bool) {
	if s.kind != "integer" {
		return 0, false
	}
	v, err := strconv.ParseInt(s.text, 0, 64)
	return v, err == nil
}

// unsigned parses an unsigned integer.
func (s scalar) unsigned() (uint64, bool) {
	if s.kind != "integer" {
		return 0, false
	}
	text := s.text
	if text[0] == '+' {
		text = text[1:]
	}
	v, err := strconv.ParseUint(text, 0, 64)
	return v, err == nil
}

// number parses a finite number.
func (s scalar) number() (float64, bool) {
	switch s.kind {
	case "integer":
		if v, err := strconv.ParseInt(s.text, 0, 64); err == nil {
			return float64(v), true
		}
	case "number":
	default:
		return 0, false
	}
	v, err := strconv.ParseFloat(s.text, 64)
	return v, err == nil && !math.IsInf(v, 0)
}

// clip shortens a word for use in a path.
func clip(s string) string { return cut.To(60, s) }

// number formats x as the shortest decimal that parses to x.
func number(x float64) string {
	if x == 0 {
		return "0" // -0 is the same setting
	}
	if a := math.Abs(x); a < 1e-4 || a >= 1e9 {
		return strconv.FormatFloat(x, 'e', -1, 64)
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}
