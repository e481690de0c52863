package encode

import (
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// Exchanger copies rows of batches with the values of one field from other rows, for
// permutation importance. It belongs to one goroutine.
type Exchanger struct {
	Fields []ExchangedField // in the order of the features

	sparse, dense int // number of columns; crosses follow the sparse features
	coder         coder
}

// ExchangedField is a field with the inputs made from it.
type ExchangedField struct {
	Field    string
	Features []string
	sparse   []bool // by sparse feature
	dense    []bool // by dense input
	crosses  []bool // by cross: one of its features is made from the field
}

// Exchanger returns an Exchanger for batches of e.
func (e *Encoder) Exchanger() *Exchanger {
	x := &Exchanger{coder: coder{buf: make([]byte, 8*schema.MaxOf), digits: make([]int, schema.MaxOf)}}
	place, fields := map[string]int{}, []string{}
	var sparse, dense []string // field of each column
	for _, f := range e.schema.Features {
		if at := slices.Index(fields, f.Field); at < 0 {
			fields = append(fields, f.Field)
			x.Fields = append(x.Fields, ExchangedField{Field: f.Field, Features: []string{f.Name}})
		} else {
			x.Fields[at].Features = append(x.Fields[at].Features, f.Name)
		}
		if c, _ := schema.EncodingOf(f.Encode); c.Sparse() {
			place[f.Name] = len(sparse)
			sparse = append(sparse, f.Field)
		} else {
			for range f.Width() {
				dense = append(dense, f.Field)
			}
		}
	}
	for _, c := range e.schema.Crosses {
		code := crossCode{name: c.Name, buckets: c.Buckets}
		for _, name := range c.Of {
			code.of = append(code.of, place[name])
		}
		x.coder.crosses = append(x.coder.crosses, code)
	}
	x.sparse, x.dense = len(sparse), len(dense)
	for i := range x.Fields {
		f := &x.Fields[i]
		for _, of := range sparse {
			f.sparse = append(f.sparse, of == f.Field)
		}
		for _, of := range dense {
			f.dense = append(f.dense, of == f.Field)
		}
		for _, c := range x.coder.crosses {
			f.crosses = append(f.crosses, slices.ContainsFunc(c.of, func(at int) bool { return f.sparse[at] }))
		}
	}
	return x
}

// Rows copies rows of a batch into to. If field is not negative, the inputs made from it
// are copied from the rows donors of pool instead, and its crosses are computed again. The
// copy is valid until the next call with the same to. A row whose cross would have too
// many combinations keeps the original cross.
func (x *Exchanger) Rows(to, from *Batch, rows []int32, field int, pool *Batch, donors []int32) {
	to.Rows = len(rows)
	to.Label, to.RowID, to.Dense = to.Label[:0], to.RowID[:0], to.Dense[:0]
	to.Weight, to.Labels = nil, to.Labels[:0]
	other := &ExchangedField{sparse: make([]bool, x.sparse), dense: make([]bool, x.dense), crosses: make([]bool, len(x.coder.crosses))}
	if field >= 0 {
		other = &x.Fields[field]
	}
	for k, r := range rows {
		to.Label, to.RowID = append(to.Label, from.Label[r]), append(to.RowID, from.RowID[r])
		if from.Weight != nil {
			to.Weight = append(to.Weight, from.Weight[r])
		}
		for c := range x.dense {
			b, at := from, r
			if other.dense[c] {
				b, at = pool, donors[k]
			}
			to.Dense = append(to.Dense, b.Dense[int(at)*x.dense+c])
		}
	}
	for _, all := range from.Labels {
		var some []float32
		for _, r := range rows {
			some = append(some, all[r])
		}
		to.Labels = append(to.Labels, some)
	}
	if len(to.Sparse) != len(from.Sparse) {
		to.Sparse = make([]Jagged, len(from.Sparse))
	}
	for f := range to.Sparse {
		j := &to.Sparse[f]
		j.Values, j.Weights, j.Offsets = j.Values[:0], j.Weights[:0], append(j.Offsets[:0], 0)
		for k, r := range rows {
			b, at := from, int(r)
			if f < x.sparse && other.sparse[f] {
				b, at = pool, int(donors[k])
			}
			if c := f - x.sparse; c < 0 || !other.crosses[c] || !x.cross(to, c, k, j) {
				j.appendRow(&b.Sparse[f], at)
			}
			j.Offsets = append(j.Offsets, int32(len(j.Values)))
		}
		if len(j.Weights) == 0 {
			j.Weights = nil
		}
	}
}

// cross appends the keys of a cross of row k of to. It returns false if there are too
// many.
func (x *Exchanger) cross(to *Batch, c, k int, j *Jagged) bool {
	return x.coder.appendCross(&x.coder.crosses[c], to.Sparse, k, j)
}

func (j *Jagged) appendRow(from *Jagged, row int) {
	lo, hi := int(from.Offsets[row]), from.end(row)
	j.Values = append(j.Values, from.Values[lo:hi]...)
	if len(from.Weights) > 0 {
		j.Weights = append(j.Weights, from.Weights[lo:hi]...)
	}
}

// Has reports whether a row has a value of the field. It returns true if only dense inputs
// are made from the field.
func (x *Exchanger) Has(b *Batch, field, row int) bool {
	has, only := false, true
	for f, of := range x.Fields[field].sparse {
		if of {
			only = false
			j := &b.Sparse[f]
			has = has || slices.ContainsFunc(j.Values[j.Offsets[row]:j.end(row)], func(key uint64) bool { return key != KeyMissing })
		}
	}
	return has || only
}

// Append adds the rows of a batch made by Rows, with the same columns.
func (b *Batch) Append(more *Batch) {
	b.Rows += more.Rows
	b.Dense = append(b.Dense, more.Dense...)
	if len(b.Sparse) == 0 {
		b.Sparse = make([]Jagged, len(more.Sparse))
	}
	for f := range b.Sparse {
		j, m := &b.Sparse[f], &more.Sparse[f]
		if len(j.Offsets) == 0 {
			j.Offsets = append(j.Offsets, 0)
		}
		for _, end := range m.Offsets[1:] {
			j.Offsets = append(j.Offsets, int32(len(j.Values))+end)
		}
		j.Values, j.Weights = append(j.Values, m.Values...), append(j.Weights, m.Weights...)
	}
}
