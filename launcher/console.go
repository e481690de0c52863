package launcher

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"
)

// console is the launcher's standard output and error, shared by the lines of
// all ranks and the progress line. Each line is written whole, and the progress
// line of a terminal is taken away before it and put back after it.
type console struct {
	mu       sync.Mutex
	stdout   io.Writer
	stderr   io.Writer
	progress string // on the terminal of stderr now, without line end
}

// write writes whole lines to one of the two.
func (c *console) write(w io.Writer, text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.progress != "" {
		io.WriteString(c.stderr, "\r\x1b[K")
	}
	w.Write(text)
	if c.progress != "" {
		io.WriteString(c.stderr, c.progress)
	}
}

// lineWriter writes whole lines to standard error, between those of the ranks.
type lineWriter struct{ console *console }

// Write takes whole lines.
func (w lineWriter) Write(p []byte) (int, error) {
	w.console.write(w.console.stderr, p)
	return len(p), nil
}

// show puts a progress line in the place of the last; "" takes it away.
func (c *console) show(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if line == c.progress {
		return
	}
	c.progress = line
	io.WriteString(c.stderr, "\r\x1b[K"+line)
}

// maxLine is where a line that does not end is broken.
const maxLine = 64 << 10

// lines is the writer of one output of one rank. It passes on whole lines, each
// with the rank's prefix.
type lines struct {
	console *console
	to      io.Writer
	prefix  string

	mu   sync.Mutex
	part []byte // a line that has not ended yet
	text []byte // scratch
}

func newLines(c *console, to io.Writer, rank int, prefixed bool) *lines {
	l := &lines{console: c, to: to}
	if prefixed {
		l.prefix = fmt.Sprintf("[%d] ", rank)
	}
	return l
}

// Write takes what the rank wrote. It never fails: a launcher that cannot write
// is ended by the system, not by its ranks.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(p)
	l.text = l.text[:0]
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		piece := p
		if end >= 0 {
			piece = p[:end]
		}
		if room := maxLine - len(l.part); len(piece) > room {
			l.part = append(l.part, piece[:room]...)
			p = p[room:]
			l.breakLine()
			continue
		}
		l.part = append(l.part, piece...)
		p = p[len(piece):]
		if end >= 0 {
			p = p[1:]
			l.endLine(len(l.part))
		}
	}
	if len(l.text) > 0 {
		l.console.write(l.to, l.text)
	}
	return n, nil
}

// breakLine ends a line that is too long, not within a character.
func (l *lines) breakLine() {
	n := len(l.part)
	for i := 1; i <= utf8.UTFMax && i < n; i++ {
		if utf8.RuneStart(l.part[n-i]) {
			if !utf8.FullRune(l.part[n-i:]) {
				n -= i
			}
			break
		}
	}
	l.endLine(n)
}

// endLine moves the first n bytes of the part to the text, as a line.
func (l *lines) endLine(n int) {
	l.text = append(l.text, l.prefix...)
	l.text = append(l.text, l.part[:n]...)
	l.text = append(l.text, '\n')
	l.part = l.part[:copy(l.part, l.part[n:])]
}

// flush passes on a last line that has no end.
func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.part) == 0 {
		return
	}
	l.text = l.text[:0]
	l.endLine(len(l.part))
	l.console.write(l.to, l.text)
}
