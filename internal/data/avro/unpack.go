package avro

import (
	"bytes"
	"compress/bzip2"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// unpacker decompresses blocks.
type unpacker struct {
	codec   string
	deflate io.Reader // a flate.Resetter
	zstd    *zstd.Decoder
	plain   bytes.Buffer
}

// choose sets the codec, which a file names.
func (u *unpacker) choose(codec string) error {
	switch u.codec = codec; codec {
	case "", "null", "deflate", "snappy", "zstandard", "bzip2":
		return nil
	}
	return fmt.Errorf("its blocks are packed with %q, which is not supported; write it with deflate, snappy or zstandard", codec)
}

// unpack returns the bytes of a block. They are valid until the next one.
func (u *unpacker) unpack(b []byte) ([]byte, error) {
	switch u.codec {
	case "deflate":
		if u.deflate == nil {
			u.deflate = flate.NewReader(nil)
		}
		if err := u.deflate.(flate.Resetter).Reset(bytes.NewReader(b), nil); err != nil {
			return nil, err
		}
		return u.limited(u.deflate)
	case "bzip2":
		return u.limited(bzip2.NewReader(bytes.NewReader(b)))
	case "snappy":
		const sum = 4
		if len(b) < sum {
			return nil, errShort
		}
		n, err := snappy.DecodedLen(b[:len(b)-sum])
		if err == nil && (n > maxBlock || n > 64*len(b)+64) {
			err = fmt.Errorf("it unpacks to %d bytes", n)
		}
		if err != nil {
			return nil, err
		}
		plain, err := snappy.Decode(nil, b[:len(b)-sum])
		if err == nil && crc32.ChecksumIEEE(plain) != binary.BigEndian.Uint32(b[len(b)-sum:]) {
			err = errors.New("its checksum is wrong")
		}
		return plain, err
	case "zstandard":
		var err error
		if u.zstd == nil {
			u.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlock), zstd.WithDecoderMaxWindow(128<<20))
		}
		if err != nil {
			return nil, err
		}
		if err := u.zstd.Reset(bytes.NewReader(b)); err != nil {
			return nil, err
		}
		return u.limited(u.zstd)
	}
	return b, nil
}

// limited reads a block to its end.
func (u *unpacker) limited(r io.Reader) ([]byte, error) {
	u.plain.Reset()
	_, err := u.plain.ReadFrom(io.LimitReader(r, maxBlock+1))
	if err == nil && u.plain.Len() > maxBlock {
		err = fmt.Errorf("it unpacks to more than %d bytes; write smaller blocks", maxBlock)
	}
	return u.plain.Bytes(), err
}
