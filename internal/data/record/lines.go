package record

import (
	"bytes"
	"errors"
	"io"
)

// MaxLine is the maximum length of a line, and of a word of a vocabulary.
const MaxLine = 1 << 20 // bytes

// ErrLongLine ends the reading of a file: the end of the line is not found.
var ErrLongLine = errors.New("a line is longer than 1 MiB; is this a text file with one record per line?")

// lines reads the lines that begin in a range of a file.
type lines struct {
	buffer
	quotes *quotes // nil: quotes have no meaning
	zeros  bool    // the buffer may have zero bytes
}

// start makes l read the lines that begin in [lo, hi) of a file. Unless atLine is set, it
// skips the rest of the line at lo, which belongs to an earlier range.
func (l *lines) start(src io.ReaderAt, size, lo, hi int64, atLine bool) error {
	l.seek(src, size, lo, hi)
	l.quotes.reset()
	if atLine || lo == 0 {
		return nil
	}
	// Start at the byte before lo: if it is a line feed, a line begins at lo.
	l.off = lo - 1
	_, _, err := l.cut()
	if err == io.EOF {
		err = nil
	}
	return err
}

// next returns the next line, without its end, and the offset of its first byte; io.EOF
// after the last. The line is valid until the next call.
func (l *lines) next() (line []byte, at int64, err error) {
	if l.off >= l.hi {
		return nil, 0, io.EOF
	}
	return l.cut()
}

func (l *lines) cut() ([]byte, int64, error) {
	seen := 0 // bytes of buf[r:w] known not to contain the end of the line
	for {
		if i := bytes.IndexByte(l.buf[l.r+seen:l.w], '\n'); i >= 0 {
			if l.quotes == nil || !l.quotes.open(l.buf[l.r:l.r+seen+i]) {
				return l.take(seen+i, 1)
			}
			seen += i + 1
			continue
		}
		seen = l.w - l.r
		ends := l.off+int64(seen) >= l.size
		switch {
		case (ends || seen > MaxLine) && l.quotes.isOpen() && l.quotes.open(l.buf[l.r:l.w]):
			return l.take(l.quotes.first, 1) // the quote is never closed: only its line is bad
		case seen > MaxLine:
			return nil, l.off, ErrLongLine
		case ends && seen == 0:
			return nil, 0, io.EOF
		case ends:
			return l.take(seen, 0)
		}
		if err := l.fill(); err != nil {
			return nil, l.off, err
		}
		l.zeros = bytes.IndexByte(l.buf[:l.w], 0) >= 0
	}
}

// take returns the next n bytes as a line and skips its end.
func (l *lines) take(n, end int) ([]byte, int64, error) {
	line, at := l.buf[l.r:l.r+n], l.off
	if n > MaxLine {
		return nil, at, ErrLongLine
	}
	l.skip(n + end)
	l.quotes.reset()
	if n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, at, nil
}

// begin starts to read the lines of a block, from its first.
func (l *lines) begin(src Content, f *File, b Block) error {
	if b.Lo == 0 {
		return l.start(src, f.size, f.mark, b.Hi, true)
	}
	return l.start(src, f.size, b.Lo, b.Hi, false)
}

// ErrNoLine means that a file has neither records nor a header.
var ErrNoLine = errors.New("every line is blank or a comment")
