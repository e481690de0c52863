package avro

import (
	"math"

	"github.com/wdlrun/wdlrun/internal/data/table"
)

// Message is a record without a file. It implements table.Form: a group whose next record is always
// the one of the last Set. It belongs to one goroutine.
type Message struct {
	*Schema
	record []byte
}

// NewMessage returns a record of a schema, which many may share.
func NewMessage(s *Schema) *Message { return &Message{Schema: s} }

// Set sets the bytes of the record.
func (m *Message) Set(record []byte) { m.record = record }

// Groups implements table.Form.
func (m *Message) Groups() []int64 { return []int64{math.MaxInt32} }

// Open implements table.Form.
func (m *Message) Open(_ int, columns []int) (table.Pages, error) {
	p := &messagePages{of: m}
	return p, p.open(m.Schema, columns)
}

type messagePages struct {
	of *Message
	rows
}

// Next implements table.Pages.
func (p *messagePages) Next() error { return p.decode(p.of.record, 1) }

// Close implements table.Pages.
func (p *messagePages) Close() {}
