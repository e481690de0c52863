package collective

import (
	"fmt"
	"reflect"

	"github.com/wdlrun/wdlrun/internal/raw"
)

// Number is an element type of the collectives.
type Number interface{ raw.Number }

// Op is how a reduction joins two elements.
type Op uint8

// The operations of reductions.
const (
	Sum Op = iota
	Min
	Max
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
	}
	return fmt.Sprintf("operation %d", uint8(op))
}

// Type is the code of an element type on the wire.
type Type uint8

// The element types. A named type, but BF16, has the code of its underlying type.
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
	default: // the constraint leaves no other
		return Float64
	}
}

// reduce sets own[i] = partial[i] op own[i].
func reduce[T Number](op Op, typ Type, own, partial []T) {
	partial = partial[:len(own)]
	if typ == BFloat16 {
		for i, p := range partial {
			own[i] = T(joinBF16(op, BF16(p), BF16(own[i])))
		}
		return
	}
	switch op {
	case Sum:
		for i, p := range partial {
			own[i] = p + own[i]
		}
	case Min:
		for i, p := range partial {
			own[i] = min(p, own[i])
		}
	case Max:
		for i, p := range partial {
			own[i] = max(p, own[i])
		}
	}
}
