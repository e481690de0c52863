package table

import (
	"encoding/binary"
	"fmt"

	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// checkDelta checks the numbers of values that blocks of differences state, because the
// library allocates them. widest is the largest width of a difference in bits.
func checkDelta(kind format.Encoding, src []byte) (widest byte, err error) {
	switch kind {
	case format.DeltaBinaryPacked, format.DeltaLengthByteArray:
		_, widest, err = skipDelta(src)
	case format.DeltaByteArray:
		if src, widest, err = skipDelta(src); err == nil {
			_, _, err = skipDelta(src)
		}
	}
	return widest, err
}

// wideDifferences decodes n integers of 32 bits whose differences have more, as DuckDB writes
// them: two integers differ by up to 2^32. The library's decoder of 32 bits returns other values.
func (t *typed) wideDifferences(enc encoding.Encoding, src []byte, n int) error {
	wide, err := enc.DecodeInt64(nil, src)
	if err != nil {
		return err
	}
	t.int32s = t.int32s[:0]
	for _, x := range wide {
		t.int32s = append(t.int32s, int32(x))
	}
	return t.trim(format.Int32, n)
}

// skipDelta returns what follows blocks of differences:
//
//	values per block · parts per block · number of values, uvarints · first value, varint
//	per block: least difference, varint · width of each part, 1 byte · parts, packed
func skipDelta(src []byte) (rest []byte, widest byte, err error) {
	var head [3]uint64
	size := 0
	for i := range head {
		if head[i], size = binary.Uvarint(src); size <= 0 {
			return nil, 0, errShort
		}
		src = src[size:]
	}
	if _, size = binary.Varint(src); size <= 0 {
		return nil, 0, errShort
	}
	src = src[size:]
	block, parts, left := head[0], head[1], int64(head[2])
	if left > maxPageValues || left < 0 || parts == 0 || parts > block || block > maxPageValues {
		return nil, 0, fmt.Errorf("blocks of %d differences in %d parts for %d values, at most %d are possible", block, parts, head[2], maxPageValues)
	}
	for left--; left > 0; {
		if _, size = binary.Varint(src); size <= 0 || len(src)-size < int(parts) {
			return nil, 0, errShort
		}
		widths := src[size : size+int(parts)]
		src = src[size+int(parts):]
		for _, width := range widths {
			if left <= 0 {
				break
			}
			widest = max(widest, width)
			left -= int64(block / parts)
			bytes := int(block/parts) * int(width) / 8
			if bytes > len(src) {
				if left <= 0 {
					return nil, widest, nil // some writers cut the last part
				}
				return nil, 0, errShort
			}
			src = src[bytes:]
		}
	}
	return src, widest, nil
}
