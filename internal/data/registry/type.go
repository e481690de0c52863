package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wdlrun/wdlrun/internal/data/avro"
	"github.com/wdlrun/wdlrun/internal/data/table"
)

// Type is the type of the messages that a schema describes.
type Type struct {
	avro    *avro.Schema    // nil: message
	message func() *message // computed when it is first needed
	used    atomic.Bool     // by a value
	parts   splitter        // nil: a message is one record
}

// splitter makes records of a message: each is the head, an item and the tail.
type splitter interface {
	Split(message []byte) (head []byte, items [][]byte, tail []byte, err error)
}

// messageType returns the type of a message of Protobuf.
func (s *Schemas) messageType(of protoreflect.MessageDescriptor) *Type {
	if s.explode == "" {
		return &Type{message: sync.OnceValue(func() *message { return newMessage(of, nil) })}
	}
	list := of.Fields().ByName(protoreflect.Name(s.explode))
	return &Type{message: sync.OnceValue(func() *message { return newMessage(of, list) }), parts: &messageSplitter{s.explode, of, list}}
}

// names calls each with the names of the fields that can be read.
func (t *Type) names(each func(name []byte)) {
	if t.avro == nil {
		for _, name := range t.message().names {
			each([]byte(name))
		}
		return
	}
	for _, c := range t.avro.Columns() {
		each([]byte(c.Name))
	}
}

// rower makes a row, as package table has them, of some fields of messages of one type.
type rower interface {
	appendRow(dst, message []byte) ([]byte, error)
}

func (t *Type) rower(names []string) rower {
	if t.avro == nil {
		return t.message().decoder(names)
	}
	return &avroDecoder{message: avro.NewMessage(t.avro), names: names}
}

const (
	maxTypes    = 64      // of messages that a Decoder remembers
	maxRepeated = 1 << 30 // bytes of a message in the records that are made of it
)

// Decoder decodes some fields of values.
type Decoder struct {
	schemas *Schemas
	names   []string
	of      map[*Type]rower

	row        rower // of the current value
	head, tail []byte
	items      [][]byte // of the current value, not yet read
	one        [1][]byte
	whole      []byte
}

// NewDecoder returns a decoder of the fields of these names.
func (s *Schemas) NewDecoder(names []string) *Decoder {
	return &Decoder{schemas: s, names: slices.Clone(names), of: map[*Type]rower{}}
}

// Begin begins to read a value. Next returns its records. header is the value of Header, nil if the record has
// none: the frame is then in the value. It fetches the schema if it is not known. A Flaw is the fault of this
// value; any other error is one of the registry. It refers to the value.
func (d *Decoder) Begin(ctx context.Context, header, value []byte) error {
	d.items = nil
	t, message, err := d.schemas.of(ctx, header, value)
	if err != nil {
		return err
	}
	if d.row = d.of[t]; d.row == nil {
		if len(d.of) == maxTypes {
			clear(d.of)
		}
		d.row = t.rower(d.names)
		d.of[t] = d.row
	}
	if t.parts == nil {
		d.one[0] = message
		d.head, d.items, d.tail = nil, d.one[:], nil
		return nil
	}
	d.head, d.items, d.tail, err = t.parts.Split(message)
	if n, others := len(d.items), len(d.head)+len(d.tail); err == nil && n*others > maxRepeated {
		d.items = nil
		err = fmt.Errorf("its list has %d elements, for each of which %d bytes of other fields are repeated, more than %d in all", n, others, maxRepeated)
	}
	if err != nil {
		return Flaw(err.Error())
	}
	return nil
}

// Next appends the fields of the next record of the value, as table.Decode reads them. It returns false after the
// last one. Every error is a Flaw.
func (d *Decoder) Next(dst []byte) (row []byte, ok bool, err error) {
	if len(d.items) == 0 {
		return dst, false, nil
	}
	message := d.items[0]
	d.items = d.items[1:]
	if len(d.head)+len(d.tail) > 0 {
		d.whole = append(append(append(d.whole[:0], d.head...), message...), d.tail...)
		message = d.whole
	}
	if row, err = d.row.appendRow(dst, message); err != nil {
		return dst, true, Flaw(err.Error())
	}
	return row, true, nil
}

// avroDecoder decodes records as rows of a table.
type avroDecoder struct {
	message *avro.Message
	names   []string
	rows    *table.Reader // nil: to be opened
}

func (d *avroDecoder) appendRow(dst, record []byte) (row []byte, err error) {
	d.message.Set(record)
	for again := true; again; {
		if again = d.rows != nil; !again {
			f, err := table.New(d.message)
			if err == nil {
				d.rows, err = f.Rows(0, d.names, false)
			}
			if err != nil {
				return dst, err
			}
		}
		if row, err = d.rows.Append(dst); err == nil {
			return row, nil
		}
		d.rows = nil // after an error, or the most rows of a table, it cannot be used
		again = again && errors.Is(err, io.EOF)
	}
	return dst, err
}
