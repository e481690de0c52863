package expr

import (
	"maps"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/date"
)

// compiled computes a number; NaN is a missing value.
type compiled func(r *Row) float64

// texts computes a text; nil is a missing value.
type texts func(r *Row) []byte

var missing = math.NaN()

func isMissing(x float64) bool { return x != x }

func constant(x float64) compiled  { return func(*Row) float64 { return x } }
func numberField(i int) compiled   { return func(r *Row) float64 { return r.Numbers[i] } }
func minus(a compiled) compiled    { return func(r *Row) float64 { return -a(r) } }
func negation(a compiled) compiled { return func(r *Row) float64 { return 1 - a(r) } }

func constantText(s string) texts {
	b := []byte(s)
	return func(*Row) []byte { return b }
}

func textField(i int) texts { return func(r *Row) []byte { return r.Texts[i] } }

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func both(a, b compiled) compiled {
	return func(r *Row) float64 {
		x := a(r)
		if x == 0 {
			return 0
		}
		if y := b(r); y == 0 || isMissing(y) {
			return y
		}
		return x
	}
}

func either(a, b compiled) compiled {
	return func(r *Row) float64 {
		x := a(r)
		if x == 1 {
			return 1
		}
		if y := b(r); y == 1 || isMissing(y) {
			return y
		}
		return x
	}
}

var operations = map[string]func(a, b compiled) compiled{
	"+": func(a, b compiled) compiled { return func(r *Row) float64 { return a(r) + b(r) } },
	"-": func(a, b compiled) compiled { return func(r *Row) float64 { return a(r) - b(r) } },
	"*": func(a, b compiled) compiled { return func(r *Row) float64 { return a(r) * b(r) } },
	"/": func(a, b compiled) compiled {
		return func(r *Row) float64 {
			if y := b(r); y != 0 {
				return a(r) / y
			}
			return missing
		}
	},
	"%": func(a, b compiled) compiled { return func(r *Row) float64 { return math.Mod(a(r), b(r)) } },
}

var comparisons = map[string]func(a, b compiled) compiled{
	"==": comparison(func(x, y float64) bool { return x == y }),
	"!=": comparison(func(x, y float64) bool { return x != y }),
	"<":  comparison(func(x, y float64) bool { return x < y }),
	"<=": comparison(func(x, y float64) bool { return x <= y }),
	">":  comparison(func(x, y float64) bool { return x > y }),
	">=": comparison(func(x, y float64) bool { return x >= y }),
}

func comparison(holds func(x, y float64) bool) func(a, b compiled) compiled {
	return func(a, b compiled) compiled {
		return func(r *Row) float64 {
			x, y := a(r), b(r)
			if isMissing(x) || isMissing(y) {
				return missing
			}
			return truth(holds(x, y))
		}
	}
}

func sameText(a, b texts) compiled {
	return func(r *Row) float64 {
		x, y := a(r), b(r)
		if x == nil || y == nil {
			return missing
		}
		return truth(string(x) == string(y))
	}
}

func textIn(a texts, words map[string]bool) compiled {
	return func(r *Row) float64 {
		x := a(r)
		if x == nil {
			return missing
		}
		return truth(words[string(x)])
	}
}

func numberIn(a compiled, numbers []float64) compiled {
	return func(r *Row) float64 {
		x := a(r)
		if isMissing(x) {
			return missing
		}
		return truth(slices.Contains(numbers, x))
	}
}

// function is a function that expressions may call.
type function struct {
	least, most int // arguments
	takes       string
	make        func(p *parser, args []node) node
}

var functions = map[string]function{
	"log":   {1, 1, "one number", ofOne("log", logarithm)},
	"floor": {1, 1, "one number", ofOne("floor", math.Floor)},
	"abs":   {1, 1, "one number", ofOne("abs", math.Abs)},
	"min":   {2, maxArguments, "two numbers or more", ofMany("min", func(x, y float64) float64 { return min(x, y) })},
	"max":   {2, maxArguments, "two numbers or more", ofMany("max", func(x, y float64) float64 { return max(x, y) })},
	"missing": {1, 1, "one value", func(p *parser, args []node) node {
		return node{kind: condition, value: p.isMissing(args[0])}
	}},
	"seconds": {2, 2, "a field and the format of its dates, such as \"iso\" or \"unix\"", seconds},
	"if": {3, 3, "a condition and two numbers", func(p *parser, args []node) node {
		n := node{value: choice(p.condition(args[0], "if"), p.number(args[1], "if"), p.number(args[2], "if"))}
		if args[1].kind == condition && args[2].kind == condition {
			n.kind = condition
		}
		return n
	}},
}

const maxArguments = 64

func logarithm(x float64) float64 {
	if x <= 0 {
		return missing
	}
	return math.Log(x)
}

func ofOne(name string, f func(float64) float64) func(*parser, []node) node {
	return func(p *parser, args []node) node {
		a := p.number(args[0], name)
		return node{value: func(r *Row) float64 { return f(a(r)) }}
	}
}

// seconds reads a date as seconds since 1970.
func seconds(p *parser, args []node) node {
	if args[1].kind != textual {
		p.fail(args[1].at, "seconds needs the format of the dates as a text, such as \"iso\", \"unix\" or \"%%Y%%m%%d\"")
		return node{}
	}
	format, err := date.NewFormat(args[1].text)
	if err != nil {
		p.fail(args[1].at, "%v", err)
		return node{}
	}
	of := p.textOf(args[0], "seconds")
	return node{value: func(r *Row) float64 {
		if text := of(r); text != nil {
			if s, ok := format.Seconds(text); ok {
				return float64(s)
			}
		}
		return missing
	}}
}

// ofMany folds numbers; min and max return NaN if one of them is NaN.
func ofMany(name string, f func(x, y float64) float64) func(*parser, []node) node {
	return func(p *parser, args []node) node {
		all := make([]compiled, len(args))
		for i, a := range args {
			all[i] = p.number(a, name)
		}
		return node{value: func(r *Row) float64 {
			x := all[0](r)
			for _, a := range all[1:] {
				x = f(x, a(r))
			}
			return x
		}}
	}
}

func choice(of, then, otherwise compiled) compiled {
	return func(r *Row) float64 {
		switch x := of(r); {
		case isMissing(x):
			return missing
		case x == 0:
			return otherwise(r)
		}
		return then(r)
	}
}

// isMissing tests a result, or a field as text, which any value has.
func (p *parser) isMissing(n node) compiled {
	if n.kind == open {
		p.fields[n.field].Text = true
		a := textField(n.field)
		return func(r *Row) float64 { return truth(a(r) == nil) }
	}
	a := p.number(n, "missing")
	return func(r *Row) float64 { return truth(isMissing(a(r))) }
}

func functionNames() []string { return slices.Sorted(maps.Keys(functions)) }
