package synth

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
)

const (
	writeBytes = 64 << 10
	lineBytes  = 1 << 10 // more than any line: 64 tokens of 9 bytes, 16 numbers of 6
)

// Write writes rows start to start+rows-1 to w, in pieces of about 64 KiB.
func (g *Generator) Write(w io.Writer, start, rows int64) error {
	if start < 0 || rows < 0 || start > MaxRow || rows > MaxRow-start {
		return fmt.Errorf("synth: write: %s: %d rows from row %d: a profile has rows 0 to %d", g.name, rows, start, int64(MaxRow)-1)
	}
	var s Row
	b := make([]byte, 0, writeBytes)
	for n := start; n < start+rows; n++ {
		g.Draw(n, &s)
		b = g.appendLine(b, &s)
		if cap(b)-len(b) >= lineBytes && n+1 < start+rows {
			continue
		}
		if _, err := w.Write(b); err != nil {
			return fmt.Errorf("synth: write: %s: near row %d: %w", g.name, n, err)
		}
		b = b[:0]
	}
	return nil
}

// appendLine appends s as a line of text.
func (g *Generator) appendLine(b []byte, s *Row) []byte {
	label := byte('0')
	if s.Label {
		label = '1'
	}
	b = append(b, label)
	for _, x := range s.Dense[:g.dense] {
		b = append(b, '\t')
		if x >= 0 {
			b = strconv.AppendInt(b, x, 10)
		}
	}
	for f := range g.vocab {
		b = append(b, '\t')
		if token, ok := s.Token(f); ok {
			b = appendHex(b, token)
		}
	}
	return append(b, '\n')
}

// appendHex appends the eight lower-case hexadecimal digits of v, all at once:
// its nibbles are spread over the bytes of a word, and 6 is added to find those
// that need a letter.
func appendHex(b []byte, v uint32) []byte {
	x := uint64(v)
	x = (x | x<<16) & 0x0000FFFF0000FFFF
	x = (x | x<<8) & 0x00FF00FF00FF00FF
	x = (x | x<<4) & 0x0F0F0F0F0F0F0F0F
	letter := (x + 0x0606060606060606) >> 4 & 0x0101010101010101
	return binary.BigEndian.AppendUint64(b, x+0x3030303030303030+letter*('a'-'0'-10))
}
