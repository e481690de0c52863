package export

import (
	"encoding/binary"
	"fmt"

	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// mapped is an open table.
type mapped struct {
	codec   codec
	salt    uint64
	n       int    // rows
	records []byte // each a key and its row
	index   index
}

// newMapped returns the table in the two sections at the beginning of b. It checks sizes
// and the index, so that no lookup is out of range.
func newMapped(c codec, t Table, sections []section, b []byte, pause Pause) (mapped, error) {
	m := mapped{codec: c, salt: table.Salt(t.Name), n: int(t.Rows)}
	if c.width != t.Width {
		return m, fmt.Errorf("rows of %d values, the configuration has %d", t.Width, c.width)
	}
	rows := t.Rows * int64(c.record())
	want := [tableSections]int64{padded(rows), t.Lines * lineBytes}
	for i, n := range want {
		if s := sections[i]; s.Length != n {
			return m, fmt.Errorf("section %q has %d bytes, %d rows of %d bytes and %d lines of the index need %d", s.Name, s.Length, t.Rows, c.record(), t.Lines, n)
		}
	}
	m.records, m.index = b[:rows:rows], index(b[want[0]:][:want[1]:want[1]])
	return m, m.index.check(m.n, pause)
}

func padded(n int64) int64 { return (n + align - 1) / align * align }

// row returns the key and the row of a record.
func (m *mapped) row(i int) (key uint64, row []byte) {
	n := m.codec.record()
	b := m.records[i*n:][:n]
	return binary.LittleEndian.Uint64(b), b[keyBytes:]
}

// deltaTable parses the table at the beginning of b, and returns the rest.
func deltaTable(t Table, of sparse.Table, sections []section, b []byte, pause Pause) (m mapped, rest []byte, err error) {
	if !t.sized() {
		return m, nil, fmt.Errorf("table %q: %d rows, %d lines", of.Name, t.Rows, t.Lines)
	}
	if m, err = newMapped(newCodec(float32s, of), t, sections, b, pause); err != nil {
		return m, nil, fmt.Errorf("table %q: %w", of.Name, err)
	}
	for _, s := range sections {
		b = b[s.Length:]
	}
	return m, b, nil
}
