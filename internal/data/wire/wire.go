// Package wire decodes messages between ranks about the data that they have read.
//
// The first fault is kept, and later reads return zero. No allocation depends only on a
// length in the message.
package wire

import (
	"encoding/binary"
	"fmt"
)

// Reader decodes a message.
type Reader struct {
	B   []byte // the unread rest
	Err error  // the first fault
}

// maxCount is the maximum count, so that sums over ranks cannot overflow.
const maxCount = 1 << 48

// Fail records a fault, unless there is one already.
func (r *Reader) Fail(format string, args ...any) {
	if r.Err == nil {
		r.Err = fmt.Errorf(format, args...)
	}
	r.B = nil
}

// Byte reads a byte.
func (r *Reader) Byte() byte {
	if len(r.B) == 0 {
		r.Fail("the message ends early")
		return 0
	}
	c := r.B[0]
	r.B = r.B[1:]
	return c
}

// Uint64 reads eight bytes.
func (r *Reader) Uint64() uint64 {
	if len(r.B) < 8 {
		r.Fail("the message ends early")
		return 0
	}
	x := binary.LittleEndian.Uint64(r.B)
	r.B = r.B[8:]
	return x
}

// Uvarint reads an unsigned varint.
func (r *Reader) Uvarint() uint64 {
	x, n := binary.Uvarint(r.B)
	if n <= 0 {
		r.Fail("the message ends early or holds a broken number")
		return 0
	}
	r.B = r.B[n:]
	return x
}

// Varint reads a signed varint.
func (r *Reader) Varint() int64 {
	x, n := binary.Varint(r.B)
	if n <= 0 {
		r.Fail("the message ends early or holds a broken number")
		return 0
	}
	r.B = r.B[n:]
	return x
}

// Count reads a count, at most maxCount.
func (r *Reader) Count() int64 {
	x := r.Uvarint()
	if x > maxCount {
		r.Fail("a count of %d", x)
		return 0
	}
	return int64(x)
}

// Positive reads a count of at least one.
func (r *Reader) Positive() int64 {
	x := r.Count()
	if x == 0 {
		r.Fail("a count of nothing")
	}
	return x
}

// Length reads the number of items that follow, each of at least itemBytes bytes.
func (r *Reader) Length(most, itemBytes int) int {
	x := r.Uvarint()
	if x > uint64(most) || x > uint64(len(r.B)/itemBytes) {
		r.Fail("a length of %d with %d bytes left", x, len(r.B))
		return 0
	}
	return int(x)
}

// Bytes reads a length, limited by most, and returns as many bytes, which refer to the
// message.
func (r *Reader) Bytes(most int) []byte {
	n := r.Length(most, 1)
	b := r.B[:n]
	r.B = r.B[n:]
	return b
}

// Magic reads the magic of a message.
func (r *Reader) Magic(m string) {
	if len(r.B) < len(m) || string(r.B[:len(m)]) != m {
		r.Fail("it does not begin with %q", m)
		return
	}
	r.B = r.B[len(m):]
}

// End fails if bytes are left.
func (r *Reader) End() error {
	if r.Err == nil && len(r.B) > 0 {
		r.Fail("%d bytes behind the end", len(r.B))
	}
	return r.Err
}
