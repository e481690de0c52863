package encode

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Fields holds the values of the fields of some rows. Fields are numbered as in the
// decoder of InputCoder.
type Fields interface {
	// IsShared reports whether all rows have the values of row 0.
	IsShared(field int) bool
	// List sets l to the values of row i. l may refer to read-only memory, valid until the
	// next Encode.
	List(field, i int, l *value.List)
	// Single returns the values of a field with one value per row, or with one value that
	// all rows share. It returns nil for any other field.
	Single(field int) *value.List
}

// ColumnCoder encodes rows feature by feature; a value that all rows share is encoded
// once. Its batches equal those that its RowCoder makes of the same rows. It belongs to
// one goroutine, and so does its RowCoder.
type ColumnCoder struct {
	*coder
	deriver *deriver     // nil if every column is a field
	fields  Fields       // of the current rows
	field   []int        // by column: its field; −1 if it is derived or the label
	lists   []value.List // of the columns
	derived []value.List // the fields that columns are derived from
	shared  []bool       // by sparse feature: all rows have the keys of row 0
	at      int          // the current row
}

// maxShared is the maximum number of keys of one feature that are repeated for all rows.
const maxShared = 1 << 24

// ByColumn returns a ColumnCoder of a RowCoder made by InputCoder.
func (r *RowCoder) ByColumn() *ColumnCoder {
	p := r.parser
	x := &ColumnCoder{coder: r.coder, lists: make([]value.List, len(p.columns)), shared: make([]bool, len(r.coder.sparse))}
	d, derives := p.decoder.(*deriver)
	if derives {
		x.deriver, x.derived = d, make([]value.List, len(d.fields))
	}
	for i := range p.columns {
		field := i
		if derives {
			field = d.copied[i]
		}
		x.field = append(x.field, max(field, 0)-1) // the decoder's fields begin after the label
	}
	return x
}

// Encode makes a batch of rows. If one is faulty, row is its number.
func (x *ColumnCoder) Encode(b *Batch, from Fields, rows int) (row int, fl *record.Flaw) {
	x.fields = from
	p := x.parser
	p.lists, x.lists = x.lists, p.lists // the parser's lists must not become memory of the fields
	defer func() { p.lists, x.lists, p.rows = x.lists, p.lists, 1 }()
	b.reset(rows, x.shape.dense, x.shape.sparse)
	if rows == 0 {
		return 0, nil
	}
	for i := range x.coder.sparse {
		if fl := x.encodeKeys(b, i, rows); fl != nil {
			return x.at, fl
		}
	}
	for i := range x.crosses {
		if fl := x.crossed(b, i, rows); fl != nil {
			return x.at, fl
		}
	}
	b.Dense = extend(b.Dense, rows*len(x.coder.dense))
	for i := 0; i < len(x.coder.dense); i += x.coder.dense[i].Width() {
		if x.coder.dense[i].encoding == schema.Rate {
			continue
		}
		if fl := x.numbers(b.Dense[i:], i, rows); fl != nil {
			return x.at, fl
		}
	}
	b.Label = extend(b.Label, rows)
	for i := range b.Label {
		b.Label[i] = 1 // as in records that a RowCoder of inputs reads
	}
	b.Rows = rows
	x.shape.rate(b)
	return 0, nil
}

// isShared reports whether a column has one value for all rows.
func (x *ColumnCoder) isShared(column int) bool {
	if k := x.field[column]; k >= 0 {
		return x.fields.IsShared(k)
	}
	for _, k := range x.derivedAt(column).field {
		if !x.fields.IsShared(k - 1) {
			return false
		}
	}
	return true
}

// derivedAt returns the expression of a column.
func (x *ColumnCoder) derivedAt(column int) *derived {
	for i := range x.deriver.values {
		if v := &x.deriver.values[i]; v.column == column {
			return v
		}
	}
	panic(fmt.Sprintf("encode: column %d is neither a field nor derived", column))
}

// load parses the value of a column in a row.
func (x *ColumnCoder) load(column, row int) *record.Flaw {
	if k := x.field[column]; k >= 0 {
		x.parser.lists[column].Reset()
		x.fields.List(k, row, &x.parser.lists[column])
		return x.parser.parseColumn(column)
	}
	d, v := x.deriver, x.derivedAt(column)
	d.lists, x.derived = x.derived, d.lists
	defer func() { d.lists, x.derived = x.derived, d.lists }()
	for _, k := range v.field {
		d.lists[k].Reset()
		x.fields.List(k-1, row, &d.lists[k])
	}
	if fl := d.compute(v, x.parser.lists); fl != nil {
		return fl
	}
	return x.parser.parseColumn(column)
}

// encodeKeys encodes a sparse feature.
func (x *ColumnCoder) encodeKeys(b *Batch, i, rows int) *record.Flaw {
	f, j, n := &x.coder.sparse[i], &b.Sparse[i], rows
	if x.shared[i] = x.isShared(f.column) && (f.weights == 0 || x.isShared(f.weights)); x.shared[i] {
		n = 1
	}
	x.parser.rows = int64(rows / n)
	if x.encodeSingles(f, j) {
		j.Values = repeat(j.Values, rows)
		j.Offsets = b.offsetSteps(rows)
		return nil
	}
	for x.at = range n {
		if fl := x.load(f.column, x.at); fl != nil {
			return fl
		}
		if f.weights != 0 {
			if fl := x.load(f.weights, x.at); fl != nil {
				return fl
			}
		}
		if fl := x.appendKeys(i, j); fl != nil {
			return fl
		}
		j.Offsets = append(j.Offsets, int32(len(j.Values)))
	}
	return x.finish(b, i, rows)
}

// encodeSingles encodes a feature with one value per row, with the results of load and
// appendKeys. It returns false, and encodes nothing, if it cannot.
func (x *ColumnCoder) encodeSingles(f *featureCode, to *Jagged) bool {
	k, p := x.field[f.column], x.parser
	if k < 0 || f.isList() {
		return false
	}
	l := x.fields.Single(k)
	if l == nil {
		return false
	}
	to.Values = extend(to.Values, l.Len())
	for i := range to.Values {
		key, ok := KeyMissing, true
		switch {
		case p.isMissing(l, i):
		case !p.numeric[f.column] && p.isInvalid(f.column, l, i):
		case f.encoding.Number():
			v, why := numberAt(l, i)
			key, ok = uint64(interval(f.limits, v)), why == ""
		case l.Kind == value.Int && f.encoding == schema.ID:
			key = uint64(l.Ints[i])
		default:
			text := p.textOf(l, i)
			key, ok = f.key(text)
			p.noteUndated(f, text)
			ok = ok && p.takeNotDate() == nil
		}
		if !ok {
			to.Values = to.Values[:0]
			return false
		}
		to.Values[i] = key
	}
	return true
}

// repeat extends a slice of one value to n copies of it.
func repeat[T any](values []T, n int) []T {
	if len(values) == 1 && n > 1 {
		values = extend(values, n-1)
		for i := range values {
			values[i] = values[0]
		}
	}
	return values
}

// crossed encodes a cross.
func (x *ColumnCoder) crossed(b *Batch, i, rows int) *record.Flaw {
	c, at, n := &x.crosses[i], len(x.coder.sparse)+i, 1
	for _, f := range c.of {
		if !x.shared[f] {
			n = rows
		}
	}
	j := &b.Sparse[at]
	for x.at = range n {
		if !x.appendCross(c, b.Sparse, x.at, j) {
			return x.tooMany(c)
		}
		j.Offsets = append(j.Offsets, int32(len(j.Values)))
	}
	return x.finish(b, at, rows)
}

// finish repeats the keys of row 0 if there are no others. Features with one key per row
// share the offsets.
func (x *ColumnCoder) finish(b *Batch, i, rows int) *record.Flaw {
	j := &b.Sparse[i]
	if k, weights := len(j.Values), len(j.Weights); len(j.Offsets) == 2 && rows > 1 {
		if k > maxShared/rows {
			return &record.Flaw{Field: -1, Want: fmt.Sprintf("%d rows share %d keys of one feature, more than %d in all: send fewer rows or values", rows, k, maxShared)}
		}
		for range rows - 1 {
			j.Values = append(j.Values, j.Values[:k]...)
			j.Weights = append(j.Weights, j.Weights[:weights]...)
			j.Offsets = append(j.Offsets, int32(len(j.Values)))
		}
	}
	b.own[i] = j.Offsets // may have grown
	single := len(j.Weights) == 0 && len(j.Values) == rows
	for t, at := range j.Offsets {
		single = single && int(at) == t
	}
	if single {
		j.Offsets = b.offsetSteps(rows)
	}
	return nil
}

// numbers encodes the feature of dense input i into its columns of to.
func (x *ColumnCoder) numbers(to []float32, i, rows int) *record.Flaw {
	d, f := len(x.coder.dense), &x.coder.dense[i]
	all := x.coder.dense[i : i+f.Width()]
	if x.singleNumbers(to, f, rows) {
		return nil
	}
	n := rows
	if x.isShared(f.column) {
		n = 1
	}
	x.parser.rows = int64(rows / n)
	for x.at = range n {
		if fl := x.load(f.column, x.at); fl != nil {
			return fl
		}
		for k := range all {
			to[x.at*d+k] = all[k].number(x.parser)
		}
		if fl := x.parser.takeNotDate(); fl != nil {
			return fl
		}
	}
	for r := n; r < rows; r++ {
		copy(to[r*d:r*d+len(all)], to)
	}
	return nil
}

// singleNumbers encodes a dense input with one value per row, with the results of load and
// number. It returns false if it cannot.
func (x *ColumnCoder) singleNumbers(to []float32, f *featureCode, rows int) bool {
	k, d := x.field[f.column], len(x.coder.dense)
	if k < 0 || f.encoding == schema.Age || f.encoding == schema.Vector {
		return false
	}
	l := x.fields.Single(k)
	if l == nil {
		return false
	}
	n := l.Len()
	for i := range n {
		y := float32(0)
		if !x.parser.isMissing(l, i) {
			v, why := numberAt(l, i)
			if why != "" {
				return false
			}
			y = f.scaled(v)
		}
		to[i*d] = y
	}
	for i := n; i < rows; i++ {
		to[i*d] = to[0]
	}
	return true
}
