package collective

import (
	"fmt"
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
