package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/wdlrun/wdlrun/internal/data/jsonl"
	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/data/registry"
)

func (t topicFormat) Records(names []string) Records {
	r := &topicRecords{isRecord: func([]byte) bool { return true }}
	switch f := t.Format.(type) {
	case *messageFormat:
		r.around = newEnvelope(f, names)
		r.messages = f.schemas.NewDecoder(names)
		return r
	case *Delimited:
		r.quotes, r.whole, r.around = f.quotes, f.multiline, newEnvelope(f, t.fields)
	case objectFormat:
		r.json, r.around = true, newEnvelope(f, names)
		if t.explode != "" {
			r.explode = jsonl.NewExploder(t.explode)
		}
	case exampleFormat:
		r.around = newEnvelope(f, names)
	}
	if text, ok := t.Format.Records(names).(*textRecords); ok {
		r.isRecord, r.text = text.isRecord, true
	}
	return r
}

// topicRecords reads the records of a range. A value of a text format may have several lines, and an
// object several records.
type topicRecords struct {
	isRecord func([]byte) bool
	text     bool
	json     bool
	quotes   bool // a quoted field may have line breaks
	whole    bool // a value is one line
	explode  *jsonl.Exploder
	messages *registry.Decoder // of messages; nil: the format has its own decoder
	row      []byte            // of a message
	around   *envelope         // fields from around the value; nil: none

	src    topicSource
	at, hi int64 // next range to fetch
	bytes  int   // of the next fetch
	number int32
	held   []kafka.Record

	value kafka.Record // the current one
	lines []byte       // of it that are not read yet
	open  bool         // explode or messages may have further records
	rest  bool         // a record of value was returned
}

func (r *topicRecords) Begin(s Content, _ *File, b Block, offset int64, number int32) error {
	src, ok := s.(topicSource)
	if !ok {
		return errors.New("no topic") // unreachable
	}
	r.src, r.at, r.hi, r.number, r.held, r.bytes = src, max(b.Lo, offset), b.Hi, number, nil, 0
	r.lines, r.open = nil, false
	return nil
}

// Next returns the next record. Values that are nil mark the deletion of a key; they are skipped, as
// blank lines are.
func (r *topicRecords) Next() (Unit, error) {
	for {
		if u, ok := r.further(); ok {
			return u, nil
		}
		if len(r.held) == 0 {
			if r.at >= r.hi {
				return Unit{Number: r.number, Offset: r.hi}, io.EOF
			}
			var err error
			if r.held, r.at, err = r.src.log.From(context.Background(), r.src.part.Partition, r.at, r.bytes); err != nil {
				return Unit{Number: r.number, Offset: r.at}, err
			}
			r.bytes = max(2*r.bytes, 256<<10) // sequential reading: fetch more
			continue
		}
		x := r.held[0]
		if x.Offset >= r.hi {
			r.held, r.at = nil, r.hi
			continue
		}
		r.held = r.held[1:]
		if x.Value == nil {
			continue
		}
		r.value, r.rest = x, false
		if r.messages == nil {
			if fl := r.cut(x.Value); fl != nil {
				return r.unit(nil, fl), nil
			}
			continue
		}
		err := r.messages.Begin(context.Background(), frameOf(&x), x.Value)
		if flaw, ok := errors.AsType[registry.Flaw](err); ok {
			return r.unit(nil, &Flaw{Field: -1, Want: string(flaw)}), nil
		}
		if err != nil {
			return Unit{Number: r.number, Offset: x.Offset}, err
		}
		r.open = true
	}
}

// frameOf returns the frame in the headers of a record, nil if they have none.
func frameOf(x *kafka.Record) (frame []byte) {
	for _, h := range x.Headers { // the last one counts
		if h.Key == registry.Header {
			frame = h.Value
		}
	}
	return frame
}

// cut begins to read the lines of a value.
func (r *topicRecords) cut(b []byte) *Flaw {
	if id, rest, framed := registry.Cut(b); framed { // no text and no tf.Example begins with a zero byte
		if b = rest; !r.json || !jsonl.Is(rest) {
			return &Flaw{Field: -1, Want: fmt.Sprintf("the value begins with the magic byte 0 and schema id %d, as serializers of a schema registry write Avro and Protobuf: set data.format: avro or protobuf, and data.registry.url", id)}
		}
	}
	r.lines = b
	return nil
}

// further returns the next record of the current value.
func (r *topicRecords) further() (Unit, bool) {
	for {
		if r.open {
			if u, ok := r.element(); ok {
				return u, true
			}
			r.open = false
		}
		if len(r.lines) == 0 {
			return Unit{}, false
		}
		line := r.line()
		switch {
		case r.text && !r.json && len(line) > MaxLine:
			return r.unit(nil, &Flaw{Field: -1, Want: "the record is longer than 1 MiB"}), true
		case !r.isRecord(line):
		case r.explode == nil:
			return r.unit(line, nil), true
		default:
			if err := r.explode.Begin(line); err != nil {
				return r.unit(nil, &Flaw{Field: -1, Want: err.Error()}), true
			}
			r.open = true
		}
	}
}

// element returns the next record of a line or of a message.
func (r *topicRecords) element() (u Unit, ok bool) {
	if r.messages == nil {
		record, ok := r.explode.Next()
		if ok {
			u = r.unit(record, nil)
		}
		return u, ok
	}
	var err error
	switch r.row, ok, err = r.messages.Next(r.row[:0]); {
	case err != nil:
		u = r.unit(nil, &Flaw{Field: -1, Want: err.Error()})
	case ok:
		u = r.unit(r.row, nil)
	}
	return u, ok
}

// line cuts the next line off the value. Quoted fields and objects may have line breaks in them: a value
// with quotes is one line, and it has several objects only if its first line is one.
func (r *topicRecords) line() []byte {
	first, rest := r.lines, []byte(nil)
	if i := bytes.IndexByte(first, '\n'); r.text && i >= 0 && !r.whole && !(r.quotes && bytes.IndexByte(first, '"') >= 0) && (!r.json || r.rest || len(bytes.TrimSpace(first[:i])) == 0 || jsonl.Names(first[:i], func([]byte) {}) == nil) {
		first, rest = first[:i], first[i+1:]
	}
	r.lines = rest
	if r.text {
		first = trimLine(first)
	}
	return first
}

// unit returns a record of the current value.
func (r *topicRecords) unit(record []byte, fl *Flaw) Unit {
	u := Unit{Record: record, Flaw: fl, Offset: r.value.Offset, Number: r.number, Rest: r.rest}
	if fl == nil && r.around != nil {
		u.Record, u.Flaw = r.around.add(record, &r.value)
	}
	r.number++
	r.rest = true
	return u
}
