package table

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/encoding/bitpacked"
	"github.com/parquet-go/parquet-go/encoding/bytestreamsplit"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/plain"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/format"
)

// appendLevels decodes the n levels of a page, at most most, and returns the rest of src.
func appendLevels(dst []byte, kind format.Encoding, most byte, n int, src []byte) (levels, rest []byte, err error) {
	width := bits.Len8(most)
	switch kind {
	case format.RLE:
		if len(src) < 4 {
			return dst, nil, errShort
		}
		length := int64(binary.LittleEndian.Uint32(src))
		if src = src[4:]; length > int64(len(src)) {
			return dst, nil, errShort
		}
		levels, err = runLevels(dst, width, n, src[:length])
		return levels, src[length:], err
	case format.BitPacked:
		length := (n*width + 7) / 8
		if length > len(src) {
			return dst, nil, errShort
		}
		levels, err = (&bitpacked.Encoding{BitWidth: width}).DecodeLevels(dst[:0], src[:length])
		if err == nil && len(levels) < n {
			err = errShort
		}
		return levels[:min(n, len(levels))], src[length:], err
	}
	return dst, nil, fmt.Errorf("levels are encoded as %v, which is not supported", kind)
}

// runLevels decodes n levels of some bits each.
func runLevels(dst []byte, width, n int, src []byte) ([]byte, error) {
	src, err := runsOf(src, width, n)
	if err != nil {
		return dst, err
	}
	if dst, err = (&rle.Encoding{BitWidth: width}).DecodeLevels(dst[:0], src); err != nil {
		return dst, err
	}
	if len(dst) < n {
		return dst, errShort
	}
	return dst[:n], nil
}

// runsOf returns the part of src with n values of some bits each. src has runs:
//
//	number of equal values × 2, uvarint · value, in whole bytes
//	number of groups of eight × 2 + 1, uvarint · values, packed
//
// The library allocates what a run states, so the runs are checked first.
func runsOf(src []byte, width, n int) ([]byte, error) {
	at := 0
	for n > 0 {
		count, size, packed := run(src[at:])
		if size <= 0 || count > maxPageValues {
			return nil, errShort
		}
		at += size
		if packed {
			count, at = 8*count, at+count*width
		} else {
			at += (width + 7) / 8
		}
		if at > len(src) || count > maxPageValues {
			return nil, errShort
		}
		n -= count
	}
	return src[:at], nil
}

// run reads the head of a run. count is of values or of groups of eight, size that of the
// head; 0 if it is damaged.
func run(src []byte) (count, size int, packed bool) {
	u, size := binary.Uvarint(src)
	if u>>1 > maxPageValues {
		return 0, 0, false
	}
	return int(u >> 1), size, u&1 != 0
}

// booleans decodes n bits in runs. The library's decoder loses values.
func booleans(dst, src []byte, n int) ([]byte, error) {
	if len(src) < 4 {
		return dst, errShort
	}
	length := int64(binary.LittleEndian.Uint32(src))
	if src = src[4:]; length > int64(len(src)) {
		return dst, errShort
	}
	src = src[:length]
	dst = sized(dst, (n+7)/8)
	clear(dst)
	for i := 0; i < n; {
		count, size, packed := run(src)
		if size <= 0 {
			return dst, errShort
		}
		src = src[size:]
		step := 1 // bytes
		if packed {
			step, count = count, 8*count
		}
		if step > len(src) {
			return dst, errShort
		}
		for j := range min(count, n-i) {
			bit := src[0] & 1
			if packed {
				bit = src[j/8] >> (j % 8) & 1
			}
			dst[(i+j)/8] |= bit << ((i + j) % 8)
		}
		i, src = i+count, src[step:]
	}
	return dst, nil
}

// indexes decodes the n indexes of a page with a dictionary: their width in bits, then runs.
func indexes(dst []int32, src []byte, n int) ([]int32, error) {
	if n == 0 {
		return dst[:0], nil
	}
	if len(src) == 0 || src[0] > 32 {
		return dst, errShort
	}
	width := int(src[0])
	if width == 0 { // a dictionary of one value
		if cap(dst) < n {
			return make([]int32, n), nil
		}
		clear(dst[:n])
		return dst[:n], nil
	}
	runs, err := runsOf(src[1:], width, n)
	if err != nil {
		return dst, err
	}
	if dst, err = new(rle.DictionaryEncoding).DecodeInt32(dst[:0], src[:1+len(runs)]); err != nil {
		return dst, err
	}
	if len(dst) < n {
		return dst, errShort
	}
	return dst[:n], nil
}

// decode fills t with n values of a physical type.
func (t *typed) decode(e *format.SchemaElement, kind format.Encoding, src []byte, n int) (err error) {
	if e.Type.V == format.Boolean && kind == format.RLE {
		t.bits, err = booleans(t.bits, src, n)
		return err
	}
	if kind == format.Plain {
		if e.Type.V == format.ByteArray {
			return t.plainTexts(src, n)
		}
		size := plainBytes(e, n)
		if size > len(src) {
			return errShort
		}
		src = src[:size] // some writers pad a page
	}
	enc, err := decoderOf(e, kind)
	if err != nil {
		return err
	}
	widest, err := checkDelta(kind, src)
	if err != nil {
		return err
	}
	if e.Type.V == format.Int32 && widest > 32 {
		return t.wideDifferences(enc, src, n)
	}
	switch e.Type.V {
	case format.Boolean:
		t.bits, err = enc.DecodeBoolean(t.bits, src)
	case format.Int32:
		t.int32s, err = enc.DecodeInt32(t.int32s, src)
	case format.Int64:
		t.int64s, err = enc.DecodeInt64(t.int64s, src)
	case format.Int96:
		t.int96s, err = enc.DecodeInt96(t.int96s, src)
	case format.Float:
		t.floats, err = enc.DecodeFloat(t.floats, src)
	case format.Double:
		t.doubles, err = enc.DecodeDouble(t.doubles, src)
	case format.FixedLenByteArray:
		t.bytes, err = enc.DecodeFixedLenByteArray(t.bytes, src, t.width)
	default:
		if most := enc.EstimateDecodeByteArraySize(src); most < 0 || most > maxText {
			return fmt.Errorf("a page holds %d bytes of text, at most %d are possible; write smaller pages", most, maxText)
		}
		t.bytes, t.offsets, err = enc.DecodeByteArray(t.bytes, src, t.offsets)
	}
	if err != nil {
		return err
	}
	return t.trim(e.Type.V, n)
}

// plainBytes returns the size of n values in the encoding PLAIN.
func plainBytes(e *format.SchemaElement, n int) int {
	switch e.Type.V {
	case format.Boolean:
		return (n + 7) / 8
	case format.Int32, format.Float:
		return 4 * n
	case format.Int96:
		return 12 * n
	case format.FixedLenByteArray:
		return int(e.TypeLength.V) * n
	}
	return 8 * n
}

// plainTexts decodes n strings, each after its length.
func (t *typed) plainTexts(src []byte, n int) error {
	t.bytes, t.offsets = t.bytes[:0], append(t.offsets[:0], 0)
	for range n {
		if len(src) < 4 {
			return errShort
		}
		length := int64(binary.LittleEndian.Uint32(src))
		if src = src[4:]; length > int64(len(src)) {
			return errShort
		}
		t.bytes = append(t.bytes, src[:length]...)
		t.offsets, src = append(t.offsets, uint32(len(t.bytes))), src[length:]
	}
	return nil
}

// decoderOf returns the decoder of an encoding that the format defines for a physical type.
func decoderOf(e *format.SchemaElement, kind format.Encoding) (encoding.Encoding, error) {
	switch t := e.Type.V; kind {
	case format.Plain:
		return new(plain.Encoding), nil
	case format.DeltaBinaryPacked:
		if t == format.Int32 || t == format.Int64 {
			return new(delta.BinaryPackedEncoding), nil
		}
	case format.DeltaLengthByteArray:
		if t == format.ByteArray {
			return new(delta.LengthByteArrayEncoding), nil
		}
	case format.DeltaByteArray:
		if t == format.ByteArray || t == format.FixedLenByteArray {
			return new(delta.ByteArrayEncoding), nil
		}
	case format.ByteStreamSplit:
		if t != format.Boolean && t != format.Int96 && t != format.ByteArray {
			return new(bytestreamsplit.Encoding), nil
		}
	}
	return nil, fmt.Errorf("its values of %s are encoded as %v, which is not supported; write them PLAIN", typeName(e), kind)
}
