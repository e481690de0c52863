package record

import (
	"slices"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/data/table"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

const headerPrefix = "_header."

// isAround reports whether a field of a topic is outside of the values of its records: their key, their time
// or one of their headers.
func isAround(name string) bool {
	return name == "_key" || name == "_time" || strings.HasPrefix(name, headerPrefix) && name != headerPrefix
}

// envelope adds fields from around a value to its records, as partitions of files are added; see carried.
// Of a message they are columns of its row.
type envelope struct {
	carrier
	form   Format
	lists  []value.List // of a row, all columns; nil: not of messages
	places []int        // in lists
	text   []byte
}

// newEnvelope returns the envelope of records with some fields, nil if they need none. The fields of lines
// are in their order.
func newEnvelope(form Format, fields []string) *envelope {
	e := &envelope{form: form, carrier: carrier{of: new(carried)}}
	for i, name := range fields {
		if isAround(name) {
			e.of.names, e.places = append(e.of.names, name), append(e.places, i)
		}
	}
	if len(e.places) == 0 {
		return nil
	}
	e.of.values = make([][]byte, len(e.places))
	if _, ok := form.(*messageFormat); ok {
		e.lists = make([]value.List, len(fields))
	}
	return e
}

// add returns a record with the fields around its value, valid until the next call.
func (e *envelope) add(record []byte, x *kafka.Record) ([]byte, *Flaw) {
	e.text = slices.Grow(e.text[:0], len(x.Key)+64)
	for i, name := range e.of.names {
		e.of.values[i] = e.field(name, x)
	}
	if e.lists != nil {
		if err := table.Decode(record, e.lists); err != nil {
			return nil, &Flaw{Field: -1, Want: err.Error()}
		}
		for i, v := range e.of.values {
			if e.lists[e.places[i]].Reset(); v != nil {
				e.lists[e.places[i]].SetText(v)
			}
		}
		e.buffer = table.AppendRow(e.buffer[:0], e.lists)
		return e.buffer, nil
	}
	if i := e.of.write(e.form); i >= 0 {
		return nil, &Flaw{Column: e.of.names[i], Value: string(CutLong(e.of.values[i])), Want: "contains the delimiter, which tsv cannot hold"}
	}
	return e.join(record), nil
}

// field returns the value of a field, nil if the record has none. It refers to text, which may move.
func (e *envelope) field(name string, x *kafka.Record) []byte {
	b := x.Key
	switch {
	case name == "_time":
		if x.Millis < 0 {
			return nil
		}
		at := len(e.text)
		e.text = append(time.UnixMilli(x.Millis).UTC().AppendFormat(e.text, "2006-01-02 15:04:05.999"), "+00"...)
		return e.text[at:len(e.text):len(e.text)]
	case name != "_key":
		b = nil
		for _, h := range x.Headers { // the last one counts
			if h.Key == name[len(headerPrefix):] {
				b = h.Value
			}
		}
	}
	if b == nil {
		return nil
	}
	at := len(e.text)
	e.text = table.AppendBytes(e.text, b)
	return e.text[at:len(e.text):len(e.text)]
}
