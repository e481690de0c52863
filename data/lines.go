package data

import (
	"bytes"
	"errors"
	"io"
)

const (
	mostLine  = 1 << 20   // bytes of the longest line
	readBytes = 128 << 10 // of one read
)

var (
	errLongLine = errors.New("a line is longer than 1 MiB; is this a text file with one record per line?")
	errShrunk   = errors.New("the file ended early")
)

// lines reads the lines that begin in a range of a file, many per read. It is
// used again and again; its buffer grows to the longest line met.
type lines struct {
	src  io.ReaderAt
	size int64 // of the file
	hi   int64 // lines that begin here or later are not read
	off  int64 // file offset of the next line: of buf[r]
	buf  []byte
	r, w int // unread bytes of buf
}

// start makes l read the lines that begin in [lo, hi) of a file. Unless lo is
// known to be the beginning of a line, the rest of the line it lies in, which
// belongs to an earlier range, is skipped.
func (l *lines) start(src io.ReaderAt, size, lo, hi int64, atLine bool) error {
	l.src, l.size, l.hi, l.off, l.r, l.w = src, size, hi, lo, 0, 0
	if atLine || lo == 0 {
		return nil
	}
	// From the byte before lo: if that is a line feed, a line begins at lo.
	l.off = lo - 1
	_, _, err := l.cut()
	if err == io.EOF {
		err = nil
	}
	return err
}

// next returns the next line, without its end, and the offset of its first
// byte; io.EOF after the last. The line is valid until the next call.
func (l *lines) next() (line []byte, at int64, err error) {
	if l.off >= l.hi {
		return nil, 0, io.EOF
	}
	return l.cut()
}

func (l *lines) cut() ([]byte, int64, error) {
	seen := 0 // bytes of buf[r:w] known to hold no line feed
	for {
		if i := bytes.IndexByte(l.buf[l.r+seen:l.w], '\n'); i >= 0 {
			return l.take(seen+i, 1)
		}
		if seen = l.w - l.r; seen > mostLine {
			return nil, l.off, errLongLine
		}
		if l.off+int64(seen) >= l.size {
			if seen == 0 {
				return nil, 0, io.EOF
			}
			return l.take(seen, 0)
		}
		if err := l.fill(); err != nil {
			return nil, l.off, err
		}
	}
}

// take returns the next n bytes as a line and skips its end.
func (l *lines) take(n, end int) ([]byte, int64, error) {
	line, at := l.buf[l.r:l.r+n], l.off
	if n > mostLine {
		return nil, at, errLongLine
	}
	l.r += n + end
	l.off += int64(n + end)
	if n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, at, nil
}

// fill reads more bytes behind the unread ones, which it moves to the front.
func (l *lines) fill() error {
	l.w = copy(l.buf, l.buf[l.r:l.w])
	l.r = 0
	if len(l.buf)-l.w < readBytes {
		grown := make([]byte, max(2*len(l.buf), 2*readBytes))
		copy(grown, l.buf[:l.w])
		l.buf = grown
	}
	// Not far past the end of the range, whose last line alone may reach there.
	from := l.off + int64(l.w)
	want := min(int64(readBytes), l.size-from)
	if left := l.hi - from + 4096; left > 0 {
		want = min(want, left)
	}
	n, err := l.src.ReadAt(l.buf[l.w:l.w+int(want)], from)
	l.w += n
	if int64(n) == want {
		return nil
	}
	if err == nil || err == io.EOF {
		return errShrunk
	}
	return err
}

// begin makes l read the lines of a block, from its first.
func (l *lines) begin(src source, f *file, b block) error {
	if b.lo == 0 {
		return l.start(src, f.size, f.mark, b.hi, true)
	}
	return l.start(src, f.size, b.lo, b.hi, false)
}
