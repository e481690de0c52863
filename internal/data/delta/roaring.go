package delta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// Cookies and sizes of roaring bitmaps.
const (
	cookieRuns   = 12347 // in the lower half
	cookiePlain  = 12346
	mostInArray  = 4096 // values of a container; more are a bitmap
	bitmapBytes  = 8192
	offsetsSince = 4       // containers, if some have runs
	maxDeleted   = 1 << 26 // rows of a file
)

// cursor reads little-endian numbers. After the end they are 0, and short is set.
type cursor struct {
	b     []byte
	short bool
}

func (c *cursor) next(n int) []byte {
	if n > len(c.b) {
		c.short, c.b = true, nil
		return make([]byte, min(n, bitmapBytes))
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

func (c *cursor) uint16() uint16 { return binary.LittleEndian.Uint16(c.next(2)) }
func (c *cursor) uint32() uint32 { return binary.LittleEndian.Uint32(c.next(4)) }

// bitmap decodes a roaring bitmap.
func (c *cursor) bitmap() (rows []uint32, err error) {
	cookie := c.uint32()
	n, runs := 0, []byte(nil)
	switch {
	case cookie&0xffff == cookieRuns:
		n = int(cookie>>16) + 1
		runs = c.next((n + 7) / 8)
	case cookie == cookiePlain:
		n = int(min(c.uint32(), 1<<16+1))
	default:
		return nil, fmt.Errorf("%w: a bitmap begins with %d", errVector, cookie)
	}
	if n > 1<<16 || len(c.b) < 4*n {
		return nil, errVector
	}
	heads := c.next(4 * n)
	if runs == nil || n >= offsetsSince {
		c.next(min(4*n, len(c.b))) // the containers follow in order
	}
	for i := range n {
		upper := uint32(binary.LittleEndian.Uint16(heads[4*i:])) << 16
		size := int(binary.LittleEndian.Uint16(heads[4*i+2:])) + 1
		before := len(rows)
		if runs != nil && runs[i/8]>>(i%8)&1 != 0 {
			rows = c.runs(rows, upper)
		} else {
			rows = c.container(rows, upper, size)
		}
		switch {
		case c.short || len(rows)-before != size:
			return nil, errVector
		case len(rows) > maxDeleted:
			return nil, fmt.Errorf("more than %d deleted rows in a file; run OPTIMIZE", maxDeleted)
		}
	}
	return rows, nil
}

// runs appends the rows of a container of runs: first value and length less one of each.
func (c *cursor) runs(rows []uint32, upper uint32) []uint32 {
	for range int(c.uint16()) {
		first, more := int(c.uint16()), int(c.uint16())
		if c.short || first+more > 0xffff {
			c.short = true
			return rows
		}
		for k := first; k <= first+more; k++ {
			rows = append(rows, upper|uint32(k))
		}
		if len(rows) > maxDeleted+1<<16 {
			c.short = true
		}
	}
	return rows
}

// container appends the rows of an array or a bitmap of size values.
func (c *cursor) container(rows []uint32, upper uint32, size int) []uint32 {
	if size <= mostInArray {
		b := c.next(2 * size)
		for i := range size {
			rows = append(rows, upper|uint32(binary.LittleEndian.Uint16(b[2*i:])))
		}
		return rows
	}
	b := c.next(bitmapBytes)
	for i := 0; i < bitmapBytes; i += 8 {
		for word := binary.LittleEndian.Uint64(b[i:]); word != 0; word &= word - 1 {
			rows = append(rows, upper|uint32(8*i+bits.TrailingZeros64(word)))
		}
	}
	return rows
}

var errVector = errors.New("the set of rows is damaged")
