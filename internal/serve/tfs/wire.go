package tfs

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

var errWire = errors.New("the protobuf encoding is broken")

// field is one field of a message.
type field struct {
	number protowire.Number
	kind   protowire.Type
	bytes  []byte // of BytesType
	bits   uint64 // of a number
}

// nextField splits a field off b. Groups are skipped and have neither bytes nor bits.
func nextField(b []byte) (f field, rest []byte, err error) {
	var n int
	if f.number, f.kind, n = protowire.ConsumeTag(b); n < 0 {
		return f, nil, errWire
	}
	b = b[n:]
	switch f.kind {
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(b)
	case protowire.VarintType:
		f.bits, n = protowire.ConsumeVarint(b)
	case protowire.Fixed32Type:
		var x uint32
		x, n = protowire.ConsumeFixed32(b)
		f.bits = uint64(x)
	case protowire.Fixed64Type:
		f.bits, n = protowire.ConsumeFixed64(b)
	default:
		n = protowire.ConsumeFieldValue(f.number, f.kind, b)
	}
	if n < 0 {
		return f, nil, errWire
	}
	return f, b[n:], nil
}

// nextShort splits a field of BytesType with this tag of one byte off b, if its length fits one byte. It
// is nextField for fields that a message repeats thousands of times.
func nextShort(b []byte, tag byte) (value, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != tag || b[1] > 127 || int(b[1]) > len(b)-2 {
		return nil, b, false
	}
	end := 2 + int(b[1])
	return b[2:end:end], b[end:], true
}

// eachField calls each with every field of a message, until it fails.
func eachField(b []byte, each func(f field) error) error {
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return err
		}
		if err := each(f); err != nil {
			return err
		}
		b = rest
	}
	return nil
}

// isBytes fails unless the field is a string, bytes or a message.
func (f *field) isBytes(name string) error { return f.is(protowire.BytesType, name) }

func (f *field) is(kind protowire.Type, name string) error {
	if f.kind != kind {
		return fmt.Errorf("field %d (%s) has wire type %d, expected %d", f.number, name, f.kind, kind)
	}
	return nil
}

// within adds the name of a field to an error inside it.
func within(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

func appendString[T string | []byte](dst []byte, number protowire.Number, s T) []byte {
	dst = protowire.AppendTag(dst, number, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendVarint(dst []byte, number protowire.Number, x uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), x)
}

// appendMessage appends a message field, whose contents body appends. The length is
// inserted afterwards.
func appendMessage(dst []byte, number protowire.Number, body func(dst []byte) []byte) []byte {
	dst = protowire.AppendTag(dst, number, protowire.BytesType)
	at := len(dst)
	dst = body(dst)
	n := len(dst) - at
	size := protowire.SizeVarint(uint64(n))
	for range size {
		dst = append(dst, 0)
	}
	copy(dst[at+size:], dst[at:at+n])
	protowire.AppendVarint(dst[at:at], uint64(n))
	return dst
}
