package registry

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// messageSplitter makes messages of one of Protobuf: one per element of a list of messages.
type messageSplitter struct {
	name string
	of   protoreflect.MessageDescriptor
	list protoreflect.FieldDescriptor // nil: there is none
}

// Split implements splitter. The head has the other fields, and each item is a field with one element.
func (x *messageSplitter) Split(b []byte) (head []byte, items [][]byte, tail []byte, err error) {
	if x.list == nil || !x.list.IsList() || x.list.Message() == nil {
		return nil, nil, nil, fmt.Errorf("message %s has no field %q that is a list of messages, which are records (data.explode)", x.of.FullName(), x.name)
	}
	for len(b) > 0 {
		number, _, n := protowire.ConsumeField(b)
		if n < 0 {
			return nil, nil, nil, fmt.Errorf("it is not a message %s: %w", x.of.FullName(), protowire.ParseError(n))
		}
		if number == x.list.Number() {
			items = append(items, b[:n])
		} else {
			head = append(head, b[:n]...)
		}
		b = b[n:]
	}
	return head, items, nil, nil
}
