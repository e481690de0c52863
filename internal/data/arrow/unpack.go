package arrow

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// unpacker decompresses buffers.
type unpacker struct {
	zstd *zstd.Decoder
	lz4  *lz4.Reader
}

// unpack returns the size bytes of a buffer, in m. Where the file states far more than are packed, memory grows
// as bytes are read.
func (u *unpacker) unpack(codec byte, packed []byte, size int, m *memory) (plain []byte, err error) {
	const most = 1 << 6 // times as many bytes as are packed
	trusted := size <= most*len(packed)
	var r io.Reader
	switch codec {
	case 0:
		if u.lz4 == nil {
			u.lz4 = lz4.NewReader(nil)
		}
		u.lz4.Reset(bytes.NewReader(packed))
		r = u.lz4
	case 1:
		if u.zstd == nil {
			if u.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true)); err != nil {
				return nil, err
			}
		}
		if !trusted {
			d, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBuffer))
			if err != nil {
				return nil, err
			}
			defer d.Close()
			r = d
			break
		}
		plain, err = u.zstd.DecodeAll(packed, m.next(size)[:0])
		if err == nil && len(plain) != size {
			err = fmt.Errorf("it unpacks to %d bytes, its head states %d", len(plain), size)
		}
		return plain, wrapped(err)
	default:
		return nil, fmt.Errorf("a buffer is compressed with codec %d, which is not supported; write it with LZ4 or Zstandard", codec)
	}
	if trusted {
		plain = m.next(size)
		_, err = io.ReadFull(r, plain)
		return plain, wrapped(err)
	}
	const step = 1 << 20
	for len(plain) < size {
		n := min(size-len(plain), max(step, len(plain)))
		plain = append(plain, make([]byte, n)...)
		if _, err := io.ReadFull(r, plain[len(plain)-n:]); err != nil {
			return nil, wrapped(err)
		}
	}
	return plain, nil
}

func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("a compressed buffer is damaged: %w", err)
}
