package launcher

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"
)

// console is the launcher's standard output and error, shared by the lines of all ranks and
// the progress line. Each line is written whole. The progress line of a terminal is removed
// before it and restored after it.
type console struct {
	mu       sync.Mutex
	stderr   io.Writer
	progress string // shown on the terminal of stderr, without newline
}

// write writes whole lines to standard output or error.
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

// lineWriter writes whole lines to standard error, between the lines of the ranks.
type lineWriter struct{ console *console }

// Write expects whole lines.
func (w lineWriter) Write(p []byte) (int, error) {
	w.console.write(w.console.stderr, p)
	return len(p), nil
}

// show replaces the progress line by line; "" removes it.
func (c *console) show(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if line == c.progress {
		return
	}
	c.progress = line
	io.WriteString(c.stderr, "\r\x1b[K"+line)
}

// maxLine is the length at which a line without end is split, in bytes.
const maxLine = 64 << 10

// lines is the writer of one output of one rank. It forwards whole lines, each with the
// rank's prefix.
type lines struct {
	console *console
	to      io.Writer
	prefix  string

	mu   sync.Mutex
	part []byte // an incomplete line
	text []byte // scratch memory
}

func newLines(c *console, to io.Writer, rank int, prefixed bool) *lines {
	l := &lines{console: c, to: to}
	if prefixed {
		l.prefix = fmt.Sprintf("[%d] ", rank)
	}
	return l
}

// Write takes the output of the rank. It never fails: if the launcher's own output is
// closed, the system ends the launcher.
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
		if free := maxLine - len(l.part); len(piece) > free {
			l.part = append(l.part, piece[:free]...)
			p = p[free:]
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

// breakLine ends a line that is too long, at a character boundary.
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

// endLine moves the first n bytes of part to text, as a line.
func (l *lines) endLine(n int) {
	l.text = append(l.text, l.prefix...)
	l.text = append(l.text, l.part[:n]...)
	l.text = append(l.text, '\n')
	l.part = l.part[:copy(l.part, l.part[n:])]
}

// flush forwards a last line without newline.
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
