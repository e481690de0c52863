// Package flat reads FlatBuffers, in which Arrow stores its schemas and messages.
package flat

import "encoding/binary"

// Buffer is a FlatBuffer: tables, each with the offset of a list of the offsets of its fields.
// Offsets that lead out of it read as zero.
type Buffer []byte

// Uint32 returns the number at an offset.
func (b Buffer) Uint32(at int) int {
	if at < 0 || at > len(b)-4 {
		return 0
	}
	return int(binary.LittleEndian.Uint32(b[at:]))
}

// Field returns the offset of field i of a table, 0 if it is absent.
func (b Buffer) Field(table, i int) int {
	list := table - int(int32(b.Uint32(table)))
	if list < 0 || list > len(b)-4 {
		return 0
	}
	at := 4 + 2*i
	if size := int(binary.LittleEndian.Uint16(b[list:])); at+2 > size || list+at > len(b)-2 {
		return 0
	}
	if offset := int(binary.LittleEndian.Uint16(b[list+at:])); offset > 0 {
		return table + offset
	}
	return 0
}

// Ref follows the offset in field i of a table, 0 if it is absent.
func (b Buffer) Ref(table, i int) int {
	at := b.Field(table, i)
	if at == 0 {
		return 0
	}
	return at + b.Uint32(at)
}

// Text returns the string in field i of a table.
func (b Buffer) Text(table, i int) string {
	at := b.Ref(table, i)
	n := b.Uint32(at)
	if at == 0 || n > len(b)-at-4 {
		return ""
	}
	return string(b[at+4 : at+4+n])
}

// Each calls f with the tables in field i of a table.
func (b Buffer) Each(table, i int, f func(table int)) {
	at := b.Ref(table, i)
	if at == 0 {
		return
	}
	for n := range min(b.Uint32(at), len(b)/4) {
		element := at + 4 + 4*n
		f(element + b.Uint32(element))
	}
}

// Vector returns the offset of the first element of the list in field i of a table, and the number
// of its elements, of size bytes each, as far as they are in b.
func (b Buffer) Vector(table, i, size int) (at, n int) {
	if at = b.Ref(table, i); at == 0 || at > len(b)-4 {
		return 0, 0
	}
	return at + 4, min(b.Uint32(at), (len(b)-at-4)/size)
}

// Uint64 returns the number at an offset.
func (b Buffer) Uint64(at int) uint64 {
	if at < 0 || at > len(b)-8 {
		return 0
	}
	return binary.LittleEndian.Uint64(b[at:])
}

// Number returns the number of size bytes in field i of a table, or absent. The highest byte of a
// short number is its sign.
func (b Buffer) Number(table, i, size int, absent int64) int64 {
	at := b.Field(table, i)
	if at == 0 || at > len(b)-size {
		return absent
	}
	switch size {
	case 1:
		return int64(b[at])
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(b[at:])))
	case 4:
		return int64(int32(b.Uint32(at)))
	}
	return int64(b.Uint64(at))
}
