package sweep

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/wdlrun/wdlrun/internal/text/nearest"
)

// Limits of a space.
const (
	MaxBytes  = 1 << 20 // bytes of the file
	MaxParams = 64
	MaxValues = 1000
	MaxTrials = 10000

	MaxRepeats = 100
)

// Kinds of the values of a key.
const (
	choice  = "choice"  // one value of a list
	uniform = "uniform" // a number in a range
	log     = "log"     // a number in a range, with a uniform logarithm
	integer = "int"     // an integer in a range, both ends included
)

var kinds = []string{choice, uniform, log, integer}

// Param is a key of the configuration with its possible values.
type Param struct {
	Key    string
	Kind   string
	Values []string // values of a choice, as YAML
	Low    float64  // range of the other kinds
	High   float64
	Steps  int // number of values in a grid; 0: all integers
	If     *Condition
}

// Condition is met if an earlier key of the space has one of the values.
type Condition struct {
	Key    string
	Values []string
}

// Numeric reports whether values are numbers from a range.
func (p *Param) Numeric() bool { return p.Kind != choice }

// Log reports whether values are spread evenly on a logarithmic scale.
func (p *Param) Log() bool { return p.Kind == log }

// Space is a list of keys with their possible values.
type Space []Param

// Setting is a key with its value, as YAML.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// ParseSpace parses a space. All faulty keys are reported, one per line, and each line begins
// with name. check, if not nil, returns an error for a key or a value that no configuration
// has.
func ParseSpace(name string, b []byte, check func(key, value string) error) (s Space, err error) {
	defer func() {
		if x := recover(); x != nil { // the library panics on some invalid YAML
			s, err = nil, fmt.Errorf("%s: it cannot be parsed: %v", name, x)
		}
	}()
	if len(b) > MaxBytes {
		return nil, fmt.Errorf("%s: it has more than %d bytes", name, MaxBytes)
	}
	f, err := parser.ParseBytes(b, 0)
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("%s: it is not YAML: %s", name, line)
	}
	if len(f.Docs) != 1 {
		return nil, fmt.Errorf("%s: %d YAML documents, want one", name, len(f.Docs))
	}
	pairs, ok := pairsOf(f.Docs[0].Body)
	if !ok || len(pairs) == 0 || len(pairs) > MaxParams {
		return nil, fmt.Errorf("%s: it must map 1 to %d keys of the configuration to their values, such as train.l2: {log: [1e-6, 1e-3]}", name, MaxParams)
	}
	var faults []error
	faulty := map[string]bool{}
	for _, pair := range pairs {
		p, err := parseParam(textOf(pair.Key), pair.Value)
		if err == nil && (p.If == nil || !faulty[p.If.Key]) {
			err = s.fits(p)
		}
		if err == nil && check != nil {
			err = p.check(check)
		}
		if err != nil {
			faulty[p.Key] = true
			faults = append(faults, fmt.Errorf("%s: line %d: %s: %w", name, pair.Key.GetToken().Position.Line, textOf(pair.Key), err))
		}
		s = append(s, p)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return s, nil
}

// check checks the values of a choice, or a low and a high value of a range.
func (p *Param) check(check func(key, value string) error) error {
	values := p.Values
	if p.Numeric() {
		values = []string{p.draw(0), p.draw(.99)} // the upper end of a range may be excluded
	}
	for _, v := range values {
		if err := check(p.Key, v); err != nil {
			return err
		}
	}
	return nil
}

func pairsOf(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// textOf returns a value in the form that config.Set accepts: strings unquoted, all else as
// YAML.
func textOf(n ast.Node) string {
	if s, ok := n.(*ast.StringNode); ok {
		return s.Value
	}
	return strings.TrimSpace(n.String())
}

func parseParam(key string, n ast.Node) (p Param, err error) {
	p = Param{Key: key, Kind: choice}
	if list, ok := n.(*ast.SequenceNode); ok { // short for {choice: [...]}
		return p, p.choices(list)
	}
	pairs, ok := pairsOf(n)
	if !ok {
		return p, fmt.Errorf("want a list of values, or a mapping such as {log: [1e-4, 1e-1]}")
	}
	found := ""
	for _, pair := range pairs {
		switch name := textOf(pair.Key); {
		case slices.Contains(kinds, name) && found == "":
			found, p.Kind = name, name
			list, ok := pair.Value.(*ast.SequenceNode)
			switch {
			case !ok:
				err = fmt.Errorf("%s: want a list", name)
			case name == choice:
				err = p.choices(list)
			default:
				err = p.bounds(list)
			}
		case name == "steps":
			if p.Steps, err = strconv.Atoi(textOf(pair.Value)); err != nil || p.Steps < 2 || p.Steps > MaxValues {
				err = fmt.Errorf("steps: %s: want a number from 2 to %d", textOf(pair.Value), MaxValues)
			}
		case name == "if":
			p.If, err = parseCondition(textOf(pair.Value))
		default:
			near := nearest.Of(name, append([]string{"steps", "if"}, kinds...))
			if near != "" {
				near = "; did you mean " + near + "?"
			}
			err = fmt.Errorf("%q is unknown, or a second kind%s (valid: %s, with steps and if)", name, near, strings.Join(kinds, ", "))
		}
		if err != nil {
			return p, err
		}
	}
	if found == "" {
		return p, fmt.Errorf("it has no values: give one of %s", strings.Join(kinds, ", "))
	}
	if p.Kind == choice && p.Steps > 0 {
		return p, fmt.Errorf("steps belongs to a range, not to a choice")
	}
	return p, nil
}

func (p *Param) choices(list *ast.SequenceNode) error {
	if n := len(list.Values); n == 0 || n > MaxValues {
		return fmt.Errorf("%d values, want 1 to %d", n, MaxValues)
	}
	for _, v := range list.Values {
		text := textOf(v)
		if slices.Contains(p.Values, text) {
			return fmt.Errorf("the value %s is there twice", text)
		}
		p.Values = append(p.Values, text)
	}
	return nil
}

func (p *Param) bounds(list *ast.SequenceNode) error {
	want := fmt.Errorf("%s: want two numbers in ascending order: {%s: [LOW, HIGH]}", p.Kind, p.Kind)
	if len(list.Values) != 2 {
		return want
	}
	for i, to := range []*float64{&p.Low, &p.High} {
		x, err := strconv.ParseFloat(textOf(list.Values[i]), 64)
		if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
			return want
		}
		*to = x
	}
	switch {
	case p.Low >= p.High || math.IsInf(p.High-p.Low, 0):
		return want
	case p.Kind == log && p.Low <= 0:
		return fmt.Errorf("log: the numbers must be above 0")
	case p.Kind == integer && (p.Low != math.Trunc(p.Low) || p.High != math.Trunc(p.High) || p.High-p.Low > 1e9 || math.Abs(p.Low) > 1e9):
		return fmt.Errorf("int: want two whole numbers of at most 10^9")
	}
	return nil
}

// parseCondition parses KEY=VALUE or KEY=VALUE,VALUE.
func parseCondition(text string) (*Condition, error) {
	key, values, ok := strings.Cut(text, "=")
	if key = strings.TrimSpace(key); !ok || key == "" || values == "" {
		return nil, fmt.Errorf("if: %q: want KEY=VALUE or KEY=VALUE,VALUE", text)
	}
	c := &Condition{Key: key}
	for v := range strings.SplitSeq(values, ",") {
		c.Values = append(c.Values, strings.TrimSpace(v))
	}
	return c, nil
}

// fits returns an error if a param cannot follow the params of the space.
func (s Space) fits(p Param) error {
	find := func(key string) int { return slices.IndexFunc(s, func(o Param) bool { return o.Key == key }) }
	if find(p.Key) >= 0 {
		return fmt.Errorf("the key is there twice")
	}
	if p.If == nil {
		return nil
	}
	i := find(p.If.Key)
	if i < 0 || s[i].Kind != choice {
		return fmt.Errorf("if: %s is not a choice of an earlier line", p.If.Key)
	}
	for _, v := range p.If.Values {
		if !slices.Contains(s[i].Values, v) {
			return fmt.Errorf("if: %s never has the value %s (it has: %s)", p.If.Key, v, strings.Join(s[i].Values, ", "))
		}
	}
	return nil
}

// met reports whether the condition of a param holds for the preceding settings.
func (p *Param) met(before []Setting) bool {
	return p.If == nil || slices.ContainsFunc(before, func(s Setting) bool { return s.Key == p.If.Key && slices.Contains(p.If.Values, s.Value) })
}

// text formats a number as a value.
func (p *Param) text(x float64) string {
	if p.Kind == integer {
		return strconv.FormatFloat(math.Round(x), 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', 5, 64)
}

// draw maps a number in [0, 1) to a value.
func (p *Param) draw(u float64) string {
	switch p.Kind {
	case choice:
		return p.Values[int(u*float64(len(p.Values)))]
	case integer:
		return p.text(p.Low + math.Floor(u*(p.High-p.Low+1)))
	case log:
		return p.text(math.Exp(math.Log(p.Low) + float64(u*(math.Log(p.High)-math.Log(p.Low)))))
	}
	return p.text(p.Low + float64(u*(p.High-p.Low)))
}

// Draw returns n different settings, or fewer if the space has fewer combinations. Number i
// depends on the seed, on i and on the earlier draws, not on n.
func (s Space) Draw(seed uint64, n int) (all [][]Setting) {
	const tries = 200
	seen := map[string]bool{}
	for i := range n {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		for range tries {
			var one []Setting
			for k := range s {
				u := rng.Float64() // one per key, even if its condition is not met
				if s[k].met(one) {
					one = append(one, Setting{s[k].Key, s[k].draw(u)})
				}
			}
			if id := fmt.Sprint(one); !seen[id] {
				seen[id] = true
				all = append(all, one)
				break
			}
		}
	}
	return all
}

// grid returns the values of a key in a grid.
func (p *Param) grid() ([]string, error) {
	n := p.Steps
	switch {
	case p.Kind == choice:
		return p.Values, nil
	case n == 0 && p.Kind == integer && p.High-p.Low < MaxValues:
		n = int(p.High-p.Low) + 1
	case n == 0:
		return nil, fmt.Errorf("sweep: %s: a grid needs the number of values of a range: {%s: [%v, %v], steps: 5}", p.Key, p.Kind, p.Low, p.High)
	}
	var all []string
	for i := range n {
		at := float64(i) / float64(n-1)
		x := p.Low + float64(at*(p.High-p.Low))
		if p.Kind == log {
			x = math.Exp(math.Log(p.Low) + float64(at*(math.Log(p.High)-math.Log(p.Low))))
		}
		if text := p.text(x); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all, nil
}

// Grid returns every combination of values.
func (s Space) Grid() ([][]Setting, error) {
	all := [][]Setting{nil}
	for i := range s {
		values, err := s[i].grid()
		if err != nil {
			return nil, err
		}
		var next [][]Setting
		for _, before := range all {
			if !s[i].met(before) {
				next = append(next, before)
				continue
			}
			for _, v := range values {
				next = append(next, append(slices.Clip(before), Setting{s[i].Key, v}))
			}
			if len(next) > MaxTrials {
				return nil, fmt.Errorf("sweep: the grid has more than %d combinations: leave out values, or use -method random", MaxTrials)
			}
		}
		all = next
	}
	return all, nil
}
