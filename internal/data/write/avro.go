package write

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"regexp"
	"unicode/utf8"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// avroBytes is the number of bytes after which a block ends.
const avroBytes = 1 << 20

// avroRows writes Avro object container files.
type avroRows struct {
	table
	w     io.Writer
	pack  func(b []byte) ([]byte, error)
	mark  [16]byte
	block []byte
	now   int64 // records in block
}

// avroNames are the names that Avro allows.
var avroNames = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func newAvro(w io.Writer, codec string, t table) (*avroRows, error) {
	type field struct {
		Name    string `json:"name"`
		Type    []any  `json:"type"`
		Default any    `json:"default"`
	}
	x := &avroRows{table: t, w: w}
	var fields []field
	for _, c := range t.columns {
		if !avroNames.MatchString(c.Name) {
			return nil, fmt.Errorf("write: Avro has no place for the name %q, only for letters of ASCII, digits and _; write parquet, arrow or jsonl, which have places for all names; or rename it where the records are written; or name the other columns in -fields", c.Name)
		}
		kind := avroKind(&c)
		if c.Many {
			kind = map[string]any{"type": "array", "items": []any{"null", kind}}
		}
		fields = append(fields, field{Name: c.Name, Type: []any{"null", kind}})
	}
	schema, err := json.Marshal(map[string]any{"type": "record", "name": "record", "fields": fields})
	if err != nil {
		return nil, fmt.Errorf("write: %w", err)
	}
	name, err := x.choose(codec)
	if err != nil {
		return nil, err
	}
	x.mark = xxh3.Hash128(schema).Bytes() // the same table is written as the same bytes
	head := append([]byte("Obj\x01"), 4)  // two entries
	for _, s := range []string{"avro.schema", string(schema), "avro.codec", name} {
		head = appendBytes(head, s)
	}
	_, err = w.Write(append(append(head, 0), x.mark[:]...))
	return x, err
}

func avroKind(c *Column) any {
	switch {
	case c.Time.Type == typeDate:
		return map[string]any{"type": "int", "logicalType": "date"}
	case c.Time != Time{}:
		return map[string]any{"type": "long", "logicalType": avroTime(c.Time)}
	case c.Kind == value.Int:
		return "long"
	case c.Kind == value.Float32:
		return "float"
	case c.Kind == value.Float64:
		return "double"
	case c.Truth:
		return "boolean"
	}
	return "string"
}

// avroTime returns the name of a type of times.
func avroTime(t Time) string {
	unit := "-micros"
	if t.Nanos {
		unit = "-nanos"
	}
	switch {
	case t.clock():
		return "time" + unit
	case t.zoned():
		return "timestamp" + unit
	}
	return "local-timestamp" + unit
}

// choose sets the codec of blocks and returns its name.
func (x *avroRows) choose(codec string) (name string, err error) {
	switch codec {
	case "none":
		x.pack = func(b []byte) ([]byte, error) { return b, nil }
		return "null", nil
	case "snappy":
		x.pack = func(b []byte) ([]byte, error) {
			return binary.BigEndian.AppendUint32(snappy.Encode(nil, b), crc32.ChecksumIEEE(b)), nil
		}
		return "snappy", nil
	case "zstd":
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		x.pack = func(b []byte) ([]byte, error) { return z.EncodeAll(b, nil), nil }
		return "zstandard", err
	case "", "gzip":
		var out bytes.Buffer
		z, err := flate.NewWriter(&out, flate.DefaultCompression)
		x.pack = func(b []byte) ([]byte, error) {
			out.Reset()
			z.Reset(&out)
			_, err := z.Write(b)
			if err == nil {
				err = z.Close()
			}
			return out.Bytes(), err
		}
		return "deflate", err
	}
	return "", fmt.Errorf("write: there is no compression %q", codec)
}

// appendBytes appends the length and the bytes of a string.
func appendBytes[T string | []byte](dst []byte, s T) []byte {
	return append(binary.AppendVarint(dst, int64(len(s))), s...)
}

func (x *avroRows) Write(lists []value.List) error {
	if err := x.take(lists); err != nil {
		return err
	}
	for i := range x.typed {
		l, c := &x.typed[i], &x.columns[i]
		if l.Places() == 0 {
			x.block = append(x.block, 0)
			continue
		}
		if c.Many {
			x.block = binary.AppendVarint(append(x.block, 2), int64(l.Places()))
		}
		for j := range l.All {
			if j < 0 {
				x.block = append(x.block, 0)
				continue
			}
			var err error
			if x.block, err = appendAvro(append(x.block, 2), l, j, c); err != nil {
				return x.fault(i, err.Error())
			}
		}
		if c.Many {
			x.block = append(x.block, 0)
		}
	}
	if x.now++; x.now < groupRows && len(x.block) < avroBytes {
		return nil
	}
	return x.flush()
}

// appendAvro appends value j of a list.
func appendAvro(dst []byte, l *value.List, j int, c *Column) ([]byte, error) {
	switch {
	case c.Kind == value.Int:
		return binary.AppendVarint(dst, l.Ints[j]), nil
	case c.Kind == value.Float32:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(l.Reals[j]))), nil
	case c.Kind == value.Float64:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(l.Reals[j])), nil
	case c.Truth && string(l.Texts[j]) == "true":
		return append(dst, 1), nil
	case c.Truth:
		return append(dst, 0), nil
	case !utf8.Valid(l.Texts[j]):
		return dst, notUTF8(l.Texts[j])
	}
	return appendBytes(dst, l.Texts[j]), nil
}

// flush writes the block.
func (x *avroRows) flush() error {
	if x.now == 0 {
		return nil
	}
	b, err := x.pack(x.block)
	if err == nil {
		head := binary.AppendVarint(binary.AppendVarint(nil, x.now), int64(len(b)))
		_, err = x.w.Write(append(append(head, b...), x.mark[:]...))
	}
	if x.block, x.now = x.block[:0], 0; err != nil {
		return fmt.Errorf("write: record %d: %w", x.rows, err)
	}
	return nil
}

func (x *avroRows) Close() error { return x.flush() }
