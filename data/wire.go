package data

import (
	"encoding/binary"
	"fmt"
)

// wire decodes what ranks send each other. The first fault sticks; everything
// read after it is zero. Nothing is allocated on the word of a length alone.
type wire struct {
	b   []byte
	err error
}

// mostCount bounds counts, so that sums of them over ranks cannot overflow.
const mostCount = 1 << 48

func (r *wire) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
	r.b = nil
}

func (r *wire) byte() byte {
	if len(r.b) == 0 {
		r.fail("the message ends early")
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *wire) uint64() uint64 {
	if len(r.b) < 8 {
		r.fail("the message ends early")
		return 0
	}
	x := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return x
}

func (r *wire) uvarint() uint64 {
	x, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("the message ends early or holds a broken number")
		return 0
	}
	r.b = r.b[n:]
	return x
}

func (r *wire) count() int64 {
	x := r.uvarint()
	if x > mostCount {
		r.fail("a count of %d", x)
		return 0
	}
	return int64(x)
}

func (r *wire) positive() int64 {
	x := r.count()
	if x == 0 {
		r.fail("a count of nothing")
	}
	return x
}

// length reads how many items follow, each of at least so many bytes.
func (r *wire) length(most, itemBytes int) int {
	x := r.uvarint()
	if x > uint64(most) || x > uint64(len(r.b)/itemBytes) {
		r.fail("a length of %d with %d bytes left", x, len(r.b))
		return 0
	}
	return int(x)
}

func (r *wire) bytes(most int) []byte {
	n := r.length(most, 1)
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *wire) magic(m string) {
	if len(r.b) < len(m) || string(r.b[:len(m)]) != m {
		r.fail("it does not begin with %q", m)
		return
	}
	r.b = r.b[len(m):]
}

// end fails if bytes are left.
func (r *wire) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes behind the end", len(r.b))
	}
	return r.err
}
