package tfs

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// schema builds messages from the table of facts. Nothing is registered globally.
type schema struct{ file protoreflect.FileDescriptor }

// scalars are the types of the table other than messages.
var scalars = map[string]descriptorpb.FieldDescriptorProto_Type{
	"bytes": descriptorpb.FieldDescriptorProto_TYPE_BYTES, "string": descriptorpb.FieldDescriptorProto_TYPE_STRING,
	"float": descriptorpb.FieldDescriptorProto_TYPE_FLOAT, "double": descriptorpb.FieldDescriptorProto_TYPE_DOUBLE,
	"int32": descriptorpb.FieldDescriptorProto_TYPE_INT32, "int64": descriptorpb.FieldDescriptorProto_TYPE_INT64,
	"uint32": descriptorpb.FieldDescriptorProto_TYPE_UINT32, "uint64": descriptorpb.FieldDescriptorProto_TYPE_UINT64,
	"bool":                  descriptorpb.FieldDescriptorProto_TYPE_BOOL,
	"tensorflow.DataType":   descriptorpb.FieldDescriptorProto_TYPE_INT32,
	"tensorflow.error.Code": descriptorpb.FieldDescriptorProto_TYPE_INT32,
	"tensorflow.serving.ModelVersionStatus.State": descriptorpb.FieldDescriptorProto_TYPE_INT32,
}

// flat returns the name of a message of the test: nested messages are at the top level.
func flat(name string) string { return strings.ReplaceAll(name, ".", "_") }

func loadSchema(t testing.TB) schema {
	t.Helper()
	b, err := os.ReadFile("../describe/fields.tsv")
	fatal.If(t, err)
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("facts.proto"), Package: proto.String("facts"), Syntax: proto.String("proto3"),
		Dependency: []string{"google/protobuf/wrappers.proto", "google/protobuf/any.proto"},
	}
	messages := map[string]*descriptorpb.DescriptorProto{}
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n")[1:] {
		cells := strings.Split(line, "\t")
		if cells[3] == "enum value" {
			continue
		}
		m := messages[cells[0]]
		if m == nil {
			m = &descriptorpb.DescriptorProto{Name: proto.String(flat(cells[0]))}
			messages[cells[0]] = m
			file.MessageType = append(file.MessageType, m)
		}
		if strings.HasSuffix(cells[3], ".All") { // has no field and no line
			file.MessageType = append(file.MessageType, &descriptorpb.DescriptorProto{Name: proto.String(flat(cells[3]))})
		}
		number, err := strconv.Atoi(cells[1])
		fatal.If(t, err)
		m.Field = append(m.Field, newField(cells[2], number, cells[3]))
	}
	d, err := protodesc.NewFile(file, known{})
	fatal.If(t, err)
	return schema{d}
}

func newField(name string, number int, kind string) *descriptorpb.FieldDescriptorProto {
	f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: proto.Int32(int32(number)), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
	if rest, repeated := strings.CutPrefix(kind, "repeated "); repeated {
		kind, f.Label = rest, descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	}
	if s, ok := scalars[kind]; ok {
		f.Type = s.Enum()
		return f
	}
	f.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
	if strings.HasPrefix(kind, "google.") {
		f.TypeName = proto.String("." + kind)
	} else {
		f.TypeName = proto.String(".facts." + flat(kind))
	}
	return f
}

// known resolves the two imports.
type known struct{}

func (known) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if path == "google/protobuf/any.proto" {
		return anypb.File_google_protobuf_any_proto, nil
	}
	return wrapperspb.File_google_protobuf_wrappers_proto, nil
}

func (known) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	for _, f := range []protoreflect.FileDescriptor{anypb.File_google_protobuf_any_proto, wrapperspb.File_google_protobuf_wrappers_proto} {
		if m := f.Messages().ByName(name.Name()); m != nil && m.FullName() == name {
			return m, nil
		}
	}
	return nil, os.ErrNotExist
}

// obj and list are messages and repeated fields in tests.
type (
	obj  map[string]any
	list []any
)

// message makes a message of the table.
func (s schema) message(t testing.TB, name string, fields obj) *dynamicpb.Message {
	t.Helper()
	d := s.file.Messages().ByName(protoreflect.Name(flat(name)))
	if d == nil {
		t.Fatalf("the table has no message %s", name)
	}
	m := dynamicpb.NewMessage(d)
	fill(t, m, fields)
	return m
}

func fill(t testing.TB, m protoreflect.Message, fields obj) {
	t.Helper()
	for name, v := range fields {
		f := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		if f == nil {
			t.Fatalf("%s has no field %s", m.Descriptor().Name(), name)
		}
		if !f.IsList() {
			if sub, ok := v.(obj); ok {
				fill(t, m.Mutable(f).Message(), sub)
			} else {
				m.Set(f, protoreflect.ValueOf(v))
			}
			continue
		}
		to := m.Mutable(f).List()
		for _, x := range v.(list) {
			if sub, ok := x.(obj); ok {
				e := to.NewElement()
				fill(t, e.Message(), sub)
				to.Append(e)
			} else {
				to.Append(protoreflect.ValueOf(x))
			}
		}
	}
}

// encode returns a message of the table in wire format.
func (s schema) encode(t testing.TB, name string, fields obj) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(s.message(t, name, fields))
	fatal.If(t, err)
	return b
}

// same fails unless b is the message described by fields.
func (s schema) same(t testing.TB, b []byte, name string, fields obj) {
	t.Helper()
	want := s.message(t, name, fields)
	got := dynamicpb.NewMessage(want.Descriptor())
	if err := proto.Unmarshal(b, got); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if !proto.Equal(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", name, got, want)
	}
}

// enumRow is a value of an enum of the table.
type enumRow struct {
	message, name string
	number        int
}

func enumRows(t *testing.T) (rows []enumRow) {
	t.Helper()
	b, err := os.ReadFile("../describe/fields.tsv")
	fatal.If(t, err)
	for _, line := range strings.Split(string(b), "\n") {
		if cells := strings.Split(line, "\t"); len(cells) == 4 && cells[3] == "enum value" {
			n, err := strconv.Atoi(cells[1])
			fatal.If(t, err)
			rows = append(rows, enumRow{cells[0], cells[2], n})
		}
	}
	if len(rows) < 20 {
		t.Fatalf("the table has %d values of enums", len(rows))
	}
	return rows
}
