package body

import (
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/serve/rows"
	"github.com/wdlrun/wdlrun/internal/serve/tfs"
)

// Request is a decoded body.
type Request struct {
	Signature string
	Columns   []rows.Column // one row per instance; for inputs, one row may count for all
	Instances bool          // the body has "instances", so the response is row by row
	Rows      int           // of instances or examples
	Ignored   []string      // names of the body's own members without a meaning, at most 100
	// Unnamed is set if instances or inputs are values without a name. Then there is one
	// column, with an empty name.
	Unnamed bool
}

// reader parses a body.
type reader struct {
	scanner
	limits tfs.Limits
	to     Request
	place  map[string]int
	cells  int   // number of rows over all columns
	lists  int   // number of lists of objects
	listOf []int // by column: the last list of objects with a member of this name
}

func newReader(b []byte, limits tfs.Limits) *reader {
	return &reader{scanner: scanner{b: b, left: limits.Values}, limits: limits, place: map[string]int{}}
}

// end fails unless the whole text has been read.
func (r *reader) end() error {
	if r.err == nil && r.peek() != 0 {
		r.fail("there is more after the object")
	}
	return r.err
}

// grow extends a column to n rows; new ones are missing values.
func (r *reader) grow(c *rows.Column, n int) bool {
	more := n - len(c.Rows)
	if more <= 0 {
		return true
	}
	if r.cells += more; r.cells > r.limits.Values {
		r.fail("%d rows of %d inputs are too many values; send fewer rows", r.to.Rows, len(r.to.Columns))
		return false
	}
	c.Rows = slices.Grow(c.Rows, more)[:n]
	return true
}

// Predict reads the body of :predict.
func Predict(b []byte, limits tfs.Limits) (Request, error) {
	r := newReader(b, limits)
	given := 0
	r.members(func(name string) {
		switch name {
		case "signature_name":
			r.to.Signature = string(r.text())
		case "instances":
			given++
			r.to.Instances = true
			if r.peek() == '{' {
				r.fail(`"instances" is a list of rows, such as [{"age": 38}]; columns are in "inputs"`)
			}
			r.elements(r.instance)
		case "inputs":
			given++
			r.inputs()
		default:
			r.ignore(name)
		}
	})
	if given != 1 {
		r.fail(`a predict request has one of "instances" and "inputs"`)
	}
	r.fillUp()
	return r.to, r.end()
}

// Examples reads the body of :classify and :regress.
func Examples(b []byte, limits tfs.Limits) (Request, error) {
	r := newReader(b, limits)
	var context []rows.Column
	given := false
	r.members(func(name string) {
		switch name {
		case "signature_name":
			r.to.Signature = string(r.text())
		case "context":
			r.within("", maxDeep, func(name string) {
				context = append(context, rows.Column{Name: name, Rows: make([]value.List, 1)})
				r.cell(name, &context[len(context)-1].Rows[0])
			})
		case "examples":
			given = true
			if r.peek() == '{' {
				r.fail(`"examples" is a list of rows, such as [{"age": 38}]`)
			}
			r.elements(r.object)
		default:
			r.ignore(name)
		}
	})
	if !given {
		r.fail(`a request to classify or regress has "examples"`)
	}
	for _, c := range context {
		if r.err != nil {
			break
		}
		col := r.column(c.Name)
		r.grow(col, r.to.Rows)
		for i := range col.Rows {
			if col.Rows[i].Kind == value.None {
				col.Rows[i] = c.Rows[0]
			}
		}
	}
	r.fillUp()
	return r.to, r.end()
}

// maxIgnored limits the names of members without a meaning.
const maxIgnored = 100

// ignore skips the value of a member without a meaning.
func (r *reader) ignore(name string) {
	if len(r.to.Ignored) < maxIgnored {
		r.to.Ignored = append(r.to.Ignored, name)
	}
	r.skip(maxDeep)
}

// column returns the column of a name, with at most as many rows as have been read.
func (r *reader) column(name string) *rows.Column {
	i, ok := r.place[name]
	if !ok {
		if i = len(r.to.Columns); i >= r.limits.Inputs {
			r.fail("more than %d inputs", r.limits.Inputs)
			return &rows.Column{}
		}
		r.place[name] = i
		r.to.Columns = append(r.to.Columns, rows.Column{Name: name})
	}
	return &r.to.Columns[i]
}

// nextRow counts a row.
func (r *reader) nextRow() bool {
	if r.to.Rows++; r.to.Rows > r.limits.Rows {
		r.fail("more than %d rows", r.limits.Rows)
		return false
	}
	return true
}

// object parses a row that is an object: name to value.
func (r *reader) object() {
	if r.nextRow() {
		r.within("", maxDeep, r.named)
	}
}

// named parses the values of an input in the current row.
func (r *reader) named(name string) {
	switch {
	case r.listsObjects():
		r.objects(name)
	case r.listsLists() && !r.isOne():
		r.refuse(r.column(name), "is a list of lists")
		r.skip(maxDeep)
	default:
		r.cell(name, r.last(r.column(name)))
	}
}

// listsLists reports whether a list begins with a list.
func (s scanner) listsLists() bool {
	if s.peek() != '[' {
		return false
	}
	s.i++
	return s.peek() == '['
}

// listsObjects reports whether a list begins with an object that is not {"b64": …}, or with nulls
// and such an object.
func (s scanner) listsObjects() bool {
	if s.peek() != '[' {
		return false
	}
	for s.i++; s.peek() == 'n'; s.i++ {
		if !s.word("null") || s.peek() != ',' {
			return false
		}
	}
	return s.peek() == '{' && !s.isBase64()
}

// refuse marks a column that cannot be an input, which is a fault only if the model has an input of
// that name.
func (r *reader) refuse(c *rows.Column, is string) {
	if r.last(c); c.Fault == nil {
		c.Fault = &rows.Fault{Input: c.Name, Row: r.to.Rows - 1, Why: is + "; an input is a number, a string, a list of these, or {\"b64\": \"…\"}"}
	}
}

// objects reads a list of objects. As in training data, each of their members is an input, a list
// with a place for each object: a null where it has no value.
func (r *reader) objects(name string) {
	whole := r.column(name)
	r.refuse(whole, "is a list of objects, whose members are inputs: "+name+".MEMBER")
	whole.Parts = true
	r.lists++
	var in []int // columns
	places, mixed := 0, false
	r.elements(func() {
		switch {
		case r.peek() == '{':
			r.within(name+".", maxDeep-1, func(member string) { r.member(member, &in, places) })
		case !r.word("null"):
			mixed = true
			r.skip(maxDeep)
		}
		places++
		for _, i := range in {
			if l := r.current(i); l.Places() < places {
				r.null(l)
			}
		}
	})
	for _, i := range in {
		if mixed {
			r.refuse(&r.to.Columns[i], "is in a list of objects and other values")
		}
	}
}

// current returns the list of the current row of a column that has it.
func (r *reader) current(column int) *value.List {
	if r.err != nil {
		return new(value.List)
	}
	of := r.to.Columns[column].Rows
	return &of[len(of)-1]
}

// null appends a null, which counts as a value.
func (r *reader) null(l *value.List) {
	if r.left--; r.left < 0 {
		r.fail("too many values; send fewer rows")
		return
	}
	l.AddNull()
}

// member reads a member of an object in a list, after a number of other objects.
func (r *reader) member(name string, in *[]int, places int) {
	c := r.column(name)
	if r.err != nil {
		return
	}
	i := r.place[name]
	r.listOf = append(r.listOf, make([]int, max(i+1-len(r.listOf), 0))...)
	if r.listOf[i] != r.lists {
		r.listOf[i] = r.lists
		*in = append(*in, i)
		l := r.last(c)
		for range places {
			r.null(l)
		}
	}
	switch l := r.current(i); {
	case r.err != nil:
	case l.Places() > places:
		r.refuse(c, "occurs twice in an object")
		r.skip(maxDeep)
	case r.peek() == '[':
		r.refuse(c, "is a list in a list of objects")
		r.skip(maxDeep)
	default:
		r.single(l)
	}
}

// within calls f with the name of each input in an object; f reads the value. As in training
// data, the members of an object in it are inputs with its name, a point and theirs.
func (r *reader) within(path string, deep int, f func(name string)) {
	switch {
	case deep == 0:
		r.fail("more than %d levels", maxDeep)
	case len(path) > maxPath:
		r.fail("the name of an object has more than %d bytes", maxPath)
	}
	r.members(func(name string) {
		name = path + name
		if r.peek() == '{' && !r.isBase64() {
			r.within(name+".", deep-1, f)
			return
		}
		f(name)
	})
}

// last returns the list of the current row. Earlier rows without the column are missing
// values.
func (r *reader) last(c *rows.Column) *value.List {
	if !r.grow(c, r.to.Rows) {
		return new(value.List)
	}
	l := &c.Rows[len(c.Rows)-1]
	l.Reset()
	return l
}

// instance parses a row: an object, or a value of the only input.
func (r *reader) instance() {
	if r.peek() == '{' && !r.isBase64() {
		r.object()
		return
	}
	if r.nextRow() {
		r.to.Unnamed = true
		r.cell("", r.last(r.column("")))
	}
}

// inputs parses columns: an object of them, or the only one.
func (r *reader) inputs() {
	if r.peek() == '{' && !r.isBase64() {
		r.members(func(name string) { r.whole(r.column(name)) })
		return
	}
	r.to.Unnamed = true
	r.whole(r.column(""))
}

// whole parses a column: a list of rows, or one value for all rows.
func (r *reader) whole(c *rows.Column) {
	c.Rows = nil
	row := func() {
		if len(c.Rows) == r.limits.Rows {
			r.fail("more than %d rows", r.limits.Rows)
		}
		if r.err != nil || !r.grow(c, len(c.Rows)+1) {
			return
		}
		r.cell(c.Name, &c.Rows[len(c.Rows)-1])
	}
	if r.peek() == '[' {
		r.elements(row)
	} else {
		row()
	}
}

// fillUp extends the columns of instances and examples to the same length.
func (r *reader) fillUp() {
	if r.err != nil || r.to.Rows == 0 {
		return
	}
	for i := range r.to.Columns {
		r.grow(&r.to.Columns[i], r.to.Rows)
	}
}
