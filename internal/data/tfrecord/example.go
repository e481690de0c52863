package tfrecord

import (
	"errors"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Faults of a record.
var (
	errWire  = errors.New("the record is not a tf.Example: its protobuf encoding is broken")
	errField = errors.New("the record is not a tf.Example: a field has another type")
)

// Decoder decodes some features of tf.Examples.
type Decoder struct {
	place  map[string]int
	last   []expected // features in the order of earlier records
	values []Value
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
	return eachField(record, 1, func(features []byte) error {
		for b := features; len(b) > 0; {
			entry, rest, ok, err := next(b, 1)
			if err != nil {
				return err
			}
			if b = rest; !ok {
				continue
			}
			key, feature, err := mapEntry(entry)
			if err != nil {
				return err
			}
			i := d.find(&at, key)
			if i < 0 {
				continue
			}
			if err := decodeFeature(feature, &lists[i]); err != nil {
				return err
			}
		}
		return nil
	})
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

// Names calls f for each feature of a record.
func Names(record []byte, f func(name []byte)) error {
	return eachField(record, 1, func(features []byte) error {
		return eachField(features, 1, func(entry []byte) error {
			key, _, err := mapEntry(entry)
			if err == nil {
				f(key)
			}
			return err
		})
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
		to.Reals = append(to.Reals, float64(math.Float32frombits(x)))
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
