package arrow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/wdlrun/wdlrun/internal/data/flat"
	"github.com/wdlrun/wdlrun/internal/data/table"
)

// Limits of a file.
const (
	maxMeta   = 64 << 20 // bytes of the metadata of a message, and of the footer
	maxBatch  = 1 << 26  // rows
	maxBuffer = 1 << 30  // bytes, decompressed
	maxWidth  = 1 << 20  // bytes of a fixed string
	maxParts  = 1 << 24  // messages

	groupRows  = 1 << 16 // batches are joined up to these rows,
	groupBytes = 1 << 20 // or bytes
)

// mostRows returns how many rows, and values of a column, a batch of some bytes may have. Columns
// of nulls have no bytes, and a column with one value has few, compressed.
func mostRows(bytes int64) int64 { return min(maxBatch, groupRows+4096*min(bytes, maxBatch)) }

// Magic is the beginning of a file.
const Magic = "ARROW1\x00\x00"

const tailMagic = "ARROW1"

// part is a message with a batch or a dictionary.
type part struct {
	at   int64 // of its metadata
	meta int32
	rows int32 // of a batch
	body int64 // length
}

// dictPart is a dictionary, or what is added to one.
type dictPart struct {
	part
	id     int64
	delta  bool
	before int // number of batches before it; 0 in a file, where it is for all
}

// group is batches [lo, hi).
type group struct{ lo, hi int }

// File is an open file. It implements table.Form.
type File struct {
	src     io.ReaderAt
	size    int64
	fields  []*field
	all     []column
	unread  []table.Unread
	batches []part
	dicts   []dictPart
	groups  []group
	unpack  unpacker
	packed  []byte // a buffer
	spare   *kept  // of closed pages; nil: none
	number  int    // of dictionaries made
	version int    // of the metadata
}

// IsStream reports whether a file begins like a stream of messages.
func IsStream(head []byte) bool {
	if len(head) < 16 || binary.LittleEndian.Uint32(head) != math.MaxUint32 {
		return false
	}
	n := binary.LittleEndian.Uint32(head[4:])
	root := binary.LittleEndian.Uint32(head[8:])
	return n >= 16 && n <= maxMeta && root >= 4 && root < n
}

// Open reads the schema and finds the batches. The File reads from r.
func Open(r io.ReaderAt, size int64) (*File, error) {
	x := &File{src: r, size: size}
	head := make([]byte, min(size, 16))
	if err := x.read(head, 0); err != nil {
		return nil, err
	}
	var err error
	switch {
	case len(head) >= len(Magic) && string(head[:len(Magic)]) == Magic:
		err = x.openFile()
	case IsStream(head):
		err = x.openStream()
	default:
		err = errors.New("it begins neither with ARROW1 nor with a message")
	}
	if err != nil {
		return nil, err
	}
	for _, f := range x.fields {
		x.columns(f, f.name, column{})
	}
	x.join()
	return x, nil
}

// read fills b.
func (x *File) read(b []byte, at int64) error {
	if at < 0 || at > x.size-int64(len(b)) {
		return fmt.Errorf("%d bytes at offset %d are beyond the end of the file", len(b), at)
	}
	n, err := x.src.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// setSchema reads the table of a schema.
func (x *File) setSchema(b flat.Buffer, at int) error {
	if b.Number(at, 0, 2, 0) != 0 {
		return errors.New("its numbers have the highest byte first (big-endian), which is not supported")
	}
	s := &schema{Buffer: b}
	var fault error
	b.Each(at, 1, func(child int) {
		if fault != nil {
			return
		}
		var f *field
		if f, fault = s.field(child, 0); fault == nil {
			x.fields = append(x.fields, f)
		}
	})
	return fault
}

// openFile reads the footer.
func (x *File) openFile() error {
	const tail = 4 + len(tailMagic)
	end := make([]byte, tail)
	if x.size < int64(len(Magic)+tail) || x.read(end, x.size-int64(tail)) != nil || string(end[4:]) != tailMagic {
		return errors.New("its end is missing: the last bytes are not ARROW1; was it written and copied whole?")
	}
	n := int64(binary.LittleEndian.Uint32(end))
	if n > maxMeta || n > x.size-int64(len(Magic)+tail) {
		return fmt.Errorf("its footer has %d bytes", n)
	}
	b := make(flat.Buffer, n)
	if err := x.read(b, x.size-int64(tail)-n); err != nil {
		return err
	}
	root := b.Uint32(0)
	x.version = int(b.Number(root, 0, 2, 0))
	if err := x.setSchema(b, b.Ref(root, 1)); err != nil {
		return err
	}
	const block = 24
	for _, list := range []int{2, 3} {
		at, n := b.Vector(root, list, block)
		if n > maxParts {
			return fmt.Errorf("more than %d batches", maxParts)
		}
		for ; n > 0; n, at = n-1, at+block {
			p, _, err := x.message(int64(b.Uint64(at)))
			if err == nil {
				err = x.add(p, list == 2)
			}
			if err != nil {
				return fmt.Errorf("batch %d: %w", len(x.batches), err)
			}
		}
	}
	for i := range x.dicts {
		x.dicts[i].before = 0
	}
	return nil
}

// openStream reads the heads of all messages.
func (x *File) openStream() error {
	for at := int64(0); at < x.size; {
		p, b, err := x.message(at)
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("the message at offset %d, after %d batches: %w", at, len(x.batches), err)
		}
		root := b.Uint32(0)
		switch kind := b.Number(root, 1, 1, 0); {
		case at == 0 && kind != headSchema:
			return errors.New("the first message is no schema")
		case at == 0:
			x.version = int(b.Number(root, 0, 2, 0))
			err = x.setSchema(b, b.Ref(root, 2))
		case kind == headDictionary, kind == headBatch:
			err = x.add(p, kind == headDictionary)
		}
		if err != nil {
			return fmt.Errorf("the message at offset %d: %w", at, err)
		}
		if at = p.at + int64(p.meta) + p.body; at > x.size {
			return fmt.Errorf("the message at offset %d ends %d bytes after the end of the file; was it copied whole?", p.at, at-x.size)
		}
	}
	return nil
}

// Kinds of messages.
const (
	headSchema = iota + 1
	headDictionary
	headBatch
)

// message reads the metadata of a message; io.EOF at the mark of the end.
func (x *File) message(at int64) (p part, b flat.Buffer, err error) {
	var head [8]byte
	if at >= 0 && at <= x.size-4 && at > x.size-8 {
		err = x.read(head[:4], at)
	} else {
		err = x.read(head[:], at)
	}
	if err != nil {
		return p, nil, err
	}
	first, n := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	p.at = at + 8
	if first != math.MaxUint32 { // before version 0.15 there was no mark
		n, p.at = first, at+4
	}
	if n == 0 {
		return p, nil, io.EOF
	}
	if n > maxMeta {
		return p, nil, fmt.Errorf("its metadata has %d bytes, at most %d are possible", n, maxMeta)
	}
	p.meta = int32(n)
	b = make(flat.Buffer, n)
	if err = x.read(b, p.at); err != nil {
		return p, nil, err
	}
	if p.body = b.Number(b.Uint32(0), 3, 8, 0); p.body < 0 || p.body > x.size-p.at-int64(n) {
		return p, nil, fmt.Errorf("its body of %d bytes is beyond the end of the file; was it copied whole?", p.body)
	}
	return p, b, nil
}

// add adds a batch or a dictionary.
func (x *File) add(p part, isDict bool) error {
	b := make(flat.Buffer, p.meta)
	if err := x.read(b, p.at); err != nil {
		return err
	}
	head := b.Ref(b.Uint32(0), 2)
	want := int64(headBatch)
	if isDict {
		want = headDictionary
	}
	if b.Number(b.Uint32(0), 1, 1, 0) != want {
		return errors.New("is no batch")
	}
	if len(x.dicts)+len(x.batches) > maxParts {
		return fmt.Errorf("more than %d messages", maxParts)
	}
	if isDict {
		x.dicts = append(x.dicts, dictPart{p, b.Number(head, 0, 8, 0), b.Number(head, 2, 1, 0) != 0, len(x.batches)})
		return nil
	}
	rows := b.Number(head, 0, 8, 0)
	if most := mostRows(p.body); rows < 0 || rows > most {
		return fmt.Errorf("it has %d rows in %d bytes, at most %d are possible; write smaller batches", rows, p.body, most)
	}
	p.rows = int32(rows)
	x.batches = append(x.batches, p)
	return nil
}

// join makes groups of batches.
func (x *File) join() {
	rows, bytes := int64(0), int64(0)
	for i, p := range x.batches {
		if i == 0 || rows+int64(p.rows) > groupRows || bytes+p.body > groupBytes {
			x.groups, rows, bytes = append(x.groups, group{i, i}), 0, 0
		}
		x.groups[len(x.groups)-1].hi = i + 1
		rows, bytes = rows+int64(p.rows), bytes+p.body
	}
}

// Columns implements table.Form.
func (x *File) Columns() []table.Column {
	all := make([]table.Column, len(x.all))
	for i := range x.all {
		all[i] = x.all[i].Column
	}
	return all
}

// Unread implements table.Form.
func (x *File) Unread() []table.Unread { return x.unread }

// Groups implements table.Form.
func (x *File) Groups() []int64 {
	all := make([]int64, len(x.groups))
	for i, g := range x.groups {
		for _, p := range x.batches[g.lo:g.hi] {
			all[i] += int64(p.rows)
		}
	}
	return all
}
