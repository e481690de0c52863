package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// maxVector is the maximum number of elements of a sparse vector, which a file needs no space for.
const maxVector = 1 << 16

var errVector = errors.New("a vector whose type, size, indices and values do not fit")

// appendVector appends the elements of the next vector of Spark. Null has no type.
func (c *column) appendVector(dst []byte) (_ []byte, err error) {
	c.row = c.row[:0]
	for i := range c.parts {
		if c.row, err = c.parts[i].append(c.row); err != nil {
			return dst, err
		}
	}
	if c.members == nil {
		c.members = make([]value.List, len(c.parts))
	}
	if err := Decode(c.row, c.members); err != nil {
		return dst, err
	}
	kind, size, indices, values := &c.members[0], &c.members[1], &c.members[2], &c.members[3]
	if kind.Len() == 0 {
		return append(dst, byte(value.None)), nil
	}
	if kind.Kind != value.Int || values.Places() != values.Len() || values.Len() > 0 && values.Kind != value.Float64 {
		return dst, errVector
	}
	reals := values.Reals[:values.Len()]
	if kind.Ints[0] == 0 {
		if reals, err = dense(size, indices, reals); err != nil {
			return dst, err
		}
	}
	if len(reals) == 0 {
		return append(dst, byte(value.None)), nil
	}
	dst = binary.AppendUvarint(append(dst, byte(value.Float64)), uint64(len(reals)))
	for _, x := range reals {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
	}
	return dst, nil
}

// dense returns all elements of a sparse vector.
func dense(size, indices *value.List, values []float64) ([]float64, error) {
	if size.Kind != value.Int || size.Len() != 1 || indices.Len() != len(values) || indices.Len() > 0 && indices.Kind != value.Int {
		return nil, errVector
	}
	n := size.Ints[0]
	if n < 0 || n > maxVector {
		return nil, fmt.Errorf("a sparse vector of %d elements, at most %d are possible; write the indices and values that are not 0 as two lists", n, maxVector)
	}
	all := make([]float64, n)
	for i, x := range values {
		at := indices.Ints[i]
		if at < 0 || at >= n {
			return nil, errVector
		}
		all[at] = x
	}
	return all, nil
}
