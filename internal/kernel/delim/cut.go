// Package delim finds the fields of a line of text, 64 bytes at a time. The loop in its
// test is the specification. Cut uses assembly where available (not with the build tag
// noasm), and words of eight bytes elsewhere.
package delim

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Field is the position of a field in its line: bytes Lo to Hi.
type Field struct{ Lo, Hi int32 }

// Cutter cuts lines into a fixed number of fields. It belongs to one goroutine.
type Cutter struct {
	fields []Field  // with space for those written past the end
	width  int      // fields per line
	tail   [64]byte // copy of a short line
}

// spare is the number of fields that may be written past the last.
const spare = 64 + 8

// NewCutter returns a Cutter of lines with width ≥ 1 fields.
func NewCutter(width int) *Cutter {
	return &Cutter{fields: make([]Field, width+spare), width: width}
}

// Cut returns the fields between the delimiters of a line, or nil if there are not width
// fields. blanks reports whether the line has other bytes that are at most a space. The
// fields are valid until the next call. The line must be shorter than 2 GiB.
func (c *Cutter) Cut(line []byte, delim byte) (fields []Field, blanks bool) {
	n := len(line)
	if n < len(c.tail) {
		c.tail = noBlank
		copy(c.tail[:], line)
		if line = c.tail[:]; delim == noBlank[0] {
			clear(line[n:]) // not a delimiter; counts as a blank, which is harmless
		}
	}
	found, blanks := c.find(line, delim)
	if found != c.width-1 {
		return nil, blanks
	}
	c.fields[0].Lo, c.fields[found].Hi = 0, int32(n)
	return c.fields[:c.width], blanks
}

// noBlank pads a short line.
var noBlank = [64]byte(bytes.Repeat([]byte{'x'}, 64))

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// findPlain stores the delimiters of a line of at least 64 bytes as the ends and
// beginnings of fields. It returns their number, or any number that is too large.
func (c *Cutter) findPlain(line []byte, delim byte) (found int, blanks bool) {
	blank, every := uint64(0), ones*uint64(delim)
	for base := 0; base < len(line) && found < c.width; base += 64 {
		skip := max(base+64-len(line), 0)
		marks, others := look(line[base-skip:], every)
		blank |= others
		for marks >>= skip; marks != 0; marks &= marks - 1 {
			at := int32(base + bits.TrailingZeros64(marks))
			c.fields[found].Hi, c.fields[found+1].Lo = at, at+1
			found++
		}
	}
	return found, blank != 0
}

// look returns which of 64 bytes are the delimiter that every has in each byte. blanks is
// not 0 if other bytes are blanks.
func look(b []byte, every uint64) (delims, blanks uint64) {
	b = b[:64]
	for w := 0; w < 64; w += 8 {
		v := binary.LittleEndian.Uint64(b[w:])
		y := v ^ every
		// High bits: the byte is above a blank; it is not the delimiter.
		visible := v&^highs + (0x7f-' ')*ones | v
		other := y&^highs + ^uint64(highs) | y
		blanks |= ^visible & other & highs
		// Gather the eight bits in the highest byte, each shifted by a different distance,
		// without carries.
		delims |= ^other & highs >> 7 * 0x0102040810204080 >> 56 << w
	}
	return delims, blanks
}
