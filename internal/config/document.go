package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxLevels bounds the nesting of collections; a configuration needs six. The YAML parser is
	// recursive, and its time grows much faster than the depth.
	maxLevels = 16
	// maxKeys bounds the keys of one block mapping; a configuration has twenty. The parser's
	// time grows with their square.
	maxKeys = 1000
)

// document parses the bytes of a file into the tree of its only document. On failure it
// returns nil and records faults; readable reports whether the file had a document.
func (d *decoder) document(b []byte) ast.Node {
	if len(b) > MaxBytes {
		d.fault(place{1, 1}, "", "the file has more than %d bytes: records go into files of their own, for which wdlrun init -data FILE writes a configuration, and long lists of files are named by a glob", MaxBytes)
		return nil
	}
	b = bytes.TrimPrefix(b, []byte("\ufeff")) // byte order mark of some editors
	// Normalise line ends, so that line numbers agree with editors.
	b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	b = bytes.ReplaceAll(b, []byte("\r"), []byte("\n"))
	if !d.text(b) {
		return nil
	}
	tokens := lexer.Tokenize(string(b))
	if !d.guard(tokens) {
		return nil
	}
	file, err := parse(tokens)
	if err != nil {
		d.syntax(err)
		return nil
	}
	d.readable = true
	for _, doc := range file.Docs {
		if doc.Body != nil {
			return doc.Body
		}
	}
	return nil
}

// parse runs the YAML library's parser. A panic of the parser becomes an error, since the
// cause is the given file.
func parse(tokens token.Tokens) (file *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the YAML parser gave up (%v)", r)
		}
	}()
	// Duplicate keys are found by this package: the library stops at the first one.
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// syntax records an error of the library, without its excerpt of the source.
func (d *decoder) syntax(err error) {
	at, msg := place{1, 1}, err.Error()
	var known yaml.Error
	if errors.As(err, &known) {
		msg = known.GetMessage()
		if tk := known.GetToken(); tk != nil {
			at = placeOf(tk)
		}
	}
	if strings.Contains(msg, "'\t'") {
		msg = "a tab cannot indent in YAML: use spaces"
	}
	if strings.Contains(msg, "reserved character") || strings.Contains(msg, "invalid header option") {
		msg += ": put the value in quotes"
	}
	d.fault(at, "", "is not YAML: %s", msg)
}

// text checks that b is UTF-8 without control characters: editors do not show them, and they
// would become part of names.
func (d *decoder) text(b []byte) bool {
	line, column := 1, 1
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			d.fault(place{line, column}, "", "the byte 0x%02x is not UTF-8: save the file as UTF-8", b[0])
			return false
		}
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			d.fault(place{line, column}, "", "the control character %U does not belong into a file of text", r)
			return false
		}
		b, column = b[n:], column+1
		if r == '\n' {
			line, column = line+1, 1
		}
	}
	return true
}

// guard checks the tokens before parsing. It rejects unsupported tokens and nesting that
// would exhaust the parser's stack or take far more time than the size of the file suggests.
// It runs in one pass without recursion.
func (d *decoder) guard(tokens token.Tokens) bool {
	var open levels
	begun := false
	for _, tk := range tokens {
		at := placeOf(tk)
		if why := refused(tk.Type, begun); why != "" {
			d.fault(at, "", "%s", why)
			continue
		}
		if tk.Type == token.CommentType {
			continue
		}
		begun = true
		if why := open.check(tk.Type, at); why != "" {
			d.fault(at, "", "%s", why)
			return false
		}
	}
	return len(d.faults) == 0
}

// levels counts the open collections at a token.
type levels struct {
	lines []level // one per indentation
	flow  int     // brackets
	chain int     // "- - - x" and "a: b: c" open a level each on one line
	line  int     // line of the last token
	entry bool    // whether that line starts with a dash
}

// level is one indentation and the number of keys in it.
type level struct{ column, keys int }

// check processes the next token. It returns which limit is exceeded, or "".
func (l *levels) check(t token.Type, at place) string {
	if at.line != l.line && l.flow == 0 {
		l.line, l.chain, l.entry = at.line, 0, t == token.SequenceEntryType
		for len(l.lines) > 0 && l.lines[len(l.lines)-1].column > at.column {
			l.lines = l.lines[:len(l.lines)-1]
		}
		if len(l.lines) == 0 || l.lines[len(l.lines)-1].column < at.column {
			l.lines = append(l.lines, level{column: at.column})
		}
	}
	switch t {
	case token.MappingStartType, token.SequenceStartType:
		l.flow, l.chain = l.flow+1, 0
	case token.MappingEndType, token.SequenceEndType:
		l.flow, l.chain = max(0, l.flow-1), 0
	case token.CollectEntryType:
		l.chain = 0
	case token.SequenceEntryType:
		l.chain++
	case token.MappingValueType:
		l.chain++
		if l.flow == 0 && !l.entry && len(l.lines) > 0 {
			l.lines[len(l.lines)-1].keys++
			if l.lines[len(l.lines)-1].keys > maxKeys {
				return fmt.Sprintf("is key %d of one mapping, which no configuration has", maxKeys+1)
			}
		}
	}
	if len(l.lines)+l.flow+l.chain > maxLevels {
		return fmt.Sprintf("nests deeper than %d levels", maxLevels)
	}
	return ""
}

// refused returns why a kind of token is not allowed in a configuration, or "" if it is.
func refused(t token.Type, begun bool) string {
	switch t {
	case token.AnchorType, token.AliasType, token.MergeKeyType:
		return "anchors, aliases and merge keys (& * <<) are not supported: write the value out, or put it in quotes if it is a string"
	case token.TagType:
		return "tags (!) are not supported: leave it out, or put the value in quotes if it is a string"
	case token.MappingKeyType:
		return "the ? form of a key is not supported: write key: value, or put the value in quotes if it is a string"
	case token.DirectiveType:
		return "directives (%) are not supported: leave it out, or put the value in quotes if it is a string"
	case token.DocumentHeaderType:
		if begun {
			return "a configuration is one document: --- is only allowed before it"
		}
	case token.DocumentEndType:
		return "a configuration is one document: leave ... out"
	}
	return ""
}
