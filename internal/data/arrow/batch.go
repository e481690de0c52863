package arrow

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/wdlrun/wdlrun/internal/data/flat"
	"github.com/wdlrun/wdlrun/internal/data/table"
)

// batch is the metadata of a record batch or of the values of a dictionary.
type batch struct {
	*File
	flat.Buffer
	body       int64 // offset in the file
	length     int64
	nodes      int // offset of the first, and number of nodes; so too below
	nodeCount  int
	buffers    int
	bufCount   int
	views      int
	viewCount  int
	compressed bool
	codec      byte
	places     map[*field]place
	rows       int
	memory     *memory // of the column that is read; nil: what is read stays
}

// memory is the memory of the values of a column, until the next batch.
type memory struct {
	stored  table.Stored
	buffers [][]byte
	used    int
}

// kept is the memory of pages, which the next pages of the same columns take.
type kept struct {
	of     []int // the columns
	page   []table.Page
	memory []memory // of each
}

// next returns memory for size bytes.
func (m *memory) next(size int) []byte {
	if m == nil {
		return make([]byte, size)
	}
	if m.used == len(m.buffers) {
		m.buffers = append(m.buffers, nil)
	}
	b := resized(m.buffers[m.used], size)
	m.buffers[m.used] = b
	m.used++
	return b
}

// place is where nodes and buffers of a field begin.
type place struct{ node, buffer, view int }

const (
	nodeBytes   = 16
	bufferBytes = 16
)

// open reads the metadata of a batch with these fields. table is the offset of the batch in it.
func (x *File) open(p part, fields []*field, isDict bool) (*batch, error) {
	b := &batch{File: x, Buffer: make(flat.Buffer, p.meta), body: p.at + int64(p.meta), length: p.body, places: map[*field]place{}}
	if err := x.read(b.Buffer, p.at); err != nil {
		return nil, err
	}
	t := b.Ref(b.Uint32(0), 2)
	if isDict {
		t = b.Ref(t, 1)
	}
	rows := b.Number(t, 0, 8, 0)
	if most := mostRows(p.body); rows < 0 || rows > most {
		return nil, fmt.Errorf("%d rows in %d bytes, at most %d are possible", rows, p.body, most)
	}
	b.rows = int(rows)
	b.nodes, b.nodeCount = b.Vector(t, 1, nodeBytes)
	b.buffers, b.bufCount = b.Vector(t, 2, bufferBytes)
	b.views, b.viewCount = b.Vector(t, 4, 8)
	if c := b.Ref(t, 3); c != 0 {
		b.compressed, b.codec = true, byte(b.Number(c, 0, 1, 0))
	}
	at := place{}
	for _, f := range fields {
		if err := b.walk(f, &at); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// walk finds the places of a field and its members.
func (b *batch) walk(f *field, at *place) error {
	b.places[f] = *at
	at.node++
	if f.indexed {
		at.buffer += 2
		return nil
	}
	const unionOfV4 = 3 // version of the metadata in which unions have nulls
	switch f.kind {
	case typeNull, typeRunEnds:
	case typeStruct, typeFixedList:
		at.buffer++
	case typeUnion:
		if at.buffer++; f.dense {
			at.buffer++
		}
		if b.version <= unionOfV4 {
			at.buffer++
		}
	case typeBinary, typeUtf8, typeLargeBinary, typeLargeUtf8, typeListView, typeLargeListView:
		at.buffer += 3
	case typeBinaryView, typeUtf8View:
		n := b.Uint64(b.views + 8*at.view)
		if at.view >= b.viewCount || n > uint64(b.bufCount) {
			return errors.New("it does not state the number of its buffers of strings")
		}
		at.buffer += 2 + int(n)
		at.view++
	default: // validity, and values or offsets
		at.buffer += 2
	}
	for _, child := range f.children {
		if err := b.walk(child, at); err != nil {
			return err
		}
	}
	return nil
}

// node returns the number of values of a field, with nulls, and the number of nulls.
func (b *batch) node(f *field) (n, nulls int, err error) {
	i := b.places[f].node
	if i >= b.nodeCount {
		return 0, 0, errors.New("it has fewer columns than its schema")
	}
	rows, none := int64(b.Uint64(b.nodes+nodeBytes*i)), int64(b.Uint64(b.nodes+nodeBytes*i+8))
	if rows < 0 || rows > mostRows(b.length) || none < 0 || none > rows {
		return 0, 0, fmt.Errorf("a column of %d values with %d nulls in a batch of %d bytes", rows, none, b.length)
	}
	return int(rows), int(none), nil
}

// buffer reads buffer i of a field.
func (b *batch) buffer(f *field, i int) ([]byte, error) {
	i += b.places[f].buffer
	if i >= b.bufCount {
		return nil, errors.New("it has fewer buffers than its schema needs")
	}
	at, n := int64(b.Uint64(b.buffers+bufferBytes*i)), int64(b.Uint64(b.buffers+bufferBytes*i+8))
	if at < 0 || n < 0 || at > b.length-n {
		return nil, fmt.Errorf("a buffer of %d bytes at offset %d of a body of %d bytes", n, at, b.length)
	}
	if n > maxBuffer {
		return nil, fmt.Errorf("a buffer of %d bytes, at most %d are possible; write smaller batches", n, maxBuffer)
	}
	if n == 0 {
		return nil, nil
	}
	size := int64(-1) // as it is stored
	if b.compressed {
		var head [8]byte
		if n < int64(len(head)) {
			return nil, errors.New("a compressed buffer does not state its size")
		}
		if err := b.read(head[:], b.body+at); err != nil {
			return nil, err
		}
		size, at, n = int64(binary.LittleEndian.Uint64(head[:])), at+int64(len(head)), n-int64(len(head))
	}
	if size == -1 {
		stored := b.memory.next(int(n))
		return stored, b.read(stored, b.body+at)
	}
	if size < 0 || size > maxBuffer {
		return nil, fmt.Errorf("a buffer of %d bytes, at most %d are possible; write smaller batches", size, maxBuffer)
	}
	b.packed = resized(b.packed, int(n))
	if err := b.read(b.packed, b.body+at); err != nil {
		return nil, err
	}
	return b.unpack.unpack(b.codec, b.packed, int(size), b.memory)
}

// validity reads which of the n values of a field are not null; nil: all are.
func (b *batch) validity(f *field, n int) ([]byte, error) {
	if f.kind == typeNull && !f.indexed {
		return make([]byte, (n+7)/8), nil
	}
	_, nulls, err := b.node(f)
	if err != nil || nulls == 0 {
		return nil, err
	}
	bits, err := b.buffer(f, 0)
	if err == nil && len(bits) < (n+7)/8 {
		err = fmt.Errorf("%d bits say which of %d values are null", 8*len(bits), n)
	}
	return bits, err
}

func bit(bits []byte, i int) byte { return bits[i/8] >> (i % 8) & 1 }
