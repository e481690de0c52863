package table

import (
	"errors"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// typed are the values of a page in one of these forms.
type typed struct {
	kind    value.Kind
	bits    []byte
	int32s  []int32
	int64s  []int64
	int96s  []deprecated.Int96
	floats  []float32
	doubles []float64
	bytes   []byte // with the offset or the length of each string
	offsets []uint32
	width   int // of a string; of an integer: 4 if it is unsigned and has 32 bits
}

func (t *typed) len() int {
	switch {
	case t.kind == value.Text && t.width > 0:
		return len(t.bytes) / t.width
	case t.kind == value.Text:
		return len(t.offsets) - 1
	}
	return max(8*len(t.bits), len(t.int32s), len(t.int64s), len(t.int96s), len(t.floats), len(t.doubles))
}

func (t *typed) text(i int) []byte {
	if t.width > 0 {
		return t.bytes[i*t.width : (i+1)*t.width]
	}
	return t.bytes[t.offsets[i]:t.offsets[i+1]]
}

// integer returns value i of a column of integers.
func (t *typed) integer(i int) int64 {
	switch {
	case t.int64s != nil:
		return t.int64s[i]
	case t.width == 4:
		return int64(uint32(t.int32s[i]))
	}
	return int64(t.int32s[i])
}

// begin makes t an empty list of strings.
func (t *typed) begin() {
	*t = typed{kind: value.Text, bytes: t.bytes[:0], offsets: append(t.offsets[:0], 0)}
}

// trim drops what follows the first n values: decoders return whole groups of values.
func (t *typed) trim(kind format.Type, n int) error {
	if t.len() < n {
		return errShort
	}
	switch kind {
	case format.Boolean:
		t.bits = t.bits[:(n+7)/8]
	case format.Int32:
		t.int32s = t.int32s[:n]
	case format.Int64:
		t.int64s = t.int64s[:n]
	case format.Int96:
		t.int96s = t.int96s[:n]
	case format.Float:
		t.floats = t.floats[:n]
	case format.Double:
		t.doubles = t.doubles[:n]
	case format.FixedLenByteArray:
		t.bytes = t.bytes[:n*t.width]
	default:
		t.offsets = t.offsets[:n+1]
	}
	return nil
}

var errShort = errors.New("a page has fewer values than its header states")
