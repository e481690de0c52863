package record

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
)

// members reads the members of a gzip file. Zeros may follow a member: tapes and some object stores
// pad files, and gzip ignores them.
type members struct {
	*gzip.Reader
	src *bufio.Reader
}

func newMembers(r io.Reader) (io.ReadCloser, error) {
	src := bufio.NewReaderSize(r, readBytes)
	z, err := gzip.NewReader(src)
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	return &members{z, src}, nil
}

func (m *members) Read(b []byte) (n int, err error) {
	for {
		if n, err = m.Reader.Read(b); err != io.EOF || n > 0 {
			if err == io.EOF {
				err = nil
			}
			return n, err
		}
		c := byte(0)
		for c == 0 {
			if c, err = m.src.ReadByte(); err != nil {
				return 0, err
			}
		}
		_ = m.src.UnreadByte() // follows ReadByte
		if err := m.Reset(m.src); err != nil {
			return 0, err
		}
		m.Multistream(false)
	}
}

// hadoopBlocks reads the files that codecs of Hadoop write, which have no magic:
//
//	block: unpacked size, 4 bytes · chunks
//	chunk: packed size, 4 bytes · packed bytes
//
// Sizes have their highest byte first. The chunks of a block unpack to its size.
type hadoopBlocks struct {
	src    *bufio.Reader
	unpack func(packed, dst []byte) (int, error)
	packed []byte
	plain  []byte
	rest   []byte // of plain, not yet read
	left   int    // unpacked bytes of the block in later chunks
}

// maxHadoopBlock is the maximum size of a block. Codecs write 64 KiB to 256 KiB by default.
const maxHadoopBlock = 64 << 20

func newHadoopBlocks(unpack func(packed, dst []byte) (int, error)) func(io.Reader) (io.ReadCloser, error) {
	return func(r io.Reader) (io.ReadCloser, error) {
		return io.NopCloser(&hadoopBlocks{src: bufio.NewReaderSize(r, readBytes), unpack: unpack}), nil
	}
}

// snappyChunk unpacks a chunk of snappy.
func snappyChunk(packed, dst []byte) (int, error) {
	n, err := snappy.DecodedLen(packed)
	if err == nil && n > len(dst) {
		err = errors.New("a chunk is larger than its block")
	}
	if err != nil {
		return 0, err
	}
	_, err = snappy.Decode(dst, packed)
	return n, err
}

func (h *hadoopBlocks) Read(b []byte) (n int, err error) {
	for len(h.rest) == 0 {
		if err := h.next(); err != nil {
			return 0, err
		}
	}
	n = copy(b, h.rest)
	h.rest = h.rest[n:]
	return n, nil
}

// next unpacks the next chunk.
func (h *hadoopBlocks) next() error {
	if h.left == 0 {
		n, err := h.size()
		if err != nil {
			return err
		}
		h.left = n
		return nil
	}
	n, err := h.size()
	if err == nil {
		h.packed = resized(h.packed, n)
		_, err = io.ReadFull(h.src, h.packed)
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	h.plain = resized(h.plain, h.left)
	if n, err = h.unpack(h.packed, h.plain); err != nil {
		return err
	}
	h.rest, h.left = h.plain[:n], h.left-n
	return nil
}

// size reads a size; io.EOF at the end of the file.
func (h *hadoopBlocks) size() (int, error) {
	var b [4]byte
	if _, err := io.ReadFull(h.src, b[:]); err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint32(b[:])
	if n > maxHadoopBlock {
		return 0, fmt.Errorf("a block of %d bytes, at most %d are possible", n, maxHadoopBlock)
	}
	return int(n), nil
}

// resized returns b with n bytes. Their values are undefined.
func resized(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}
