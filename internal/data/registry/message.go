package registry

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/wdlrun/wdlrun/internal/data/table"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// message is a message of Protobuf with its fields and the fields of the messages in it.
type message struct {
	of     protoreflect.MessageDescriptor
	names  []string // of fields that can be read
	paths  map[string][]protoreflect.FieldDescriptor
	unread map[string]string // why a field cannot be read
	seen   int               // fields
	single protoreflect.FieldDescriptor
}

// newMessage returns a message. single, nil or a list with at most one element, is read like a nested message: the
// fields of its element are fields of the record.
func newMessage(of protoreflect.MessageDescriptor, single protoreflect.FieldDescriptor) *message {
	m := &message{of: of, paths: map[string][]protoreflect.FieldDescriptor{}, unread: map[string]string{}, single: single}
	m.add(of, "", nil)
	return m
}

// add adds the fields of the message at a path.
func (m *message) add(of protoreflect.MessageDescriptor, within string, above []protoreflect.FieldDescriptor) {
	around := func(d protoreflect.MessageDescriptor) bool {
		return d.FullName() == m.of.FullName() || slices.ContainsFunc(above, func(f protoreflect.FieldDescriptor) bool { return f.Message().FullName() == d.FullName() })
	}
	for i := range of.Fields().Len() {
		f := of.Fields().Get(i)
		name, path := within+string(f.Name()), append(above[:len(above):len(above)], f)
		d := f.Message()
		m.seen++
		switch {
		case m.seen > maxFields: // messages that contain one another can have more than any number
			m.unread[name] = fmt.Sprintf("is beyond %d fields", maxFields)
			return
		case f.IsMap() && !isPlain(f.MapValue()):
			m.unread[name] = "is a map of messages; write a list of messages with plain fields"
		case f.IsMap():
			m.unread[name] = "is a map; name its keys and values, " + name + ".key and " + name + ".value"
			m.member(name+".key", path, f.MapKey())
			m.member(name+".value", path, f.MapValue())
		case d == nil || isValue(d):
			m.names, m.paths[name] = append(m.names, name), path
		case d.IsPlaceholder():
			m.unread[name] = fmt.Sprintf("is of the type %s, which the schema does not define", d.FullName())
		case f.IsList() && f != m.single:
			m.unread[name] = "is a list of messages; name their fields, such as " + name + ".id"
			m.members(name, path, d)
		case around(d) || len(path) == maxNesting:
			m.unread[name] = "is a message in itself; write its members as fields"
		default:
			m.add(d, name+".", path)
		}
	}
}

// members adds the plain fields of the messages of a list.
func (m *message) members(name string, path []protoreflect.FieldDescriptor, of protoreflect.MessageDescriptor) {
	for i := range of.Fields().Len() {
		f := of.Fields().Get(i)
		if in := name + "." + string(f.Name()); isPlain(f) {
			m.member(in, path, f)
		} else {
			m.unread[in] = "is a list or message in a list of messages; write plain fields"
		}
	}
}

// member adds a field of the messages of a list, or of the entries of a map.
func (m *message) member(name string, path []protoreflect.FieldDescriptor, f protoreflect.FieldDescriptor) {
	m.seen++
	m.names, m.paths[name] = append(m.names, name), append(path[:len(path):len(path)], f)
}

// isPlain reports whether a field has one plain value.
func isPlain(f protoreflect.FieldDescriptor) bool {
	return !f.IsList() && !f.IsMap() && (f.Message() == nil || isValue(f.Message()))
}

// values are the messages of google.protobuf that stand for a plain value, and the kinds of their fields.
var values = map[protoreflect.FullName][]protoreflect.Kind{
	"google.protobuf.Timestamp":   {protoreflect.Int64Kind, protoreflect.Int32Kind},
	"google.protobuf.Duration":    {protoreflect.Int64Kind, protoreflect.Int32Kind},
	"google.protobuf.DoubleValue": {protoreflect.DoubleKind},
	"google.protobuf.FloatValue":  {protoreflect.FloatKind},
	"google.protobuf.Int64Value":  {protoreflect.Int64Kind},
	"google.protobuf.UInt64Value": {protoreflect.Uint64Kind},
	"google.protobuf.Int32Value":  {protoreflect.Int32Kind},
	"google.protobuf.UInt32Value": {protoreflect.Uint32Kind},
	"google.protobuf.BoolValue":   {protoreflect.BoolKind},
	"google.protobuf.StringValue": {protoreflect.StringKind},
	"google.protobuf.BytesValue":  {protoreflect.BytesKind},
}

// isValue reports whether a message stands for a plain value.
func isValue(d protoreflect.MessageDescriptor) bool {
	kinds, ok := values[d.FullName()]
	if !ok || d.Fields().Len() != len(kinds) {
		return false
	}
	for i, kind := range kinds {
		if f := d.Fields().ByNumber(protoreflect.FieldNumber(i + 1)); f == nil || f.Kind() != kind || f.IsList() {
			return false
		}
	}
	return true
}

// messageDecoder decodes messages of Protobuf.
type messageDecoder struct {
	paths  [][]protoreflect.FieldDescriptor
	fault  error                        // a field cannot be read
	single protoreflect.FieldDescriptor // see newMessage
	record *dynamicpb.Message
	lists  []value.List
	text   []byte
}

func (m *message) decoder(names []string) *messageDecoder {
	d := &messageDecoder{single: m.single, record: dynamicpb.NewMessage(m.of), lists: make([]value.List, len(names))}
	for _, name := range names {
		if why := m.unread[name]; why != "" && d.fault == nil {
			d.fault = fmt.Errorf("field %s: it %s", name, why)
		}
		d.paths = append(d.paths, m.paths[name])
	}
	return d
}

func (d *messageDecoder) appendRow(dst, b []byte) ([]byte, error) {
	if d.fault != nil {
		return dst, d.fault
	}
	proto.Reset(d.record)
	if err := (proto.UnmarshalOptions{AllowPartial: true, DiscardUnknown: true, RecursionLimit: 2 * maxNesting}).Unmarshal(b, d.record); err != nil {
		return dst, fmt.Errorf("it is not a message %s: %w", d.record.Descriptor().FullName(), err)
	}
	d.text = d.text[:0]
	for i := range d.lists {
		d.lists[i].Reset()
		if err := d.field(&d.lists[i], d.paths[i]); err != nil {
			return dst, fmt.Errorf("field %s: %w", d.paths[i][len(d.paths[i])-1].FullName(), err)
		}
	}
	return table.AppendRow(dst, d.lists), nil
}

// field reads the field at a path, which is empty for one that the message does not have.
func (d *messageDecoder) field(l *value.List, path []protoreflect.FieldDescriptor) error {
	var in protoreflect.Message = d.record
	for i, f := range path {
		last := i == len(path)-1
		if f.HasPresence() && !in.Has(f) && !(last && f.HasDefault()) {
			return nil
		}
		v := in.Get(f)
		switch {
		case f.IsMap():
			return d.entries(l, v.Map(), path[i+1])
		case !last && f == d.single && v.List().Len() == 0:
			return nil
		case !last && f == d.single:
			in = v.List().Get(0).Message()
		case !last && f.IsList():
			return d.members(l, v.List(), path[i+1])
		case !last:
			in = v.Message()
		case f.IsList():
			for list, j := v.List(), 0; j < list.Len(); j++ {
				if err := d.add(l, f, list.Get(j)); err != nil {
					return err
				}
			}
		default:
			return d.add(l, f, v)
		}
	}
	return nil
}

// members appends a field of each message of a list. A message without it has a null in its place.
func (d *messageDecoder) members(l *value.List, all protoreflect.List, f protoreflect.FieldDescriptor) error {
	for i := range all.Len() {
		in := all.Get(i).Message()
		if f.HasPresence() && !in.Has(f) && !f.HasDefault() {
			l.AddNull()
		} else if err := d.add(l, f, in.Get(f)); err != nil {
			return err
		}
	}
	return nil
}

// entries appends the keys or the values of a map, of which f is the field. The order is that of the
// keys: a message has none.
func (d *messageDecoder) entries(l *value.List, all protoreflect.Map, f protoreflect.FieldDescriptor) error {
	keys := make([]protoreflect.MapKey, 0, all.Len())
	all.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return compareKeys(a.Interface(), b.Interface()) })
	for _, key := range keys {
		v := key.Value()
		if f.Number() != 1 {
			v = all.Get(key)
		}
		if err := d.add(l, f, v); err != nil {
			return err
		}
	}
	return nil
}

// compareKeys compares two keys of a map.
func compareKeys(a, b any) int {
	switch a := a.(type) {
	case string:
		return cmp.Compare(a, b.(string))
	case int32:
		return cmp.Compare(a, b.(int32))
	case int64:
		return cmp.Compare(a, b.(int64))
	case uint32:
		return cmp.Compare(a, b.(uint32))
	case uint64:
		return cmp.Compare(a, b.(uint64))
	case bool:
		return cmp.Compare(strconv.FormatBool(a), strconv.FormatBool(b.(bool)))
	}
	return 0
}

// add appends a value of a field.
func (d *messageDecoder) add(l *value.List, f protoreflect.FieldDescriptor, v protoreflect.Value) error {
	at := len(d.text)
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return d.wrapped(l, v.Message())
	case protoreflect.BoolKind:
		d.text = strconv.AppendBool(d.text, v.Bool())
	case protoreflect.EnumKind:
		if x := f.Enum().Values().ByNumber(v.Enum()); x != nil {
			d.text = append(d.text, x.Name()...)
		} else {
			d.text = strconv.AppendInt(d.text, int64(v.Enum()), 10)
		}
	case protoreflect.StringKind:
		d.text = append(d.text, v.String()...)
	case protoreflect.BytesKind:
		d.text = table.AppendBytes(d.text, v.Bytes())
	case protoreflect.FloatKind:
		l.AddReal(value.Widen(float32(v.Float())), &d.text)
		return nil
	case protoreflect.DoubleKind:
		l.AddReal(v.Float(), &d.text)
		return nil
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		if v.Uint() <= math.MaxInt64 {
			l.AddInt(int64(v.Uint()), &d.text)
			return nil
		}
		d.text = strconv.AppendUint(d.text, v.Uint(), 10)
	default:
		l.AddInt(v.Int(), &d.text)
		return nil
	}
	l.AddText(d.text[at:len(d.text):len(d.text)], &d.text)
	return nil
}

// wrapped appends the value that a message stands for.
func (d *messageDecoder) wrapped(l *value.List, m protoreflect.Message) error {
	fields := m.Descriptor().Fields()
	first := m.Get(fields.ByNumber(1))
	if fields.Len() == 1 {
		return d.add(l, fields.Get(0), first)
	}
	seconds, nanos := first.Int(), m.Get(fields.ByNumber(2)).Int()
	if m.Descriptor().Name() == "Duration" {
		l.AddReal(float64(seconds)+float64(nanos)/1e9, &d.text)
		return nil
	}
	const least, most = -62135596800, 253402300799 // the years 1 to 9999
	if seconds < least || seconds > most || nanos < 0 || nanos >= 1e9 {
		return errors.New("the Timestamp is outside the years 1 to 9999")
	}
	at := len(d.text)
	d.text = append(time.Unix(seconds, nanos).UTC().AppendFormat(d.text, "2006-01-02 15:04:05.999999999"), "+00"...)
	l.AddText(d.text[at:len(d.text):len(d.text)], &d.text)
	return nil
}
