// Package arrays reads named arrays from the files of other programs: safetensors, also sharded,
// .npy, .npz, state dicts of PyTorch, checkpoints of TensorFlow, and Parquet with a value and a vector in
// each row.
//
// Files are untrusted: sizes are compared with the file before memory is allocated, and no code of a
// file is executed. An array is read a few rows at a time, whatever its size.
package arrays

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// Limits of the headers of files.
const (
	maxArrays = 1 << 16
	maxDims   = 8
	maxHeader = 64 << 20
	maxName   = 1 << 10
	maxFiles  = 4096 // of a folder
)

// Array is a named array of numbers.
type Array struct {
	Name    string
	Shape   []int
	File    string   // base name of its file
	Values  []string // by row, of a file that names the value of each row; nil: the rows have only numbers
	kind    kind
	parts   []part
	sharded bool // its parts are in several files
}

// part is a box of an array, stored in one file.
type part struct {
	from    io.ReaderAt
	at      int64   // of its first element, in bytes
	origin  []int   // its place in the array
	shape   []int   // its size
	strides []int64 // in elements, by dimension
	big     bool    // big-endian
}

// kind is the type of elements.
type kind struct {
	name  string
	size  int
	float func(b []byte) float64
	whole bool // an integer
}

var le = binary.LittleEndian

func half(x uint16) float64 {
	sign, exp, frac := x>>15, int(x>>10&31), float64(x&1023)
	v := 0.0
	switch {
	case exp == 31 && frac != 0:
		v = math.NaN()
	case exp == 31:
		v = math.Inf(1)
	case exp == 0:
		v = math.Ldexp(frac, -24)
	default:
		v = math.Ldexp(1024+frac, exp-25)
	}
	if sign == 1 {
		return -v
	}
	return v
}

// kinds are the types that can be read, with the names of safetensors.
var kinds = []kind{
	{"F64", 8, func(b []byte) float64 { return math.Float64frombits(le.Uint64(b)) }, false},
	{"F32", 4, func(b []byte) float64 { return float64(math.Float32frombits(le.Uint32(b))) }, false},
	{"F16", 2, func(b []byte) float64 { return half(le.Uint16(b)) }, false},
	{"BF16", 2, func(b []byte) float64 { return float64(math.Float32frombits(uint32(le.Uint16(b)) << 16)) }, false},
	{"I64", 8, func(b []byte) float64 { return float64(int64(le.Uint64(b))) }, true},
	{"I32", 4, func(b []byte) float64 { return float64(int32(le.Uint32(b))) }, true},
	{"I16", 2, func(b []byte) float64 { return float64(int16(le.Uint16(b))) }, true},
	{"I8", 1, func(b []byte) float64 { return float64(int8(b[0])) }, true},
	{"U64", 8, func(b []byte) float64 { return float64(le.Uint64(b)) }, true},
	{"U32", 4, func(b []byte) float64 { return float64(le.Uint32(b)) }, true},
	{"U16", 2, func(b []byte) float64 { return float64(le.Uint16(b)) }, true},
	{"U8", 1, func(b []byte) float64 { return float64(b[0]) }, true},
	{"BOOL", 1, func(b []byte) float64 { return float64(b[0]) }, true},
}

func kindNamed(name string) (kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// elements returns the number of elements of a shape. It fails above 2⁴⁸.
func elements(shape []int) (int64, error) {
	n := int64(1)
	if len(shape) > maxDims {
		return 0, fmt.Errorf("%d dimensions, at most %d are possible", len(shape), maxDims)
	}
	for _, d := range shape {
		if d < 0 || d != 0 && n > (1<<48)/int64(d) {
			return 0, fmt.Errorf("shape %v is not possible", shape)
		}
		n *= int64(d)
	}
	return n, nil
}

// dense returns the strides of a contiguous array in row-major order, or in column-major order.
func dense(shape []int, columns bool) []int64 {
	strides, n := make([]int64, len(shape)), int64(1)
	for i := range shape {
		at := len(shape) - 1 - i
		if columns {
			at = i
		}
		strides[at] = n
		n *= int64(max(1, shape[at]))
	}
	return strides
}

// reaches returns the number of elements from the first to behind the last of a part.
func (p *part) reaches() (int64, error) {
	if n, err := elements(p.shape); n == 0 || err != nil {
		return 0, err
	}
	last := int64(0)
	for i, d := range p.shape {
		if s := p.strides[i]; s < 0 || d > 1 && s > (1<<48)/int64(d) {
			return 0, fmt.Errorf("strides %v of shape %v are not possible", p.strides, p.shape)
		}
		last += int64(d-1) * p.strides[i]
	}
	return last + 1, nil
}

// Rows returns the size of the first dimension; 1 for a number.
func (a *Array) Rows() int {
	if len(a.Shape) == 0 {
		return 1
	}
	return a.Shape[0]
}

// Width returns the number of elements of a row.
func (a *Array) Width() int {
	n := 1
	for _, d := range a.Shape[min(1, len(a.Shape)):] {
		n *= d
	}
	return n
}

// Type returns the type of the elements, as safetensors names it.
func (a *Array) Type() string { return a.kind.name }

// Whole reports whether the elements are integers.
func (a *Array) Whole() bool { return a.kind.whole }

// maxStretch is the number of bytes that are read at a time for rows that are not contiguous.
const maxStretch = 1 << 26

// Read reads rows from first on into dst, whose length is a multiple of the width.
func (a *Array) Read(dst []float32, first int) error {
	return a.each(first, len(dst)/max(1, a.Width()), func(i int, b []byte) { dst[i] = float32(a.kind.float(b)) })
}

// Ints reads rows of integers.
func (a *Array) Ints(dst []uint64, first int) error {
	if !a.kind.whole {
		return fmt.Errorf("array %s has elements of type %s, not integers", a.Name, a.kind.name)
	}
	return a.each(first, len(dst)/max(1, a.Width()), func(i int, b []byte) {
		if a.kind.size == 8 {
			dst[i] = le.Uint64(b)
		} else {
			dst[i] = uint64(int64(a.kind.float(b)))
		}
	})
}

// each calls f with every element of n rows, and its index from the first of them.
func (a *Array) each(first, n int, f func(i int, b []byte)) error {
	if first < 0 || n < 0 || first+n > a.Rows() {
		return fmt.Errorf("array %s: rows %d to %d of %d", a.Name, first, first+n, a.Rows())
	}
	shape := a.Shape
	if len(shape) == 0 {
		shape = []int{1}
	}
	steps := dense(shape, false)
	for i := range a.parts {
		p := &a.parts[i]
		lo, hi := first, first+n
		q := *p
		if len(p.shape) == 0 {
			q.shape, q.strides, q.origin = []int{1}, []int64{1}, []int{0}
		}
		lo, hi = max(lo, q.origin[0]), min(hi, q.origin[0]+q.shape[0])
		if lo >= hi {
			continue
		}
		if err := q.rows(lo-q.origin[0], hi-q.origin[0], a.kind.size, func(index []int, b []byte) {
			at := int64(0)
			for d, x := range index {
				at += int64(x+q.origin[d]) * steps[d]
			}
			f(int(at-int64(first)*steps[0]), b)
		}); err != nil {
			return fmt.Errorf("array %s: %w", a.Name, err)
		}
	}
	return nil
}

// rows calls f with the elements of rows lo to hi of a part, and their indexes.
func (p *part) rows(lo, hi, size int, f func(index []int, b []byte)) error {
	one := part{shape: slices.Clone(p.shape), strides: p.strides}
	for step := max(1, hi-lo); lo < hi; lo += step {
		span := int64(0)
		for step = min(step, hi-lo); ; step = (step + 1) / 2 { // as many rows as fit
			one.shape[0] = step
			n, err := one.reaches()
			if err != nil {
				return err
			}
			if span = n * int64(size); span <= maxStretch || step == 1 {
				break
			}
		}
		if span > 1<<32 {
			return fmt.Errorf("its rows are stretched over %d bytes of the file: store it contiguously", span)
		}
		buf := make([]byte, span)
		if err := readAt(p.from, buf, p.at+int64(lo)*p.strides[0]*int64(size)); err != nil {
			return err
		}
		if p.big {
			for b := buf; len(b) >= size; b = b[size:] {
				slices.Reverse(b[:size])
			}
		}
		index := make([]int, len(one.shape))
		for more := span > 0; more; more = next(index, one.shape) {
			at := int64(0)
			for d, x := range index {
				at += int64(x) * p.strides[d]
			}
			index[0] += lo
			f(index, buf[at*int64(size):])
			index[0] -= lo
		}
	}
	return nil
}

// next advances an index in row-major order; false behind the last.
func next(index, shape []int) bool {
	for d := len(index) - 1; d >= 0; d-- {
		if index[d]++; index[d] < shape[d] {
			return true
		}
		index[d] = 0
	}
	return false
}

func readAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("offset %d: %d of %d bytes: %w", at, n, len(b), err)
}
