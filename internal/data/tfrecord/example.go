package tfrecord

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Faults of a record.
var (
	errWire  = errors.New("the record is not a tf.Example: its protobuf encoding is broken")
	errField = errors.New("the record is not a tf.Example: a field has another type")
	errLists = errors.New("the record is a list of examples with a context (ExampleListWithContext), which is only read from files; in topics and requests, write one tf.Example for each example, with the features of the context in it")
)

// Decoder decodes some features of tf.Examples.
type Decoder struct {
	place  map[string]int
	last   []expected // features in the order of earlier records
	values []Value
	step   value.List // of a feature list
}

// expected is a feature that may recur at the same place.
type expected struct {
	name  []byte
	place int // −1: not needed
}

// NewDecoder returns a decoder of the features of these names, in this order.
func NewDecoder(names []string) *Decoder {
	d := &Decoder{place: make(map[string]int, len(names)), values: make([]Value, len(names))}
	for i, n := range names {
		d.place[n] = i
	}
	return d
}

// Decode fills lists, one per name. A feature that the record does not have, or that has
// no values, gets kind None. Texts refer to the record.
func (d *Decoder) Decode(record []byte, lists []value.List) error {
	if !d.Single(record, d.values) {
		return d.decode(record, lists)
	}
	for i := range lists {
		l := &lists[i]
		l.Reset()
		switch v := &d.values[i]; v.Kind {
		case value.Text:
			l.SetText(record[v.Lo:v.Hi:v.Hi])
		case value.Int:
			l.Begin(value.Int)
			l.Ints = append(l.Ints, v.Int)
		case value.Float32:
			l.Begin(value.Float32)
			l.Reals = append(l.Reals, v.Real)
		}
	}
	return nil
}

// decode is Decode of any record.
func (d *Decoder) decode(record []byte, lists []value.List) error {
	for i := range lists {
		lists[i].Reset()
	}
	at := 0
	err := eachEntry(record, features, func(key, feature []byte) error {
		if i := d.find(&at, key); i >= 0 {
			return decodeFeature(feature, &lists[i])
		}
		return nil
	})
	if err != nil {
		return err
	}
	return eachEntry(record, featureLists, func(key, list []byte) error {
		i := d.find(&at, key)
		if i < 0 {
			return nil
		}
		if lists[i].Places() > 0 {
			return fmt.Errorf("the feature list %q has the name of another feature of the record: rename one", key)
		}
		return d.decodeList(key, list, &lists[i])
	})
}

// decodeList decodes a feature list of a tf.SequenceExample. A step without a value is a null.
func (d *Decoder) decodeList(key, list []byte, to *value.List) error {
	return eachField(list, 1, func(feature []byte) error {
		l := &d.step
		if err := decodeFeature(feature, l); err != nil {
			return err
		}
		switch n := l.Len(); {
		case n == 0:
			to.AddNull()
			return nil
		case n > 1:
			return fmt.Errorf("step %d of the feature list %q has %d values; a list has one for each step: flatten it where the records are written", to.Places()+1, key, n)
		case to.Kind != value.None && to.Kind != l.Kind:
			return fmt.Errorf("the steps of the feature list %q have several types; write one", key)
		}
		to.Begin(l.Kind)
		switch l.Kind {
		case value.Text:
			to.Texts = append(to.Texts, l.Texts[0])
		case value.Int:
			to.Ints = append(to.Ints, l.Ints[0])
		default:
			to.Reals = append(to.Reals, l.Reals[0])
		}
		return nil
	})
}

// Fields of a record: the features of a tf.Example, which are the context of a
// tf.SequenceExample, and the feature lists of a tf.SequenceExample. Each is a map.
const (
	features     = 1
	featureLists = 2
)

// eachEntry calls f with each entry of a map of the record.
func eachEntry(record []byte, number protowire.Number, f func(key, value []byte) error) error {
	return eachField(record, number, func(entries []byte) error {
		return eachField(entries, 1, func(entry []byte) error {
			key, value, err := mapEntry(entry)
			if err != nil {
				return err
			}
			if isEntry(key) {
				return errLists
			}
			return f(key, value)
		})
	})
}

// entryTag begins an entry of a map.
const entryTag = bytesOf1

// isEntry reports whether the name of a feature is an entry of a map, with a name and a feature.
// It is one if the record is an ExampleListWithContext, whose messages are one level deeper.
func isEntry(key []byte) bool {
	if len(key) == 0 || key[0] != entryTag {
		return false
	}
	name, feature, err := mapEntry(key)
	return err == nil && name != nil && feature != nil
}

const (
	maxExpected = 1 << 10 // features whose order is kept
	maxAbsent   = 4       // maximum number of consecutive expected features that may be absent
)

// find returns the place of a feature after number *at of the expected ones. Records of
// one writer have their features in one order, but some may be absent.
func (d *Decoder) find(at *int, name []byte) int {
	for i := *at; i < len(d.last) && i <= *at+maxAbsent; i++ {
		if string(d.last[i].name) == string(name) {
			*at = i + 1
			return d.last[i].place
		}
	}
	place, ok := d.place[string(name)]
	if !ok {
		place = -1
	}
	if len(d.last) < maxExpected {
		d.last = slices.Insert(d.last, *at, expected{slices.Clone(name), place})
		*at++
	}
	return place
}

// Names calls f for each feature of a record, and for each feature list with at most one value
// in each step.
func Names(record []byte, f func(name []byte)) error { return each(record, f, func([]byte) {}) }

// Nested calls f for each feature list with several values in a step, which cannot be a field.
func Nested(record []byte, f func(name []byte)) error { return each(record, func([]byte) {}, f) }

func each(record []byte, plain, nested func(name []byte)) error {
	err := eachEntry(record, features, func(key, _ []byte) error {
		plain(key)
		return nil
	})
	if err != nil {
		return err
	}
	var step value.List
	return eachEntry(record, featureLists, func(key, list []byte) error {
		several := false
		err := eachField(list, 1, func(feature []byte) error {
			err := decodeFeature(feature, &step)
			several = several || step.Len() > 1
			return err
		})
		switch {
		case err != nil:
			return err
		case several:
			nested(key)
		default:
			plain(key)
		}
		return nil
	})
}

// eachField calls f with each field of that number, which must hold bytes.
func eachField(b []byte, number protowire.Number, f func([]byte) error) error {
	for len(b) > 0 {
		v, rest, ok, err := next(b, number)
		if err != nil {
			return err
		}
		if b = rest; !ok {
			continue
		}
		if err := f(v); err != nil {
			return err
		}
	}
	return nil
}

// next splits a field off b. ok reports whether it has the given number; such a field must
// hold bytes.
func next(b []byte, number protowire.Number) (v, rest []byte, ok bool, err error) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return nil, nil, false, errWire
	}
	b = b[n:]
	if num != number {
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return nil, nil, false, errWire
		}
		return nil, b[n:], false, nil
	}
	if typ != protowire.BytesType {
		return nil, nil, false, errField
	}
	v, n = protowire.ConsumeBytes(b)
	if n < 0 {
		return nil, nil, false, errWire
	}
	return v, b[n:], true, nil
}

// mapEntry returns the name and the feature of one entry, empty if they are absent.
func mapEntry(b []byte) (key, feature []byte, err error) {
	for len(b) > 0 {
		number := protowire.Number(b[0] >> 3)
		if number != 2 {
			number = 1
		}
		v, rest, ok, err := next(b, number)
		if err != nil {
			return nil, nil, err
		}
		if b = rest; !ok {
			continue
		}
		if number == 1 {
			key = v
		} else {
			feature = v
		}
	}
	return key, feature, nil
}

// decodeFeature decodes the list of a feature. If there are several kinds, the last one
// counts, as in protobuf.
func decodeFeature(b []byte, to *value.List) error {
	to.Reset()
	for len(b) > 0 {
		number := protowire.Number(b[0] >> 3)
		if number < 1 || number > 3 {
			number = 1
		}
		list, rest, ok, err := next(b, number)
		if err != nil {
			return err
		}
		if b = rest; !ok {
			continue
		}
		switch number {
		case 1:
			err = texts(list, to)
		case 2:
			err = floats(list, to)
		case 3:
			err = integers(list, to)
		}
		if err != nil {
			return err
		}
	}
	if to.Len() == 0 {
		to.Reset()
	}
	return nil
}

func texts(b []byte, to *value.List) error {
	to.Begin(value.Text)
	for len(b) > 0 {
		v, rest, ok, err := next(b, 1)
		if err != nil {
			return err
		}
		if b = rest; ok {
			to.Texts = append(to.Texts, v)
		}
	}
	return nil
}

func floats(b []byte, to *value.List) error {
	to.Begin(value.Float32)
	return numbers(b, protowire.Fixed32Type, func(b []byte) int {
		x, n := protowire.ConsumeFixed32(b)
		to.AddFloat32(math.Float32frombits(x))
		return n
	})
}

func integers(b []byte, to *value.List) error {
	to.Begin(value.Int)
	return numbers(b, protowire.VarintType, func(b []byte) int {
		x, n := protowire.ConsumeVarint(b)
		to.Ints = append(to.Ints, int64(x))
		return n
	})
}

// numbers decodes the numbers of field 1, packed or not. add decodes the first number of its
// argument and returns the number of its bytes; a negative one is an error.
func numbers(b []byte, kind protowire.Type, add func(b []byte) int) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errWire
		}
		b = b[n:]
		switch {
		case num == 1 && typ == protowire.BytesType:
			var packed []byte
			packed, n = protowire.ConsumeBytes(b)
			for len(packed) > 0 {
				used := add(packed)
				if used < 0 {
					return errWire
				}
				packed = packed[used:]
			}
		case num == 1 && typ == kind:
			n = add(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return errWire
		}
		b = b[n:]
	}
	return nil
}
