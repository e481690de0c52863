package record

import (
	"bytes"
	"errors"
	"io"
)

// MostLine bounds a line, and a word of a vocabulary.
const MostLine = 1 << 20 // bytes of the longest line

// ErrLongLine ends a file: what is behind cannot be told from the line.
var ErrLongLine = errors.New("a line is longer than 1 MiB; is this a text file with one record per line?")

// lines reads the lines that begin in a range of a file.
type lines struct {
	buffer
	quotes *quotes // nil: quotes do not matter
}

// start makes l read the lines that begin in [lo, hi) of a file. Unless lo is
// known to be the beginning of a line, the rest of the line it is in, which
// belongs to an earlier range, is skipped.
func (l *lines) start(src io.ReaderAt, size, lo, hi int64, atLine bool) error {
	l.seek(src, size, lo, hi)
	l.quotes.reset()
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
	seen := 0 // bytes of buf[r:w] known to hold no end of the line
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
		case (ends || seen > MostLine) && l.quotes.isOpen() && l.quotes.open(l.buf[l.r:l.w]):
			return l.take(l.quotes.first, 1) // nothing closes the quote: only its line is bad
		case seen > MostLine:
			return nil, l.off, ErrLongLine
		case ends && seen == 0:
			return nil, 0, io.EOF
		case ends:
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
	if n > MostLine {
		return nil, at, ErrLongLine
	}
	l.skip(n + end)
	l.quotes.reset()
	if n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, at, nil
}

// begin makes l read the lines of a block, from its first.
func (l *lines) begin(src Content, f *File, b Block) error {
	if b.Lo == 0 {
		return l.start(src, f.size, f.mark, b.Hi, true)
	}
	return l.start(src, f.size, b.Lo, b.Hi, false)
}
