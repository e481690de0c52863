package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// A file ends with its footer, the length of the footer and a magic number:
//
//	PAR1 · pages · footer, in Thrift's compact protocol · length, 4 bytes · PAR1
//
// The types below have the fields of the footer and of the page headers that this package
// uses. The library's own types require fields that some writers omit.

// footer describes a file.
type footer struct {
	Schema    list[format.SchemaElement] `thrift:"2,required"`
	Groups    list[rowGroup]             `thrift:"4,required"`
	KeyValues list[keyValue]             `thrift:"5,optional"`
	Orders    list[format.ColumnOrder]   `thrift:"7,optional"`
}

type keyValue struct {
	Key   string `thrift:"1,optional"`
	Value string `thrift:"2,optional"`
}

type rowGroup struct {
	Chunks list[chunk] `thrift:"1,required"`
	Rows   int64       `thrift:"3,required"`
}

// chunk is a column of a row group.
type chunk struct {
	File      string                      `thrift:"1,optional"`
	Meta      chunkMeta                   `thrift:"3,optional"`
	Crypto    format.ColumnCryptoMetaData `thrift:"8,optional"`
	Encrypted []byte                      `thrift:"9,optional"`
}

type chunkMeta struct {
	Type       format.Type             `thrift:"1,required"`
	Codec      format.CompressionCodec `thrift:"4,required"`
	Values     int64                   `thrift:"5,required"`
	Bytes      int64                   `thrift:"7,required"` // compressed, with headers
	Data       int64                   `thrift:"9,required"` // offset of the first data page
	Dictionary int64                   `thrift:"11,optional"`
	Statistics thrift.Null[statistics] `thrift:"12,optional"`
}

// statistics are those of a page or of a column of a row group.
type statistics struct {
	OldMax   []byte             `thrift:"1,optional"` // the order is that of signed numbers
	OldMin   []byte             `thrift:"2,optional"`
	Nulls    thrift.Null[int64] `thrift:"3,optional"`
	Max      []byte             `thrift:"5,optional"` // the order is that of the column
	Min      []byte             `thrift:"6,optional"`
	MaxExact bool               `thrift:"7,optional"`
	MinExact bool               `thrift:"8,optional"`
}

// list is a list that is allocated as its elements are read, so that no length is believed.
type list[T any] []T

// Type implements thrift.Value.
func (list[T]) Type() thrift.Type { return thrift.LIST }

// EncodeFunc implements thrift.Value.
func (l list[T]) EncodeFunc(cache thrift.EncodeFuncCache) thrift.EncodeFunc {
	return thrift.Slice[T](l).EncodeFunc(cache)
}

// NullFunc implements thrift.Value.
func (l list[T]) NullFunc() thrift.NullFunc { return thrift.Slice[T](l).NullFunc() }

// DecodeFunc implements thrift.Value.
func (list[T]) DecodeFunc(cache thrift.DecodeFuncCache) thrift.DecodeFunc {
	element, kind := thrift.DecodeFuncFor[T](cache), thrift.TypeOf(reflect.TypeFor[T]())
	return func(r thrift.Reader, v reflect.Value, flags thrift.Flags) error {
		head, err := r.ReadList()
		if err != nil {
			return err
		}
		if head.Size > 0 && head.Type != kind {
			return fmt.Errorf("a list of %v instead of %v", head.Type, kind)
		}
		l := v.Addr().Interface().(*list[T])
		*l = (*l)[:0]
		for range head.Size {
			*l = append(*l, *new(T))
			if err := element(r, reflect.ValueOf(l).Elem().Index(len(*l)-1), flags); err != nil {
				return err
			}
		}
		return nil
	}
}

// maxFooter is the maximum length of a footer.
const maxFooter = 1 << 30

// readFooter reads the footer of a file of size bytes.
func readFooter(r io.ReaderAt, size int64) (*footer, error) {
	var head [4]byte
	var tail [8]byte
	if size < 12 {
		return nil, fmt.Errorf("a file of %d bytes, a Parquet file has at least 12", size)
	}
	if err := readAt(r, head[:], 0); err != nil {
		return nil, err
	}
	if err := readAt(r, tail[:], size-8); err != nil {
		return nil, err
	}
	switch magic := string(tail[4:]); {
	case magic == "PARE":
		return nil, errors.New(encrypted)
	case string(head[:]) != "PAR1" || magic != "PAR1":
		return nil, fmt.Errorf("it begins with %q and ends with %q instead of PAR1; is it complete?", head[:], magic)
	}
	length := int64(binary.LittleEndian.Uint32(tail[:]))
	if length > size-12 || length > maxFooter {
		return nil, fmt.Errorf("a footer of %d bytes in a file of %d bytes, at most %d are possible", length, size, maxFooter)
	}
	b := make([]byte, length)
	if err := readAt(r, b, size-8-length); err != nil {
		return nil, err
	}
	f := new(footer)
	var compact thrift.CompactProtocol
	if err := thrift.NewDecoder(compact.NewReaderFromBytes(b)).Decode(f); err != nil {
		return nil, fmt.Errorf("its footer: %w", err)
	}
	return f, nil
}

const encrypted = "it is encrypted; write it without encryption"

// readAt fills b.
func readAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case err == nil || err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

func (c *chunk) isEncrypted() bool { return c.Crypto.Value != nil || c.Encrypted != nil }

// check returns an error if a column of a row group cannot be read.
func (c *chunk) check(e *format.SchemaElement, size int64) error {
	m := &c.Meta
	switch {
	case c.isEncrypted():
		return errors.New(encrypted)
	case c.File != "":
		return fmt.Errorf("its data is in another file, %s; name that file", c.File)
	case m.Type != e.Type.V:
		return fmt.Errorf("it is %v in a row group and %v in the schema", m.Type, e.Type.V)
	}
	begin := m.begin()
	if end := begin + m.Bytes; begin < 0 || m.Bytes < 0 || end < begin || end > size {
		return fmt.Errorf("its pages are at bytes %d to %d of a file of %d bytes", begin, end, size)
	}
	return checkCodec(m.Codec)
}

// begin returns the offset of the first page.
func (m *chunkMeta) begin() int64 {
	if m.Dictionary > 0 {
		return min(m.Dictionary, m.Data)
	}
	return m.Data
}

// checkCodec returns an error for compressions that are not read.
func checkCodec(c format.CompressionCodec) error {
	switch c {
	case format.Uncompressed, format.Snappy, format.Gzip, format.Brotli, format.Zstd, format.Lz4Raw, format.Lz4:
		return nil
	}
	return fmt.Errorf("it is compressed with %v, which is not supported; write it with ZSTD, SNAPPY or LZ4_RAW", c)
}
