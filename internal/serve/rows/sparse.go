package rows

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/serve/tfs"
)

// The tensors of a sparse input NAME, as TensorFlow's exporters name them: NAME/indices has a row and
// a column for each value, NAME/values the values, NAME/shape rows and columns.
const (
	sparseIndices = iota
	sparseValues
	sparseShape
	sparseParts
)

var sparseNames = [sparseParts]string{"indices", "values", "shape"}

// sparse holds the values of a sparse input by row.
type sparse struct {
	values  value.List // of all rows
	offsets []int32    // of the values of each row; one more than rows
	rows    int
}

// sparsePart returns the field and the part that a tensor of a sparse input has; −1 if it is not one.
func (c *Coder) sparsePart(name []byte) (field string, part int) {
	at := strings.LastIndexByte(string(name), '/')
	if at < 0 {
		return "", -1
	}
	field = string(name[:at])
	if _, ok := c.place[field]; !ok {
		return "", -1
	}
	return field, slices.Index(sparseNames[:], string(name[at+1:]))
}

// sparseField reads a sparse input.
func (c *Coder) sparseField(field string, of *[sparseParts]*tfs.Tensor, rows *int, by *[]byte) error {
	fault := func(format string, args ...any) error {
		return &Fault{Input: field, Row: -1, Why: fmt.Sprintf(format, args...)}
	}
	k := c.place[field]
	if c.tensors.of[k].Tensor != nil {
		return fault("is given both as a tensor and as a sparse one")
	}
	for i, t := range of {
		if t == nil {
			return fault("has no tensor %s/%s; a sparse input has indices, values and shape", field, sparseNames[i])
		}
	}
	x, why := newSparse(of)
	if why != "" {
		return fault("%s", why)
	}
	if err := sameRows(rows, by, []byte(field), x.rows); err != nil {
		return err
	}
	c.tensors.of[k] = tensor{sparse: x}
	return nil
}

// newSparse sorts the values by row.
func newSparse(of *[sparseParts]*tfs.Tensor) (x *sparse, why string) {
	indices, shape, values := of[sparseIndices].Ints(), of[sparseShape].Ints(), of[sparseValues]
	n := values.Elements()
	if len(shape) != 2 {
		return nil, fmt.Sprintf("has a shape of %d numbers; there are rows and columns, as DT_INT64", len(shape))
	}
	if len(indices) != 2*n {
		return nil, fmt.Sprintf("has %d indices for %d values; each value has a row and a column, as DT_INT64", len(indices), n)
	}
	if shape[0] < 0 || shape[0] > tfs.MaxRows {
		return nil, fmt.Sprintf("has %d rows, at most %d are allowed", shape[0], tfs.MaxRows)
	}
	x = &sparse{rows: int(shape[0]), offsets: make([]int32, shape[0]+1)}
	order := make([]int, n)
	for i := range order {
		order[i] = i
		if row := indices[2*i]; row < 0 || row >= shape[0] || indices[2*i+1] < 0 || indices[2*i+1] >= shape[1] {
			return nil, fmt.Sprintf("value %d has the index %v, outside the shape %v", i, indices[2*i:2*i+2], shape)
		}
		x.offsets[indices[2*i]+1]++
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return slices.Compare(indices[2*a:2*a+2], indices[2*b:2*b+2])
	})
	for i := range x.offsets[1:] {
		x.offsets[i+1] += x.offsets[i]
	}
	values.Sorted(order, &x.values)
	return x, ""
}

// list sets l to the values of a row.
func (x *sparse) list(row int, l *value.List) {
	if x.rows == 1 {
		row = 0
	}
	l.Reset()
	lo, hi := x.offsets[row], x.offsets[row+1]
	if lo == hi {
		return
	}
	switch l.Kind = x.values.Kind; l.Kind {
	case value.Text:
		l.Texts = x.values.Texts[lo:hi:hi]
	case value.Int:
		l.Ints = x.values.Ints[lo:hi:hi]
	default:
		l.Reals = x.values.Reals[lo:hi:hi]
	}
}

// missing returns how many of the rows have no value.
func (x *sparse) missing(rows int) (n int64) {
	for i := range x.rows {
		if x.offsets[i] == x.offsets[i+1] {
			n++
		}
	}
	if x.rows == 1 {
		n *= int64(rows)
	}
	return n
}
