package table

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// conversion converts stored values by the type of their column. dst keeps its memory from
// page to page.
type conversion func(dst, src *typed) error

// Limits of a type.
const (
	maxDecimalBytes = 64   // of a DECIMAL
	maxScale        = 1000 // digits after the point
	maxText         = 1 << 30
)

// conversionOf returns the conversion of a column, nil if its values are used as stored.
func conversionOf(e *format.SchemaElement) (conversion, error) {
	kind := kindOf(e)
	if k, ok := stored[kind]; ok && !k.allows(e) {
		return nil, fmt.Errorf("is a %s stored as %s, which the format does not define; write it with another program", kind, typeName(e))
	}
	switch kind {
	case "DECIMAL":
		return decimals(e)
	case "UINT64":
		return unsigned64, nil
	case "DATE":
		return texts(appendDay), nil
	case "TIME":
		unit, utc := unitOf(e)
		return texts(clock{unit, utc}.appendTime), nil
	case "TIMESTAMP":
		unit, utc := unitOf(e)
		return texts(clock{unit, utc}.appendTimestamp), nil
	case "UUID":
		return texts(appendUUID), nil
	case "INTERVAL":
		return texts(appendInterval), nil
	case "FLOAT16":
		return halves, nil
	case "BSON":
		return nil, errors.New("is BSON; write it as JSON text, or its members as columns")
	case "GEOMETRY", "GEOGRAPHY":
		return nil, errors.New("is a " + kind + "; write its coordinates as columns (DuckDB: ST_X, ST_Y)")
	case "":
		return plainConversion(e)
	}
	return nil, nil
}

// plainConversion returns the conversion of a column without a logical type.
func plainConversion(e *format.SchemaElement) (conversion, error) {
	switch e.Type.V {
	case format.Boolean:
		return texts(appendBool), nil
	case format.Int96:
		return texts(appendInt96), nil
	case format.Float:
		return floats, nil
	case format.ByteArray, format.FixedLenByteArray:
		return texts(appendBytes), nil
	}
	return nil, nil
}

// width lists the physical types that may store a logical type, and the length of a fixed
// one.
type width struct {
	types []format.Type
	bytes int32
}

func (w width) allows(e *format.SchemaElement) bool {
	for _, t := range w.types {
		if e.Type.V == t {
			return t != format.FixedLenByteArray || w.bytes == 0 || e.TypeLength.V == w.bytes
		}
	}
	return false
}

var stored = map[string]width{
	"DECIMAL":   {types: []format.Type{format.Int32, format.Int64, format.ByteArray, format.FixedLenByteArray}},
	"DATE":      {types: []format.Type{format.Int32}},
	"TIME":      {types: []format.Type{format.Int32, format.Int64}},
	"TIMESTAMP": {types: []format.Type{format.Int64}},
	"UINT64":    {types: []format.Type{format.Int64}},
	"INT":       {types: []format.Type{format.Int32, format.Int64}},
	"UINT":      {types: []format.Type{format.Int32}},
	"UUID":      {types: []format.Type{format.FixedLenByteArray}, bytes: 16},
	"INTERVAL":  {types: []format.Type{format.FixedLenByteArray}, bytes: 12},
	"FLOAT16":   {types: []format.Type{format.FixedLenByteArray}, bytes: 2},
	"STRING":    {types: []format.Type{format.ByteArray, format.FixedLenByteArray}},
}

// kindOf returns the logical type of a column or, in files of older writers, the converted
// type that corresponds to it; "" if it has neither.
func kindOf(e *format.SchemaElement) string {
	switch t := e.LogicalType.Value.(type) {
	case *format.DecimalType:
		return "DECIMAL"
	case *format.DateType:
		return "DATE"
	case *format.TimeType:
		return "TIME"
	case *format.TimestampType:
		return "TIMESTAMP"
	case *format.UUIDType:
		return "UUID"
	case *format.Float16Type:
		return "FLOAT16"
	case *format.BsonType:
		return "BSON"
	case *format.GeometryType:
		return "GEOMETRY"
	case *format.GeographyType:
		return "GEOGRAPHY"
	case *format.StringType, *format.EnumType, *format.JsonType:
		return "STRING"
	case *format.IntType:
		if t.IsSigned {
			return "INT"
		} else if t.BitWidth == 64 {
			return "UINT64"
		}
		return "UINT"
	case *format.NullType:
		return "NULL"
	}
	if !e.ConvertedType.Valid {
		return ""
	}
	return converted[e.ConvertedType.V]
}

var converted = map[deprecated.ConvertedType]string{
	deprecated.UTF8: "STRING", deprecated.Enum: "STRING", deprecated.Json: "STRING", deprecated.Bson: "BSON",
	deprecated.Decimal: "DECIMAL", deprecated.Date: "DATE", deprecated.Interval: "INTERVAL",
	deprecated.TimeMillis: "TIME", deprecated.TimeMicros: "TIME", deprecated.TimestampMillis: "TIMESTAMP", deprecated.TimestampMicros: "TIMESTAMP",
	deprecated.Int8: "INT", deprecated.Int16: "INT", deprecated.Int32: "INT", deprecated.Int64: "INT",
	deprecated.Uint8: "UINT", deprecated.Uint16: "UINT", deprecated.Uint32: "UINT", deprecated.Uint64: "UINT64",
}

// unitOf returns the unit of a TIME or TIMESTAMP, and whether it is known to be in UTC.
func unitOf(e *format.SchemaElement) (unit time.Duration, utc bool) {
	var u format.TimeUnit
	switch t := e.LogicalType.Value.(type) {
	case *format.TimeType:
		u, utc = t.Unit, t.IsAdjustedToUTC
	case *format.TimestampType:
		u, utc = t.Unit, t.IsAdjustedToUTC
	default:
		if c := e.ConvertedType.V; c == deprecated.TimeMillis || c == deprecated.TimestampMillis {
			return time.Millisecond, false
		}
		return time.Microsecond, false
	}
	if u.Value == nil {
		return time.Microsecond, utc
	}
	return u.Value.Duration(), utc
}

// texts returns a conversion of each value to a string.
func texts(one func(dst []byte, v *typed, i int) ([]byte, error)) conversion {
	return func(dst, src *typed) (err error) {
		dst.begin()
		for i := range src.len() {
			if dst.bytes, err = one(dst.bytes, src, i); err != nil {
				return err
			}
			if len(dst.bytes) > maxText {
				return fmt.Errorf("a page holds more than %d bytes of text; write smaller pages", maxText)
			}
			dst.offsets = append(dst.offsets, uint32(len(dst.bytes)))
		}
		return nil
	}
}

func appendBool(dst []byte, v *typed, i int) ([]byte, error) {
	return strconv.AppendBool(dst, v.bits[i/8]>>(i%8)&1 != 0), nil
}

func appendBytes(dst []byte, v *typed, i int) ([]byte, error) {
	return AppendBytes(dst, v.text(i)), nil
}

// AppendBytes writes bytes without a string type: unchanged if they are valid text,
// otherwise as DuckDB writes a BLOB.
func AppendBytes(dst, b []byte) []byte {
	if isText(b) {
		return append(dst, b...)
	}
	for _, c := range b {
		if c < ' ' || c > '~' || c == '\\' || c == '\'' || c == '"' {
			dst = append(dst, '\\', 'x', hexUpper[c>>4], hexUpper[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

const hexUpper, hexLower = "0123456789ABCDEF", "0123456789abcdef"

func isText(b []byte) bool {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n < 2 || unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\r' {
			return false
		}
		b = b[n:]
	}
	return true
}

func appendUUID(dst []byte, v *typed, i int) ([]byte, error) {
	for j, c := range v.text(i) {
		if j == 4 || j == 6 || j == 8 || j == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, hexLower[c>>4], hexLower[c&15])
	}
	return dst, nil
}

// unsigned64 keeps integers that fit int64, and writes the values of a page with larger
// ones as strings.
func unsigned64(dst, src *typed) error {
	for _, n := range src.int64s {
		if n < 0 {
			return texts(func(dst []byte, v *typed, i int) ([]byte, error) {
				return strconv.AppendUint(dst, uint64(v.int64s[i]), 10), nil
			})(dst, src)
		}
	}
	*dst = typed{kind: value.Int, int64s: src.int64s}
	return nil
}

// floats widens 32-bit numbers to the values of their shortest decimals: 0.1 is 0.1, as if
// the table had been written as text.
func floats(dst, src *typed) error {
	return dst.widen(len(src.floats), func(i int) float32 { return src.floats[i] })
}

// halves widens 16-bit numbers.
func halves(dst, src *typed) error {
	return dst.widen(src.len(), func(i int) float32 {
		b := src.text(i)
		return half(uint16(b[0]) | uint16(b[1])<<8)
	})
}

func (t *typed) widen(n int, one func(i int) float32) error {
	*t = typed{kind: value.Float64, doubles: t.doubles[:0]}
	for i := range n {
		t.doubles = append(t.doubles, value.Widen(one(i)))
	}
	return nil
}

// half returns a 16-bit number: sign, 5 bits of exponent, 10 of fraction.
func half(b uint16) float32 {
	sign, exponent, fraction := uint32(b&0x8000)<<16, int(b>>10&31), uint32(b&1023)
	switch exponent {
	case 0:
		x := float32(math.Ldexp(float64(fraction), -24))
		return math.Float32frombits(math.Float32bits(x) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | uint32(exponent+127-15)<<23 | fraction<<13)
}

// decimals converts values with a scale: 2296 of scale 2 is 22.96.
func decimals(e *format.SchemaElement) (conversion, error) {
	scale := e.Scale.V
	if t, ok := e.LogicalType.Value.(*format.DecimalType); ok {
		scale = t.Scale
	}
	if scale < 0 || scale > maxScale {
		return nil, fmt.Errorf("is a DECIMAL of scale %d, 0 to %d are possible", scale, maxScale)
	}
	if e.Type.V == format.FixedLenByteArray && e.TypeLength.V > maxDecimalBytes {
		return nil, fmt.Errorf("is a DECIMAL of %d bytes, at most %d are possible", e.TypeLength.V, maxDecimalBytes)
	}
	d := &decimal{scale: int(scale)}
	return texts(d.append), nil
}

// decimal writes unscaled integers as decimals.
type decimal struct {
	scale  int
	digits []byte
	large  big.Int
}

func (d *decimal) append(dst []byte, v *typed, i int) ([]byte, error) {
	if v.kind == value.Text {
		if err := d.read(v.text(i)); err != nil {
			return dst, err
		}
	} else {
		d.digits = strconv.AppendInt(d.digits[:0], v.integer(i), 10)
	}
	digits := d.digits
	if digits[0] == '-' {
		dst, digits = append(dst, '-'), digits[1:]
	}
	if d.scale == 0 {
		return append(dst, digits...), nil
	}
	whole := len(digits) - d.scale
	if whole > 0 {
		dst, digits = append(dst, digits[:whole]...), digits[whole:]
	} else {
		dst = append(dst, '0')
	}
	dst = append(dst, '.')
	for ; whole < 0; whole++ {
		dst = append(dst, '0')
	}
	return append(dst, digits...), nil
}

// read reads a number in two's complement, its highest byte first.
func (d *decimal) read(b []byte) error {
	if len(b) > maxDecimalBytes {
		return fmt.Errorf("a DECIMAL of %d bytes, at most %d are possible", len(b), maxDecimalBytes)
	}
	if len(b) <= 8 {
		n := int64(0)
		for j, c := range b {
			if n = n<<8 | int64(c); j == 0 {
				n = int64(int8(c))
			}
		}
		d.digits = strconv.AppendInt(d.digits[:0], n, 10)
		return nil
	}
	d.large.SetBytes(b)
	if b[0] >= 0x80 {
		d.large.Sub(&d.large, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	d.digits = d.large.Append(d.digits[:0], 10)
	return nil
}

// prepare prepares t for values of a column.
func (t *typed) prepare(e *format.SchemaElement) {
	switch e.Type.V {
	case format.Float, format.Double:
		t.kind = value.Float64
	case format.ByteArray:
		t.kind = value.Text
	case format.FixedLenByteArray:
		t.kind, t.width = value.Text, int(e.TypeLength.V)
	default:
		t.kind = value.Int
		if kindOf(e) == "UINT" {
			t.width = 4
		}
	}
}

// typeName returns the name of the physical type.
func typeName(e *format.SchemaElement) string {
	if e.Type.V == format.FixedLenByteArray {
		return fmt.Sprintf("%v(%d)", e.Type.V, e.TypeLength.V)
	}
	return e.Type.V.String()
}
