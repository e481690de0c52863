package tfs

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// maxDims is the maximum number of dimensions of a tensor.
const maxDims = 8

// Tensor is a TensorProto. It holds its values as one list, row by row. If a message has
// fewer typed values than the shape, the last one is repeated, as in TensorFlow; such a
// tensor has fewer values than elements.
type Tensor struct {
	Type DataType
	Dims []int64 // empty for a scalar

	elements int
	values   value.List
	content  []byte
	unknown  bool       // the rank is unknown
	view     value.List // memory of View
}

// reset empties t.
func (t *Tensor) reset() {
	t.Type, t.Dims, t.elements, t.content, t.unknown = Invalid, t.Dims[:0], 0, nil, false
	t.values = value.List{}
}

// memory holds the values of all tensors of a request. It is shared, so the memory of
// reused requests does not depend on the order of inputs.
type memory struct {
	ints  []int64
	reals []float64
	texts [][]byte
}

func (m *memory) reset() { m.ints, m.reals, m.texts = m.ints[:0], m.reals[:0], m.texts[:0] }

// allocate allocates memory for n values of t.
func (m *memory) allocate(t *Tensor, n int) {
	switch t.Type {
	case String, Bool:
		t.values.Texts = takeFree(&m.texts, n)
	case Float, Double, Half, BFloat16:
		t.values.Reals = takeFree(&m.reals, n)
	default:
		t.values.Ints = takeFree(&m.ints, n)
	}
}

// takeFree takes n elements from the free part of all. If there are too few, it allocates a
// larger slice; earlier parts are not moved.
func takeFree[T any](all *[]T, n int) []T {
	at := len(*all)
	if cap(*all)-at < n {
		*all, at = make([]T, 0, max(2*cap(*all), n)), 0
	}
	*all = (*all)[:at+n]
	return (*all)[at : at : at+n]
}

// Elements returns the number of elements by the shape.
func (t *Tensor) Elements() int { return t.elements }

// Rows returns the first dimension; 1 for a scalar.
func (t *Tensor) Rows() int {
	if len(t.Dims) == 0 {
		return 1
	}
	return int(t.Dims[0])
}

// Row fills l with the values of row i. The row of a tensor of one row is returned for any
// i.
func (t *Tensor) Row(i int, l *value.List) {
	l.Reset()
	rows := t.Rows()
	if t.elements == 0 {
		return
	}
	width := t.elements / rows
	if rows == 1 {
		i = 0
	}
	switch l.Begin(t.values.Kind); l.Kind {
	case value.Text:
		l.Texts = appendRow(l.Texts, t.values.Texts, i, width)
	case value.Int:
		l.Ints = appendRow(l.Ints, t.values.Ints, i, width)
	default:
		l.Reals = appendRow(l.Reals, t.values.Reals, i, width)
	}
}

// View sets l to the values of row i, as Row does, but in the memory of t.
func (t *Tensor) View(i int, l *value.List) {
	rows := t.Rows()
	if t.elements == 0 {
		l.Reset()
		return
	}
	if rows == 1 {
		i = 0
	}
	width := t.elements / rows
	lo, hi := i*width, (i+1)*width
	if hi > t.values.Len() {
		t.Row(i, &t.view)
		*l = t.view
		return
	}
	switch l.Kind = t.values.Kind; l.Kind {
	case value.Text:
		l.Texts = t.values.Texts[lo:hi]
	case value.Int:
		l.Ints = t.values.Ints[lo:hi]
	default:
		l.Reals = t.values.Reals[lo:hi]
	}
}

// Single returns the values of a tensor with one per row, otherwise nil.
func (t *Tensor) Single() *value.List {
	if rows := t.Rows(); rows != t.elements || rows != t.values.Len() {
		return nil
	}
	return &t.values
}

// appendRow appends row i of values. The last value is repeated for absent ones.
func appendRow[T any](dst, values []T, i, width int) []T {
	lo, hi := i*width, (i+1)*width
	if hi <= len(values) {
		return append(dst, values[lo:hi]...)
	}
	for k := lo; k < hi; k++ {
		dst = append(dst, values[min(k, len(values)-1)])
	}
	return dst
}

// Texts returns the values of a DT_STRING tensor, at most one per element; nil for other
// types.
func (t *Tensor) Texts() [][]byte {
	if t.Type != String {
		return nil
	}
	return t.values.Texts
}

// Ints returns the values of a tensor of integers, one per element; nil for other types.
func (t *Tensor) Ints() []int64 {
	if t.values.Kind != value.Int {
		return nil
	}
	return appendRow(nil, t.values.Ints, 0, t.elements)
}

// Sorted sets l to the values of the elements in the given order, in other memory than that of t.
func (t *Tensor) Sorted(order []int, l *value.List) {
	l.Reset()
	l.Begin(t.values.Kind)
	last := t.values.Len() - 1
	for _, i := range order {
		switch i = min(i, last); l.Kind {
		case value.Text:
			l.Texts = append(l.Texts, t.values.Texts[i])
		case value.Int:
			l.Ints = append(l.Ints, t.values.Ints[i])
		default:
			l.Reals = append(l.Reals, t.values.Reals[i])
		}
	}
}

// decode decodes a TensorProto into t, which must be empty.
func (t *Tensor) decode(b []byte, left *Limits, from *memory) error {
	if err := t.heads(b); err != nil {
		return err
	}
	is, ok := types[t.Type]
	if !ok {
		return fmt.Errorf("type %s is not supported; send DT_FLOAT, DT_DOUBLE, DT_STRING or an integer type", t.Type)
	}
	if err := t.shape(left); err != nil {
		return err
	}
	from.allocate(t, 1+min(t.elements, len(b))) // a message has at most one more value than bytes
	if len(t.content) > 0 {
		return t.decodeContent(is)
	}
	return t.typed(b, is)
}

// stringTag begins a value of a DT_STRING tensor.
const stringTag = 8<<3 | byte(protowire.BytesType)

// heads decodes the fields of type and shape, which may be anywhere in a message.
func (t *Tensor) heads(b []byte) error {
	for len(b) > 0 {
		var short bool
		if _, b, short = nextShort(b, stringTag); short {
			continue
		}
		f, rest, err := nextField(b)
		if err == nil {
			err = t.head(f)
		}
		if err != nil {
			return err
		}
		b = rest
	}
	return nil
}

// head decodes a field of type or shape.
func (t *Tensor) head(f field) error {
	switch f.number {
	case 1:
		t.Type = DataType(f.bits)
		return f.is(protowire.VarintType, "dtype")
	case 2:
		if err := f.isBytes("tensor_shape"); err != nil {
			return err
		}
		return within("tensor_shape", eachField(f.bytes, t.dim))
	case 4:
		t.content = f.bytes
		return f.isBytes("tensor_content")
	}
	return nil
}

// dim decodes a field of a TensorShapeProto.
func (t *Tensor) dim(f field) error {
	switch f.number {
	case 2:
		if err := f.isBytes("dim"); err != nil {
			return err
		}
		size := int64(0)
		err := eachField(f.bytes, func(f field) error {
			if f.number != 1 {
				return nil
			}
			size = int64(f.bits)
			return f.is(protowire.VarintType, "size")
		})
		if len(t.Dims) == maxDims {
			return fmt.Errorf("more than %d dimensions", maxDims)
		}
		t.Dims = append(t.Dims, size)
		return within("dim", err)
	case 3:
		t.unknown = f.bits != 0
		return f.is(protowire.VarintType, "unknown_rank")
	}
	return nil
}

// shape checks the dimensions and counts the elements.
func (t *Tensor) shape(left *Limits) error {
	if t.unknown {
		return fmt.Errorf("the shape has an unknown rank; a request needs a known one")
	}
	n := int64(1)
	for _, d := range t.Dims {
		if d < 0 || d > math.MaxInt32 {
			return fmt.Errorf("shape %v: a dimension is not between 0 and 2^31-1", t.Dims)
		}
		if n *= d; n > math.MaxInt32 {
			return fmt.Errorf("shape %v has more than 2^31-1 elements", t.Dims)
		}
	}
	if rows := t.Rows(); rows > left.Rows {
		return fmt.Errorf("shape %v has %d rows, at most %d are allowed", t.Dims, rows, left.Rows)
	}
	if left.Values -= int(n); left.Values < 0 {
		return fmt.Errorf("shape %v: the request has too many values; send fewer rows", t.Dims)
	}
	t.elements = int(n)
	return nil
}

// decodeContent decodes tensor_content.
func (t *Tensor) decodeContent(is typeOf) error {
	b := t.content
	if is.bytes == 0 {
		return t.takeStrings(b)
	}
	if len(b) != t.elements*is.bytes {
		return fmt.Errorf("tensor_content has %d bytes, shape %v of %s needs %d", len(b), t.Dims, is.name, t.elements*is.bytes)
	}
	for ; len(b) > 0; b = b[is.bytes:] {
		var bits uint64
		switch is.bytes {
		case 1:
			bits = uint64(b[0])
		case 2:
			bits = uint64(binary.LittleEndian.Uint16(b))
		case 4:
			bits = uint64(binary.LittleEndian.Uint32(b))
		default:
			bits = binary.LittleEndian.Uint64(b)
		}
		t.add(bits)
	}
	return nil
}

// takeStrings decodes the tensor_content of strings: the length of each as a varint, then
// the bytes of each.
func (t *Tensor) takeStrings(b []byte) error {
	t.values.Begin(value.Text)
	lengths := b
	for range t.elements {
		_, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return fmt.Errorf("tensor_content has fewer than the %d lengths of shape %v", t.elements, t.Dims)
		}
		b = b[n:]
	}
	for range t.elements {
		size, n := protowire.ConsumeVarint(lengths)
		lengths = lengths[n:]
		if size > uint64(len(b)) {
			return fmt.Errorf("tensor_content ends within a string")
		}
		t.values.Texts = append(t.values.Texts, b[:size:size])
		b = b[size:]
	}
	if len(b) > 0 {
		return fmt.Errorf("tensor_content has %d bytes after the last string", len(b))
	}
	return nil
}

// typed decodes the field of the tensor's type.
func (t *Tensor) typed(b []byte, is typeOf) error {
	var count int
	var err error
	if t.Type == String {
		count, err = t.strings(b, is.field)
	} else {
		err = eachField(b, func(f field) error {
			if int(f.number) != is.field {
				return nil
			}
			return t.numbers(f, is, &count)
		})
	}
	if err == nil && count < t.elements {
		err = t.elsewhere(b, is)
	}
	switch {
	case err != nil:
		return err
	case count > t.elements:
		return fmt.Errorf("%d values, shape %v has %d elements", count, t.Dims, t.elements)
	case count == 0 && t.elements > 0: // all elements are zero or empty
		if t.Type == String {
			t.values.Begin(value.Text)
			t.values.Texts = append(t.values.Texts, nil)
		} else {
			t.add(0)
		}
	}
	return nil
}

// elsewhere returns an error if a tensor with fewer values than elements has values in the field of
// another type.
func (t *Tensor) elsewhere(b []byte, is typeOf) error {
	return eachField(b, func(f field) error {
		n := int(f.number)
		if n == is.field || n < 5 || n > 17 || f.kind == protowire.BytesType && len(f.bytes) == 0 && n != types[String].field {
			return nil
		}
		return fmt.Errorf("%d values, shape %v has %d elements; the message has values of another type in its field %d, values of %s are in field %d", t.values.Len(), t.Dims, t.elements, n, is.name, is.field)
	})
}

// strings decodes the values of a DT_STRING tensor and counts them.
func (t *Tensor) strings(b []byte, number int) (count int, err error) {
	t.values.Begin(value.Text)
	all := t.values.Texts
	defer func() { t.values.Texts = all }()
	for len(b) > 0 {
		text, rest, short := nextShort(b, stringTag)
		if !short {
			f, after, err := nextField(b)
			if err != nil {
				return len(all), err
			}
			if b = after; int(f.number) != number {
				continue
			}
			if err := f.isBytes("string_val"); err != nil {
				return len(all), err
			}
			text, rest = f.bytes[:len(f.bytes):len(f.bytes)], after
		}
		all, b = append(all, text), rest
	}
	return len(all), nil
}

// numbers decodes a field of numbers, packed or not.
func (t *Tensor) numbers(f field, is typeOf, count *int) error {
	kind := protowire.VarintType
	switch t.Type {
	case Float:
		kind = protowire.Fixed32Type
	case Double:
		kind = protowire.Fixed64Type
	}
	if f.kind != protowire.BytesType {
		t.add(f.bits)
		*count++
		return f.is(kind, "typed values")
	}
	for b := f.bytes; len(b) > 0; *count++ {
		bits, n := uint64(0), 0
		switch kind {
		case protowire.Fixed32Type:
			var x uint32
			x, n = protowire.ConsumeFixed32(b)
			bits = uint64(x)
		case protowire.Fixed64Type:
			bits, n = protowire.ConsumeFixed64(b)
		default:
			bits, n = protowire.ConsumeVarint(b)
		}
		if n < 0 {
			return within(fmt.Sprintf("field %d", is.field), errWire)
		}
		t.add(bits)
		b = b[n:]
	}
	return nil
}

// add appends the value of the given bits.
func (t *Tensor) add(bits uint64) {
	switch t.Type {
	case Float:
		t.values.AddFloat32(math.Float32frombits(uint32(bits)))
	case Double:
		t.values.Begin(value.Float64)
		t.values.Reals = append(t.values.Reals, math.Float64frombits(bits))
	case Half:
		t.values.AddFloat32(fromHalf(uint16(bits)))
	case BFloat16:
		t.values.AddFloat32(math.Float32frombits(uint32(uint16(bits)) << 16))
	case Int32:
		t.integer(int64(int32(bits)))
	case Int16:
		t.integer(int64(int16(bits)))
	case Int8:
		t.integer(int64(int8(bits)))
	case Uint32:
		t.integer(int64(uint32(bits)))
	case Uint16:
		t.integer(int64(uint16(bits)))
	case Uint8:
		t.integer(int64(uint8(bits)))
	case Bool:
		t.values.Begin(value.Text)
		t.values.Texts = append(t.values.Texts, strconv.AppendBool(nil, bits != 0))
	case Uint64:
		t.unsigned(bits)
	default:
		t.integer(int64(bits))
	}
}

func (t *Tensor) integer(x int64) {
	t.values.Begin(value.Int)
	t.values.Ints = append(t.values.Ints, x)
}

// unsigned adds a DT_UINT64. If a value is 2^63 or more, the tensor becomes one of decimal
// strings.
func (t *Tensor) unsigned(x uint64) {
	if x <= math.MaxInt64 && t.values.Kind != value.Text {
		t.integer(int64(x))
		return
	}
	if t.values.Kind == value.Int {
		before := t.values.Ints
		t.values.Begin(value.Text)
		for _, y := range before {
			t.values.Texts = append(t.values.Texts, strconv.AppendInt(nil, y, 10))
		}
	}
	t.values.Begin(value.Text)
	t.values.Texts = append(t.values.Texts, strconv.AppendUint(nil, x, 10))
}

// fromHalf widens a 16-bit floating point number.
func fromHalf(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10)&31, uint32(h)&1023
	switch {
	case exponent == 31:
		return math.Float32frombits(sign | 255<<23 | fraction<<13)
	case exponent > 0:
		return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
	}
	x := float32(fraction) / (1 << 24)
	if sign != 0 {
		x = -x
	}
	return x
}

// Limits are the limits of a request. Decoding decrements Values.
type Limits struct {
	Inputs int // tensors
	Rows   int // of a tensor, or examples
	Values int // of all tensors
}
