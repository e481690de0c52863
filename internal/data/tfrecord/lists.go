package tfrecord

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

var errSingle = errors.New("the record is one example")

// Lists splits records of several examples, as rankers use:
//
//	ExampleListWithContext: 1 repeated tf.Example, 2 context, a tf.Example
//
// Its zero value is ready. It belongs to one goroutine.
type Lists struct {
	examples [][]byte
	context  []byte
	record   []byte
}

// Begin sets l to the examples of a record. It returns false if the record is a single example.
// l refers to the record.
func (l *Lists) Begin(record []byte) bool {
	l.examples, l.context = l.examples[:0], nil
	if plainNames(record) {
		return false
	}
	first := func(_, _ []byte) error { return errSingle }
	err := eachEntry(record, features, first)
	if err == nil {
		err = eachEntry(record, featureLists, first)
	}
	if !errors.Is(err, errLists) {
		return false
	}
	for len(record) > 0 {
		number := protowire.Number(record[0] >> 3)
		if number != 2 {
			number = 1
		}
		v, rest, ok, err := next(record, number)
		if err != nil {
			return false
		}
		if record = rest; !ok {
			continue
		}
		if number == 1 {
			l.examples = append(l.examples, v)
		} else {
			l.context = v
		}
	}
	return true
}

// Next returns the next example as a record, with the features of the context, valid until the next
// call. It returns false after the last. Two messages behind one another are their union; a feature
// of the example replaces one of the context.
func (l *Lists) Next() (record []byte, ok bool) {
	if len(l.examples) == 0 {
		return nil, false
	}
	l.record = append(append(l.record[:0], l.context...), l.examples[0]...)
	l.examples = l.examples[1:]
	return l.record, true
}

// plainNames reports whether the first feature of a record, in the layout of common writers, has a
// name that is no entry of a map. It is the common case, and saves further looks.
func plainNames(record []byte) bool {
	i, end, ok := field(record, 0, len(record), bytesOf1)
	if !ok {
		return false
	}
	if i, end, ok = field(record, i, end, bytesOf1); !ok {
		return false
	}
	i, end, ok = field(record, i, end, bytesOf1)
	return ok && i < end && record[i] != entryTag
}
