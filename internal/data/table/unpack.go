package table

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// unpacker decompresses pages. A page must have exactly the size that its header states:
// nothing grows beyond it.
type unpacker struct {
	plain  []byte // the last page
	src    bytes.Reader
	gzip   *gzip.Reader
	brotli *brotli.Reader
	zstd   *zstd.Decoder
}

// unpack returns the size bytes of a page, valid until the next call.
func (u *unpacker) unpack(codec format.CompressionCodec, packed []byte, size int) ([]byte, error) {
	if codec == format.Uncompressed {
		return packed, nil
	}
	if size == 0 {
		return nil, nil
	}
	u.plain = sized(u.plain, size)
	n, err := u.into(u.plain, codec, packed)
	if err != nil {
		return nil, fmt.Errorf("its %d bytes of %v: %w", len(packed), codec, err)
	}
	if n != size {
		return nil, fmt.Errorf("unpacks to %d bytes, its header states %d", n, size)
	}
	return u.plain, nil
}

// into unpacks into dst and returns the number of bytes.
func (u *unpacker) into(dst []byte, codec format.CompressionCodec, packed []byte) (n int, err error) {
	switch codec {
	case format.Snappy:
		if n, err = snappy.DecodedLen(packed); err != nil || n != len(dst) {
			return n, err
		}
		_, err = snappy.Decode(dst, packed)
		return n, err
	case format.Lz4Raw:
		return lz4.UncompressBlock(packed, dst)
	case format.Lz4:
		if n, ok := hadoopBlocks(dst, packed); ok {
			return n, nil
		}
		return lz4.UncompressBlock(packed, dst) // as early versions of Arrow and fastparquet write it
	case format.Zstd:
		if u.zstd == nil {
			if u.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true)); err != nil {
				return 0, err
			}
		}
		b, err := u.zstd.DecodeAll(packed, dst[:0:len(dst)])
		return len(b), err
	case format.Gzip:
		u.src.Reset(packed)
		if u.gzip == nil {
			u.gzip = new(gzip.Reader)
		}
		if err := u.gzip.Reset(&u.src); err != nil {
			return 0, err
		}
		return all(u.gzip, dst)
	}
	u.src.Reset(packed)
	if u.brotli == nil {
		u.brotli = new(brotli.Reader)
	}
	if err := u.brotli.Reset(&u.src); err != nil {
		return 0, err
	}
	return all(u.brotli, dst)
}

// hadoopBlocks unpacks a page in the deprecated framing of LZ4, which Spark and Hive write. It
// returns false if the sizes do not fit: other writers use no framing.
//
//	bytes of a block, unpacked, 4 bytes · parts, until these are complete
//	part: its bytes packed, 4 bytes · a block of LZ4
//
// Numbers have the highest byte first.
func hadoopBlocks(dst, packed []byte) (n int, ok bool) {
	for end := 0; len(packed) > 0 || n < end; {
		if n == end {
			size, rest, ok := bigEndian(packed, len(dst)-n)
			if !ok {
				return 0, false
			}
			end, packed = n+size, rest
			continue
		}
		size, rest, ok := bigEndian(packed, len(packed))
		if !ok || size > len(rest) {
			return 0, false
		}
		m, err := lz4.UncompressBlock(rest[:size], dst[n:end])
		if err != nil || m == 0 {
			return 0, false
		}
		n, packed = n+m, rest[size:]
	}
	return n, n == len(dst)
}

// bigEndian reads a number from 1 to most.
func bigEndian(b []byte, most int) (n int, rest []byte, ok bool) {
	if len(b) < 4 {
		return 0, nil, false
	}
	size := binary.BigEndian.Uint32(b)
	return int(size), b[4:], size > 0 && uint64(size) <= uint64(most)
}

// all reads r to its end into dst, and counts one byte more if there are more.
func all(r io.Reader, dst []byte) (int, error) {
	n, err := io.ReadFull(r, dst)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return n, nil
	} else if err != nil {
		return n, err
	}
	var more [1]byte
	if m, err := io.ReadFull(r, more[:]); err != io.EOF {
		return n + m, err
	}
	return n, nil
}

// sized returns b with n bytes. Their values are undefined.
func sized(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}
