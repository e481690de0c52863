package tfrecord

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// AppendExample appends a tf.Example of these features; features of kind None are omitted.
// Float64 becomes the nearest float32, the only floating point type of tf.Example.
func AppendExample(dst []byte, names []string, lists []value.List) []byte {
	// Each message follows its length, so lengths are computed from the inside out.
	size := 0
	for i := range lists {
		if lists[i].Kind != value.None {
			size += protowire.SizeTag(1) + protowire.SizeBytes(entryBytes(names[i], &lists[i]))
		}
	}
	dst = appendLength(dst, 1, size)
	for i := range lists {
		l := &lists[i]
		if l.Kind == value.None {
			continue
		}
		list := listBytes(l)
		dst = appendLength(dst, 1, entryBytes(names[i], l))
		dst = appendLength(dst, 1, len(names[i]))
		dst = append(dst, names[i]...)
		dst = appendLength(dst, 2, protowire.SizeTag(1)+protowire.SizeBytes(list))
		dst = appendLength(dst, listNumber(l), list)
		dst = appendList(dst, l)
	}
	return dst
}

func appendLength(dst []byte, number protowire.Number, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.BytesType), uint64(n))
}

func listNumber(l *value.List) protowire.Number {
	switch l.Kind {
	case value.Text:
		return 1
	case value.Int:
		return 3
	}
	return 2
}

func entryBytes(name string, l *value.List) int {
	feature := protowire.SizeTag(1) + protowire.SizeBytes(listBytes(l))
	return protowire.SizeTag(1) + protowire.SizeBytes(len(name)) + protowire.SizeTag(2) + protowire.SizeBytes(feature)
}

// listBytes returns the length of the output of appendList.
func listBytes(l *value.List) (n int) {
	switch l.Kind {
	case value.Text:
		for _, t := range l.Texts {
			n += protowire.SizeTag(1) + protowire.SizeBytes(len(t))
		}
		return n
	case value.Int:
		return protowire.SizeTag(1) + protowire.SizeBytes(packedBytes(l))
	}
	return protowire.SizeTag(1) + protowire.SizeBytes(4*len(l.Reals))
}

func packedBytes(l *value.List) (n int) {
	for _, x := range l.Ints {
		n += protowire.SizeVarint(uint64(x))
	}
	return n
}

func appendList(dst []byte, l *value.List) []byte {
	switch l.Kind {
	case value.Text:
		for _, t := range l.Texts {
			dst = append(appendLength(dst, 1, len(t)), t...)
		}
	case value.Int:
		dst = appendLength(dst, 1, packedBytes(l))
		for _, x := range l.Ints {
			dst = protowire.AppendVarint(dst, uint64(x))
		}
	default:
		dst = appendLength(dst, 1, 4*len(l.Reals))
		for _, x := range l.Reals {
			dst = protowire.AppendFixed32(dst, math.Float32bits(float32(x)))
		}
	}
	return dst
}
