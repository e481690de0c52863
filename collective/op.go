package collective

import (
	"fmt"
	"math"
	"reflect"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// Number is an element type of the collectives.
type Number interface{ raw.Number }

// Op is the operation by which a reduction combines two elements.
type Op uint8

// The operations of reductions.
const (
	Sum Op = iota
	Min
	Max

	// ExactSum is the sum of all ranks' elements, rounded once, to nearest even. It depends
	// only on the elements, not on their order or on the number or place of ranks. It moves
	// as many bytes as Sum and takes more time. On integers it equals Sum.
	ExactSum
	ops
)

func (op Op) String() string {
	switch op {
	case Sum:
		return "sum"
	case Min:
		return "min"
	case Max:
		return "max"
	case ExactSum:
		return "exact sum"
	}
	return fmt.Sprintf("operation %d", uint8(op))
}

// Type is the code of an element type in messages.
type Type uint8

// The element types. A named type other than BF16 has the code of its underlying type.
const (
	typeNone Type = iota
	Uint8
	Uint16
	Int32
	Uint32
	Int64
	Uint64
	Float32
	Float64
	BFloat16
	types
)

var typeNames = [types]string{"untyped", "uint8", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "bf16"}

func (t Type) String() string {
	if t >= types {
		return fmt.Sprintf("type %d", uint8(t))
	}
	return typeNames[t]
}

func typeOf[T Number]() Type {
	t := reflect.TypeFor[T]()
	switch t.Kind() {
	case reflect.Uint8:
		return Uint8
	case reflect.Uint16:
		if t == reflect.TypeFor[BF16]() {
			return BFloat16
		}
		return Uint16
	case reflect.Int32:
		return Int32
	case reflect.Uint32:
		return Uint32
	case reflect.Int64:
		return Int64
	case reflect.Uint64:
		return Uint64
	case reflect.Float32:
		return Float32
	default: // the constraint allows no other type
		return Float64
	}
}

// reduce sets dst[i] = a[i] op b[i]; dst may be a or b.
func reduce[T Number](op Op, typ Type, dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	if typ == BFloat16 {
		for i, v := range a {
			dst[i] = T(joinBF16(op, BF16(v), BF16(b[i])))
		}
		return
	}
	switch op {
	case Sum, ExactSum: // ExactSum of integers
		for i, v := range a {
			dst[i] = v + b[i]
		}
	case Min:
		for i, v := range a {
			dst[i] = min(v, b[i])
		}
	case Max:
		for i, v := range a {
			dst[i] = max(v, b[i])
		}
	}
}

// BF16 is the upper half of a float32: 8 bits of exponent, 8 of precision. A reduction
// adds BF16 values as float32, in the order of the package comment, and rounds each
// partial sum to nearest even. A BF16 holds bits; Float32 and ToBF16 convert its value.
type BF16 uint16

// joinBF16 returns a op b, rounded to BF16.
func joinBF16(op Op, a, b BF16) BF16 {
	x, y := a.Float32(), b.Float32()
	switch op {
	case Min:
		return ToBF16(min(x, y))
	case Max:
		return ToBF16(max(x, y))
	}
	return ToBF16(x + y)
}

// ToBF16 rounds f to the nearest BF16, ties to even. NaN stays NaN.
func ToBF16(f float32) BF16 {
	b := math.Float32bits(f)
	if f != f {
		return BF16(b>>16 | 1<<6) // a quiet NaN even if the payload is in the bits dropped
	}
	return BF16((b + 0x7fff + b>>16&1) >> 16)
}

// Float32 returns the value of b, which is exact.
func (b BF16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }
