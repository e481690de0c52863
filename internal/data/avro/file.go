package avro

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Magic is the beginning of a file.
const Magic = "Obj\x01"

// Limits of a file.
const (
	maxHeader  = maxSchema + 1<<16 // bytes
	maxBlock   = 1 << 28           // bytes, unpacked
	maxRecords = 1 << 26           // of a block, and values of a list column in it
	maxBlocks  = 1 << 24

	groupRows  = 1 << 16 // blocks are joined up to these rows,
	groupBytes = 1 << 20 // or bytes
	markBytes  = 16
)

// block is a block of records.
type block struct {
	at    int64 // of its bytes
	bytes int64
	rows  int32
}

// group is blocks [lo, hi).
type group struct{ lo, hi int }

// File is an open file. It implements table.Form.
type File struct {
	src  io.ReaderAt
	size int64
	Schema
	blocks []block
	groups []group
	unpack unpacker
	stored []byte // a block
	spare  *rows  // of closed pages, whose memory the next ones take; nil: none
}

// Open reads the schema and finds the blocks. The File reads from r.
func Open(r io.ReaderAt, size int64) (*File, error) {
	x := &File{src: r, size: size}
	head := make([]byte, min(size, maxHeader))
	if err := x.read(head[:min(len(head), 4<<10)], 0); err != nil {
		return nil, err
	}
	at, mark, err := x.header(head[:min(len(head), 4<<10)])
	if errors.Is(err, errShort) && size > 4<<10 {
		if err = x.read(head, 0); err == nil {
			at, mark, err = x.header(head)
		}
	}
	if errors.Is(err, errShort) {
		err = fmt.Errorf("its header ends early, or has more than %d bytes; was it copied whole?", maxHeader)
	}
	if err != nil {
		return nil, err
	}
	return x, x.find(at, mark)
}

// read fills b.
func (x *File) read(b []byte, at int64) error {
	n, err := x.src.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// header reads the metadata, and returns the offset of the first block.
func (x *File) header(b []byte) (at int64, mark []byte, err error) {
	if !bytes.HasPrefix(b, []byte(Magic)) {
		return 0, nil, errors.New("it does not begin with Obj 1")
	}
	r := &reader{b: b[len(Magic):], left: int64(len(b))}
	var text, codec []byte
	for n := r.items(); n > 0; n = r.items() {
		for ; n > 0 && !r.short; n-- {
			key, size := string(r.bytes()), r.long()
			if size > maxSchema {
				return 0, nil, fmt.Errorf("its header has %d bytes of %.40q, at most %d are possible", size, key, maxSchema)
			}
			switch data := r.next(size); key {
			case "avro.schema":
				text = data
			case "avro.codec":
				codec = data
			}
		}
	}
	if mark = r.next(markBytes); r.short {
		return 0, nil, errShort
	}
	if err := x.unpack.choose(string(codec)); err != nil {
		return 0, nil, err
	}
	s, err := ParseSchema(text)
	if err != nil {
		return 0, nil, err
	}
	x.Schema = *s
	return int64(len(b) - len(r.rest())), mark, nil
}

// find finds the blocks.
func (x *File) find(at int64, mark []byte) error {
	head := make([]byte, markBytes+2*binary.MaxVarintLen64)
	rows, stored := int64(0), int64(0)
	for i := 0; at < x.size; i++ {
		b := head[:min(int64(2*binary.MaxVarintLen64), x.size-at)]
		if err := x.read(b, at); err != nil {
			return err
		}
		r := &reader{b: b}
		n, size := r.long(), r.long()
		start := at + int64(len(b)-len(r.rest()))
		switch {
		case r.short || size < 0 || size > x.size-start-markBytes:
			return fmt.Errorf("block %d at offset %d of %d bytes ends after the end of the file; was it copied whole?", i, at, size)
		case n < 0 || n > maxRecords || size > maxBlock:
			return fmt.Errorf("block %d at offset %d has %d records in %d bytes, at most %d in %d are possible", i, at, n, size, maxRecords, maxBlock)
		case i == maxBlocks:
			return fmt.Errorf("more than %d blocks", maxBlocks)
		}
		if err := x.read(head[:markBytes], start+size); err != nil {
			return err
		}
		if !bytes.Equal(head[:markBytes], mark) {
			return fmt.Errorf("block %d at offset %d does not end with the mark of the file", i, at)
		}
		if i == 0 || rows+n > groupRows || stored+size > groupBytes {
			x.groups, rows, stored = append(x.groups, group{i, i}), 0, 0
		}
		x.groups[len(x.groups)-1].hi = i + 1
		rows, stored = rows+n, stored+size
		x.blocks = append(x.blocks, block{start, size, int32(n)})
		at = start + size + markBytes
	}
	return nil
}

// Groups implements table.Form.
func (x *File) Groups() []int64 {
	all := make([]int64, len(x.groups))
	for i, g := range x.groups {
		for _, b := range x.blocks[g.lo:g.hi] {
			all[i] += int64(b.rows)
		}
	}
	return all
}
