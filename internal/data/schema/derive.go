package schema

import (
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/expr"
)

// NewDerived returns the column of a name and an expression.
func NewDerived(name, expression string) Derived { return Derived(name + " = " + expression) }

// derived returns the expression of a derived column. It returns false for any other name.
func (s Source) derived(name string) (*expr.Expr, bool) {
	for _, d := range s.Derive {
		if d.Name() == name {
			e, err := expr.Parse(d.Expression())
			return e, err == nil
		}
	}
	return nil, false
}

// WithDerived returns fields with the names of derived columns appended; nil if fields is
// nil.
func (s Source) WithDerived(fields []string) []string {
	if fields == nil || len(s.Derive) == 0 {
		return fields
	}
	all := slices.Clip(fields)
	for _, d := range s.Derive {
		all = append(all, d.Name())
	}
	return all
}

// For returns s with the derived columns among columns only.
func (s Source) For(columns []string) Source {
	s.Derive = slices.DeleteFunc(slices.Clone(s.Derive), func(d Derived) bool { return !slices.Contains(columns, d.Name()) })
	return s
}

// Inputs returns the fields of a record from which a column is computed, or the column itself if
// it is a field.
func (s Source) Inputs(column string) (fields []string) {
	e, ok := s.derived(column)
	if !ok {
		return []string{column}
	}
	for _, f := range e.Fields {
		fields = append(fields, f.Name)
	}
	return fields
}

// Reads returns the fields of a record that these columns, and Where, need, each once.
func (s Source) Reads(columns []string) (fields []string) {
	if len(s.Derive) == 0 && s.Where == "" {
		return columns
	}
	add := func(name string) {
		if !slices.Contains(fields, name) {
			fields = append(fields, name)
		}
	}
	for _, column := range columns {
		for _, name := range s.Inputs(column) {
			add(name)
		}
	}
	if e, err := expr.Parse(s.Where); err == nil {
		for _, f := range e.Fields {
			add(f.Name)
		}
	}
	return fields
}

// DeriveFaults calls bad with every fault of Derive and the conditions, with the keys derive.NAME,
// where, train_where and valid_where. fields are the fields of a record; nil if not known yet.
func (s Source) DeriveFaults(fields []string, bad func(key, why string)) {
	v := validator{}
	check := func(key, expression string) *expr.Expr {
		e, err := expr.Parse(expression)
		if err != nil {
			bad(key, err.Error())
			return nil
		}
		for _, f := range e.Fields {
			if fields != nil && !slices.Contains(fields, f.Name) {
				bad(key, fmt.Sprintf("at character %d: there is no field %q%s", f.At+1, f.Name, v.instead(f.Name, fields)))
			}
		}
		return e
	}
	names := map[string]bool{}
	for _, d := range s.Derive {
		name, key := d.Name(), "derive."+d.Name()
		switch {
		case name == "":
			bad("derive", "a column has no name")
		case names[name]:
			bad(key, "is given twice")
		case slices.Contains(fields, name):
			bad(key, "is the name of a field of the data; give the derived column another")
		}
		names[name] = true
		check(key, d.Expression())
	}
	for _, w := range []struct{ key, where string }{{"where", s.Where}, {"train_where", s.TrainWhere}, {"valid_where", s.ValidWhere}} {
		if w.where == "" {
			continue
		}
		if e := check(w.key, w.where); e != nil && !e.Condition {
			bad(w.key, fmt.Sprintf("%q is a number; a condition is needed, such as %s > 0", w.where, w.where))
		}
	}
}

// With returns a source whose records also meet a condition; "" is none.
func (s Source) With(where string) Source {
	s.Where = And(s.Where, where)
	return s
}

// And joins two conditions, of which each may be "".
func And(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return "(" + a + ") and (" + b + ")"
}
