package record

import (
	"errors"

	"github.com/wdlrun/wdlrun/internal/data/registry"
)

// messageFormat is messages of Avro or Protobuf, the records of a topic. They are decoded when they
// are read: a record is a row of the fields that are needed, as one of a table is.
type messageFormat struct {
	typedFormat
	schemas *registry.Schemas
}

func newMessageFormat(name string, s *registry.Schemas) *messageFormat {
	return &messageFormat{typedFormat{name}, s}
}

// Look returns an error: messages are records of topics, not of files.
func (m *messageFormat) Look(*File, Content) ([]string, error) {
	return nil, errors.New(m.name + " is a format of topics")
}

var _ naming = (*messageFormat)(nil)

// names calls each with the fields in all schemas so far, since a record has only those that are needed.
func (m *messageFormat) names(_ []byte, each func([]byte, bool)) {
	m.schemas.Names(func(name []byte) { each(name, true) })
}
