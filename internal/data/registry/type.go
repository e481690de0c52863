package registry

import (
	"context"
	"errors"
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
}

func messageType(of protoreflect.MessageDescriptor) *Type {
	return &Type{message: sync.OnceValue(func() *message { return newMessage(of) })}
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

// maxTypes is the number of types of messages that a Decoder remembers.
const maxTypes = 64

// Decoder decodes some fields of values.
type Decoder struct {
	schemas *Schemas
	names   []string
	of      map[*Type]rower
}

// NewDecoder returns a decoder of the fields of these names.
func (s *Schemas) NewDecoder(names []string) *Decoder {
	return &Decoder{s, slices.Clone(names), map[*Type]rower{}}
}

// AppendRow appends the fields of a value, as table.Decode reads them. header is the value of Header, nil if the
// record has none: the frame is then in the value. It fetches the schema if it is not known. A Flaw is the fault of this value; any other error is one of the registry.
func (d *Decoder) AppendRow(ctx context.Context, dst, header, value []byte) ([]byte, error) {
	t, message, err := d.schemas.of(ctx, header, value)
	if err != nil {
		return dst, err
	}
	x := d.of[t]
	if x == nil {
		if len(d.of) == maxTypes {
			clear(d.of)
		}
		x = t.rower(d.names)
		d.of[t] = x
	}
	if dst, err = x.appendRow(dst, message); err != nil {
		return dst, Flaw(err.Error())
	}
	return dst, nil
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
