package expr

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/wdlrun/wdlrun/internal/text/nearest"
)

// Expr is a checked expression.
type Expr struct {
	// Condition reports whether the result is 1 or 0 for true or false, not any number.
	Condition bool
	Fields    []Field

	value compiled
}

// Field is a field that an expression reads, and its use.
type Field struct {
	Name   string
	At     int  // first occurrence
	Number bool // used in Row.Numbers
	Text   bool // used in Row.Texts
}

// Row is the values of the fields of an Expr, in their order.
type Row struct {
	Numbers []float64 // NaN: missing
	Texts   [][]byte  // nil: missing
}

// Value returns the value of the expression; NaN is a missing value.
func (e *Expr) Value(r *Row) float64 { return e.value(r) }

const (
	maxBytes = 4 << 10 // of an expression
	maxDeep  = 64      // nesting depth of parentheses, operators and calls
)

// Parse checks and compiles an expression. An error is an *Error.
func Parse(s string) (*Expr, error) {
	if len(s) > maxBytes {
		return nil, &Error{maxBytes, fmt.Sprintf("the expression is longer than %d bytes", maxBytes)}
	}
	p := &parser{rest: s}
	p.advance()
	n := p.or()
	if p.err == nil && p.token.kind != end {
		p.fail(p.token.at, "%s is not expected here", p.token)
	}
	value := p.number(n, "the expression")
	if p.err != nil {
		return nil, p.err
	}
	return &Expr{Condition: n.kind == condition, Fields: p.fields, value: value}, nil
}

func (t token) String() string {
	if t.kind == end {
		return "the end"
	}
	return strconv.Quote(t.text)
}

// kind is the type of a node.
type kind uint8

const (
	numeric kind = iota
	condition
	textual
	open // a field, which is a number or a string by its use
)

// node is a part of an expression.
type node struct {
	kind    kind
	at      int
	value   compiled // numeric and condition
	text    string   // textual
	field   int      // open
	inexact string   // numeric: it is this integer, which is not exact as a number; "": it is not
}

// parser is a recursive descent parser. After a fault its nodes are undefined.
type parser struct {
	rest   string
	read   int // number of bytes before rest
	token  token
	deep   int
	fields []Field
	err    error
}

func (p *parser) fail(at int, format string, args ...any) {
	if p.err == nil {
		p.err = &Error{at, fmt.Sprintf(format, args...)}
	}
	p.token = token{kind: end, at: at} // so that all recursive calls return
}

func (p *parser) advance() {
	t, n, err := next(p.rest, p.read)
	if err != nil && p.err == nil {
		p.err = err
	}
	if p.err != nil {
		p.token = token{kind: end, at: p.read}
		return
	}
	p.token, p.rest, p.read = t, p.rest[n:], p.read+n
}

// is reports whether the next token is the given operator or keyword, and skips it.
func (p *parser) is(s string) bool {
	if (p.token.kind == operator || p.token.kind == word) && p.token.text == s {
		p.advance()
		return p.err == nil
	}
	return false
}

func (p *parser) expect(s string) {
	if !p.is(s) {
		p.fail(p.token.at, "%q is expected, not %s", s, p.token)
	}
}

func (p *parser) or() node {
	p.deep++
	defer func() { p.deep-- }()
	if p.deep > maxDeep {
		p.fail(p.token.at, "the expression is nested more than %d deep", maxDeep)
	}
	n := p.and()
	for at := p.token.at; p.is("or"); at = p.token.at {
		a, b := p.condition(n, "or"), p.condition(p.and(), "or")
		n = node{kind: condition, at: at, value: either(a, b)}
	}
	return n
}

func (p *parser) and() node {
	n := p.not()
	for at := p.token.at; p.is("and"); at = p.token.at {
		a, b := p.condition(n, "and"), p.condition(p.not(), "and")
		n = node{kind: condition, at: at, value: both(a, b)}
	}
	return n
}

func (p *parser) not() node {
	at, negate, any := p.token.at, false, false
	for p.is("not") {
		negate, any = !negate, true
	}
	n := p.comparison()
	if any {
		value := p.condition(n, "not")
		if negate {
			value = negation(value)
		}
		n = node{kind: condition, at: at, value: value}
	}
	return n
}

func (p *parser) comparison() node {
	n := p.sum()
	at := p.token.at
	for _, o := range []string{"==", "!=", "<", "<=", ">", ">="} {
		if p.is(o) {
			return node{kind: condition, at: at, value: p.compare(o, at, n, p.sum())}
		}
	}
	if p.is("in") {
		return node{kind: condition, at: at, value: p.in(n)}
	}
	if p.is("not") {
		p.expect("in")
		return node{kind: condition, at: at, value: negation(p.in(n))}
	}
	return n
}

// compare compiles a comparison of numbers or of strings.
func (p *parser) compare(o string, at int, a, b node) compiled {
	if o == "==" || o == "!=" {
		a, b = exact(a, b), exact(b, a)
	}
	if a.kind != textual && b.kind != textual && !(a.kind == open && b.kind == open) {
		return comparisons[o](p.number(a, o), p.number(b, o))
	}
	if o != "==" && o != "!=" {
		if a.kind == open && b.kind == open {
			return comparisons[o](p.number(a, o), p.number(b, o))
		}
		p.fail(at, "strings have no order: use ==, != or in; write a number without quotes")
	}
	value := sameText(p.textOf(a, o), p.textOf(b, o))
	if o == "!=" {
		value = negation(value)
	}
	return value
}

// in compiles a test for membership in the list that follows.
func (p *parser) in(n node) compiled {
	var numbers []float64
	words := map[string]bool{}
	p.expect("(")
	for p.err == nil {
		sign, at := 1.0, p.token.at
		if p.is("-") {
			sign = -1
		}
		switch t := p.token; {
		case t.kind == text && sign > 0:
			words[t.text] = true
			p.advance()
		case t.kind == number && isInexact(t.text) && n.kind == open:
			word := t.text
			if sign < 0 {
				word = "-" + word
			}
			words[word] = true
			p.advance()
		case t.kind == number:
			numbers = append(numbers, sign*p.literal())
		default:
			p.fail(at, "a list contains numbers or strings, not %s", t)
		}
		if len(words) > 0 && len(numbers) > 0 {
			p.fail(at, "a list contains numbers or strings, not both")
		}
		if !p.is(",") {
			break
		}
	}
	p.expect(")")
	if len(words) > 0 {
		return textIn(p.textOf(n, "in a list of strings"), words)
	}
	return numberIn(p.number(n, "in a list of numbers"), numbers)
}

func (p *parser) sum() node     { return p.chain(p.product, "+", "-") }
func (p *parser) product() node { return p.chain(p.unary, "*", "/", "%") }

// chain parses operands with operators of one precedence between them.
func (p *parser) chain(operand func() node, operators ...string) node {
	n := operand()
	for {
		at := p.token.at
		i := slices.IndexFunc(operators, p.is)
		if i < 0 {
			return n
		}
		n = p.arithmetic(operators[i], at, n, operand())
	}
}

func (p *parser) arithmetic(o string, at int, a, b node) node {
	return node{kind: numeric, at: at, value: operations[o](p.number(a, o), p.number(b, o))}
}

func (p *parser) unary() node {
	at, negative, any := p.token.at, false, false
	for p.is("-") {
		negative, any = !negative, true
	}
	n := p.primary()
	if !any {
		return n
	}
	value := p.number(n, "-")
	if negative {
		value = minus(value)
	}
	inexact := n.inexact
	if inexact != "" && negative {
		inexact = "-" + inexact
	}
	return node{kind: numeric, at: at, value: value, inexact: inexact}
}

func (p *parser) primary() node {
	t := p.token
	switch {
	case t.kind == number:
		n := node{kind: numeric, at: t.at, value: constant(p.literal())}
		if isInexact(t.text) {
			n.inexact = t.text
		}
		return n
	case t.kind == text:
		p.advance()
		return node{kind: textual, at: t.at, text: t.text}
	case p.is("("):
		n := p.or()
		p.expect(")")
		return n
	case t.kind == quoted, t.kind == word && !keywords[t.text]:
		p.advance()
		if t.kind == word && p.is("(") {
			return p.call(t)
		}
		return p.open(t)
	}
	p.fail(t.at, "a field, a number or a string is expected, not %s", t)
	return node{}
}

var keywords = map[string]bool{"and": true, "or": true, "not": true, "in": true}

// isInexact reports whether text is an integer from 2^53 on, next to which numbers leave others out.
func isInexact(text string) bool {
	const exact = 1 << 53
	n, err := strconv.ParseUint(text, 10, 64)
	return err == nil && n >= exact || errors.Is(err, strconv.ErrRange)
}

// exact returns n, or the text of an integer that is not exact as a number and that is compared with a field.
func exact(n, with node) node {
	if n.inexact == "" || with.kind != open {
		return n
	}
	return node{kind: textual, at: n.at, text: n.inexact}
}

// literal parses a number.
func (p *parser) literal() float64 {
	x, err := strconv.ParseFloat(p.token.text, 64)
	if err != nil || math.IsInf(x, 0) {
		p.fail(p.token.at, "%s is not a number", p.token)
		return 0
	}
	p.advance()
	return x
}

// open returns the node of a field.
func (p *parser) open(t token) node {
	for i := range p.fields {
		if p.fields[i].Name == t.text {
			return node{kind: open, at: t.at, field: i}
		}
	}
	p.fields = append(p.fields, Field{Name: t.text, At: t.at})
	return node{kind: open, at: t.at, field: len(p.fields) - 1}
}

// call compiles a call of a function, after its parenthesis.
func (p *parser) call(t token) node {
	var args []node
	for p.err == nil {
		args = append(args, p.or())
		if !p.is(",") {
			break
		}
	}
	p.expect(")")
	f, ok := functions[t.text]
	switch {
	case p.err != nil:
		return node{}
	case !ok:
		p.fail(t.at, "there is no function %s%s", t, nearest.Instead(t.text, functionNames()))
		return node{}
	case len(args) < f.least || len(args) > f.most:
		p.fail(t.at, "%s takes %s, not %d", t.text, f.takes, len(args))
		return node{}
	}
	n := f.make(p, args)
	n.at = t.at
	return n
}

// number returns the value of a node as a number.
func (p *parser) number(n node, of string) compiled {
	switch {
	case p.err != nil:
		return constant(0)
	case n.kind == textual:
		p.fail(n.at, "%q is a text; a number is needed (%s)", n.text, of)
		return constant(0)
	case n.kind == open:
		p.fields[n.field].Number = true
		return numberField(n.field)
	}
	return n.value
}

// condition returns the value of a node that must be true or false.
func (p *parser) condition(n node, of string) compiled {
	if p.err == nil && n.kind != condition {
		p.fail(n.at, "%s needs a condition, such as field == 1", of)
	}
	return p.number(n, of)
}

// textOf returns the value of a node as a string.
func (p *parser) textOf(n node, of string) texts {
	switch {
	case p.err != nil:
		return constantText("")
	case n.kind == textual:
		return constantText(n.text)
	case n.kind == open:
		p.fields[n.field].Text = true
		return textField(n.field)
	}
	p.fail(n.at, "a number is compared with a text (%s)", of)
	return constantText("")
}
