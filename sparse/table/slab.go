package table

import "math/bits"

// slabs holds the records of one table. Rows are numbered from 1 and never
// move: growing adds a slab.
type slabs struct {
	width int  // floats of a record
	shift uint // log2 of the rows of a slab
	full  [][]float32
	n     int // rows in use
}

const (
	slabBytes = 64 << 10
	maxRows   = 1<<32 - 2 // of one table on one rank: a row number is a uint32
)

func newSlabs(width int) slabs {
	rows := max(1, slabBytes/(4*width))
	return slabs{width: width, shift: uint(bits.Len(uint(rows)) - 1)}
}

// row returns the record of row r, of 1 to n.
func (s *slabs) row(r Row) []float32 {
	i := uint(r - 1)
	at := int(i&(1<<s.shift-1)) * s.width
	return s.full[i>>s.shift][at : at+s.width : at+s.width]
}

// add returns the number of a new row; the caller has checked maxRows and fills
// the record.
func (s *slabs) add() Row {
	if s.n>>s.shift == len(s.full) {
		s.full = append(s.full, make([]float32, s.width<<s.shift))
	}
	s.n++
	return Row(s.n)
}

func (s *slabs) bytes() int64 {
	return int64(len(s.full)) * int64(s.width) << s.shift * 4
}
