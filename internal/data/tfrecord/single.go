package tfrecord

import (
	"encoding/binary"
	"math"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Value is the only value of a feature. The zero Value means no value.
type Value struct {
	Kind   value.Kind
	Lo, Hi int32   // Text: record[Lo:Hi]
	Int    int64   // Int
	Real   float64 // Float32, its value.Widen
}

// Single fills values, one per name, like Decode. It accepts records with at most one
// value per feature and in the layout of common writers: fields in the order of their
// numbers, lengths below 2^14, and nothing else. This is the common case, and takes a
// third of the time of Decode. For other records it returns false, and values are
// undefined.
func (d *Decoder) Single(record []byte, values []Value) bool {
	for i := range values {
		values[i].Kind = value.None
	}
	if len(record) == 0 {
		return true
	}
	i, end, ok := field(record, 0, len(record), bytesOf1)
	if !ok || end != len(record) || len(record) > math.MaxInt32 {
		return false
	}
	at := 0
	for i < len(record) {
		entry, end, ok := field(record, i, len(record), bytesOf1)
		if !ok {
			return false
		}
		i = end
		name, endName, ok := field(record, entry, end, bytesOf1)
		if !ok {
			return false
		}
		if name < endName && record[name] == entryTag {
			return false
		}
		feature, endFeature, ok := field(record, endName, end, bytesOf2)
		if !ok || endFeature != end {
			return false
		}
		place := d.find(&at, record[name:endName])
		if place < 0 {
			continue
		}
		if v := &values[place]; v.Kind != value.None || !v.decode(record, feature, end) {
			return false
		}
	}
	return true
}

// One-byte tags of fields.
const (
	bytesOf1  = 1<<3 | 2
	bytesOf2  = 2<<3 | 2
	bytesOf3  = 3<<3 | 2
	varintOf1 = 1<<3 | 0
	fixedOf1  = 1<<3 | 5
)

// field returns the bytes of the field whose tag is at b[i], and which must end before
// b[end].
func field(b []byte, i, end int, tag byte) (lo, hi int, ok bool) {
	if i+1 >= end || end > len(b) || b[i] != tag {
		return 0, 0, false
	}
	n := int(b[i+1])
	i += 2
	if n >= 0x80 {
		if i >= end || b[i] >= 0x80 || b[i] == 0 {
			return 0, 0, false
		}
		n = n&0x7f | int(b[i])<<7
		i++
	}
	return i, i + n, i+n <= end
}

// decode decodes the feature b[i:end].
func (v *Value) decode(b []byte, i, end int) bool {
	if i == end {
		return true // no list
	}
	tag := b[i]
	i, hi, ok := field(b, i, end, tag)
	switch {
	case !ok || hi != end:
		return false
	case tag == bytesOf1:
		return v.text(b, i, end)
	case tag == bytesOf2:
		return v.real(b[i:end])
	case tag == bytesOf3:
		return v.integer(b[i:end])
	}
	return false
}

func (v *Value) text(b []byte, i, end int) bool {
	if i == end {
		return true
	}
	lo, hi, ok := field(b, i, end, bytesOf1)
	v.Kind, v.Lo, v.Hi = value.Text, int32(lo), int32(hi)
	return ok && hi == end
}

// real reads a FloatList.
func (v *Value) real(b []byte) bool {
	switch {
	case len(b) == 6 && b[0] == bytesOf1 && b[1] == 4:
		b = b[2:]
	case len(b) == 5 && b[0] == fixedOf1:
		b = b[1:]
	default:
		return len(b) == 0
	}
	v.Kind, v.Real = value.Float32, value.Widen(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	return true
}

// integer reads an Int64List.
func (v *Value) integer(b []byte) bool {
	switch {
	case len(b) == 0:
		return true
	case b[0] == varintOf1:
		b = b[1:]
	case b[0] == bytesOf1 && len(b) > 2 && int(b[1]) == len(b)-2:
		b = b[2:]
	default:
		return false
	}
	if len(b) == 1 && b[0] < 0x80 {
		v.Kind, v.Int = value.Int, int64(b[0])
		return true
	}
	x, n := binary.Uvarint(b)
	v.Kind, v.Int = value.Int, int64(x)
	return n == len(b)
}
