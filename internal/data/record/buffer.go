package record

import (
	"errors"
	"io"
	"math"
)

const (
	readBytes = 32 << 10 // of one read

	// beyond is how much is read behind the end of a range at once: only its last record reaches
	// there.
	beyond = 4 << 10
)

// unknownSize is the size of a packed file before its end is reached.
const unknownSize = math.MaxInt64

// ErrShrunk means that a file has fewer bytes than its size.
var ErrShrunk = errors.New("the file ended early")

// buffer reads a file sequentially, many records per read. It is reused. Its memory grows
// to the longest record met, and never beyond the actual bytes of the file.
type buffer struct {
	src  io.ReaderAt
	size int64 // of the file
	hi   int64 // end of the needed range
	off  int64 // file offset of the next byte: of buf[r]
	buf  []byte
	r, w int // buf[r:w] is unread
}

// seek makes b read from offset lo.
func (b *buffer) seek(src io.ReaderAt, size, lo, hi int64) {
	if s, ok := src.(interface{ Expect(lo, hi int64) }); ok && hi < math.MaxInt64-beyond { // a file on another machine
		s.Expect(max(lo-1, 0), min(hi+beyond, size)) // lines begin behind a line feed
	}
	b.src, b.size, b.hi, b.off, b.r, b.w = src, size, hi, lo, 0, 0
}

// peek returns the next n bytes, or fewer at the end of the file. They are valid until the
// next call.
func (b *buffer) peek(n int) ([]byte, error) {
	for b.w-b.r < n && b.off+int64(b.w-b.r) < b.size {
		if err := b.fill(); err != nil {
			return nil, err
		}
	}
	return b.buf[b.r : b.r+min(n, b.w-b.r)], nil
}

// skip skips n bytes that peek has returned.
func (b *buffer) skip(n int) {
	b.r += n
	b.off += int64(n)
}

// fill moves the unread bytes to the front and reads more behind them. At the end of a
// file of unknown size it reads nothing and sets the size.
func (b *buffer) fill() error {
	b.w = copy(b.buf, b.buf[b.r:b.w])
	b.r = 0
	from := b.off + int64(b.w)
	want := min(int64(readBytes), b.size-from)
	if least := b.w + int(want); len(b.buf) < least { // a small file needs no more
		if b.size-from > readBytes {
			least = max(least, 2*readBytes)
		}
		grown := make([]byte, max(2*len(b.buf), least))
		copy(grown, b.buf[:b.w])
		b.buf = grown
	}
	if left := b.hi - from; left > 0 && left < math.MaxInt64-beyond {
		want = min(want, left+beyond)
	}
	n, err := b.src.ReadAt(b.buf[b.w:b.w+int(want)], from)
	b.w += n
	switch {
	case int64(n) == want:
		return nil
	case err != nil && err != io.EOF:
		return err
	case b.size != unknownSize:
		return ErrShrunk
	}
	b.size = from + int64(n)
	return nil
}
