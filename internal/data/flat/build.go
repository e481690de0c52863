package flat

import "encoding/binary"

// Cell is a field of a table to write: a number of Size bytes, or what Ref refers to. The zero Cell is an
// absent field.
type Cell struct {
	Size int
	Bits uint64
	Ref  any // string, Table, []Table or Structs
}

// Table is a table to write, by the number of the field.
type Table []Cell

// Structs is a list of structs whose numbers have at most eight bytes, one after the other.
type Structs struct {
	N    int
	Data []byte
}

// Build returns the buffer of a root table. Its length is a multiple of 8.
func Build(root Table) Buffer {
	b := builder{make([]byte, 4)}
	b.set(0, b.table(root))
	b.align(8, 0)
	return Buffer(b.b)
}

// Of returns the cell of a number of size bytes.
func Of(size int, n int64) Cell { return Cell{Size: size, Bits: uint64(n)} }

// To returns the cell of a string, a Table, a list of tables or Structs.
func To(x any) Cell { return Cell{Size: 4, Ref: x} }

type builder struct{ b []byte }

// align adds zeros until the length and rest more bytes are a multiple of n.
func (b *builder) align(n, rest int) {
	for (len(b.b)+rest)%n != 0 {
		b.b = append(b.b, 0)
	}
}

// set writes the distance from an offset to a later one.
func (b *builder) set(from, to int) { binary.LittleEndian.PutUint32(b.b[from:], uint32(to-from)) }

// table writes a table and what it refers to, and returns its offset.
func (b *builder) table(t Table) int {
	const head = 4 // bytes of a vtable, and of the distance to it
	list := head + 2*len(t)
	b.align(8, list)
	vtable := len(b.b)
	b.b = append(b.b, make([]byte, list)...)
	at := len(b.b)
	b.b = binary.LittleEndian.AppendUint32(b.b, uint32(at-vtable))
	places := make([]int, len(t))
	for i, c := range t {
		if c.Size == 0 {
			continue
		}
		b.align(c.Size, 0)
		places[i] = len(b.b)
		binary.LittleEndian.PutUint16(b.b[vtable+head+2*i:], uint16(len(b.b)-at))
		var number [8]byte
		binary.LittleEndian.PutUint64(number[:], c.Bits)
		b.b = append(b.b, number[:c.Size]...)
	}
	binary.LittleEndian.PutUint16(b.b[vtable:], uint16(list))
	binary.LittleEndian.PutUint16(b.b[vtable+2:], uint16(len(b.b)-at))
	for i, c := range t {
		if c.Ref != nil {
			to := b.ref(c.Ref)
			b.set(places[i], to)
		}
	}
	return at
}

// ref writes what a field refers to, and returns its offset.
func (b *builder) ref(x any) int {
	switch x := x.(type) {
	case Table:
		return b.table(x)
	case string:
		b.align(4, 0)
		at := len(b.b)
		b.b = binary.LittleEndian.AppendUint32(b.b, uint32(len(x)))
		b.b = append(append(b.b, x...), 0)
		return at
	case Structs:
		b.align(8, 4)
		at := len(b.b)
		b.b = append(binary.LittleEndian.AppendUint32(b.b, uint32(x.N)), x.Data...)
		return at
	}
	all := x.([]Table)
	b.align(4, 0)
	at := len(b.b)
	b.b = binary.LittleEndian.AppendUint32(b.b, uint32(len(all)))
	b.b = append(b.b, make([]byte, 4*len(all))...)
	for i, t := range all {
		to := b.table(t)
		b.set(at+4+4*i, to)
	}
	return at
}
