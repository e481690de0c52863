package registry

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// changes is a registry with schemas of lists of rows: 1 is Avro, 2 and 3 have no such list, 4 is Protobuf.
func changes(t testing.TB) schema.Registry {
	row := `{"type":"record","name":"Row","fields":[{"name":"id","type":"long"},{"name":"tags","type":{"type":"array","items":"string"}},{"name":"in","type":{"type":"record","name":"In","fields":[{"name":"k","type":["null","string"]}]}}]}`
	record := func(data string) string {
		return `{"type":"record","name":"Change","fields":[{"name":"type","type":"string"},{"name":"old","type":{"type":"array","items":{"type":"record","name":"Old","fields":[{"name":"x","type":"int"}]}}},` + data + `{"name":"n","type":"int"}]}`
	}
	const text, number, message = descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_INT64, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	file, err := proto.Marshal(&descriptorpb.FileDescriptorProto{Name: proto.String("c.proto"), Syntax: proto.String("proto3"), MessageType: []*descriptorpb.DescriptorProto{
		{Name: proto.String("Change"), Field: []*descriptorpb.FieldDescriptorProto{field("type", 1, text, "", false), field("data", 2, message, ".Row", true), field("n", 3, number, "", false)}},
		{Name: proto.String("Row"), Field: []*descriptorpb.FieldDescriptorProto{field("id", 1, number, "", false), field("tags", 2, text, "", true), field("in", 3, message, ".In", false)}},
		{Name: proto.String("In"), Field: []*descriptorpb.FieldDescriptorProto{field("k", 1, text, "", false)}},
	}})
	fatal.If(t, err)
	all := map[string]answer{
		"1": {Schema: record(`{"name":"data","type":["null",{"type":"array","items":` + row + `}]},`)},
		"2": {Schema: record("")},
		"3": {Schema: record(`{"name":"data","type":` + row + `},`)},
		"4": {Type: "PROTOBUF", Schema: base64.StdEncoding.EncodeToString(file)},
	}
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := json.Marshal(all[path.Base(r.URL.Path)])
		fatal.If(t, err)
		w.Write(b)
	}))
}

// long and text are values of Avro.
func long(n int) string    { return string(binary.AppendVarint(nil, int64(n))) }
func text(s string) string { return long(len(s)) + s }

// avroRow, avroValue, protoField, protoInt and protoRow are a row, a change of rows and their fields in either form.
func avroRow(id int, k string, tags ...string) (row string) {
	row = long(id)
	for _, tag := range tags {
		row += long(1) + text(tag)
	}
	if row += long(0); k == "" {
		return row + long(0)
	}
	return row + long(1) + text(k)
}

func avroValue(data string) string {
	return "\x00\x00\x00\x00\x01" + text("INSERT") + long(2) + long(5) + long(6) + long(0) + data + long(7)
}

func protoField(n protowire.Number, s string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), s))
}

func protoInt(n protowire.Number, x uint64) string {
	return string(protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), x))
}

func protoRow(id uint64, k string, tags ...string) (row string) {
	for _, tag := range tags {
		row += protoField(2, tag)
	}
	if k != "" {
		row += protoField(3, protoField(1, k))
	}
	return protoField(2, row+protoInt(1, id))
}

// TestListsOfRecords: each element of a list becomes a record, with the other fields of the message. Lists that are
// missing or empty have none.
func TestListsOfRecords(t *testing.T) {
	from := changes(t)
	const frame = "\x00\x00\x00\x00\x04\x00"
	first, second := avroRow(1, "k", "a", "b"), avroRow(2, "")
	two := []string{"[INSERT 1 a|b k 7]", "[INSERT 2 - - 7]"}
	for _, x := range []struct {
		format, value string
		want          []string
		flaw          string
	}{
		{"avro", avroValue(long(1) + long(2) + first + second + long(0)), two, ""},
		{"avro", avroValue(long(1) + long(1) + first + long(-1) + long(len(second)) + second + long(0)), two, ""},
		{"avro", avroValue(long(1) + long(0)), nil, ""},
		{"avro", avroValue(long(0)), nil, ""},
		{"avro", avroValue(long(2)), nil, "end early"},
		{"avro", avroValue(long(1)+long(2)+first+second+long(0)) + "x", nil, "bytes follow"},
		{"avro", avroValue(long(1) + long(2) + first + second[:2]), nil, "end early"},
		{"avro", avroValue(long(1) + long(1<<40) + long(0)), nil, "end early"},
		{"avro", "\x00\x00\x00\x00\x02", nil, `has no field "data"`},
		{"avro", "\x00\x00\x00\x00\x03", nil, "field data of its schema is no array"},
		{"protobuf", frame + protoRow(1, "k", "a", "b") + protoField(1, "INSERT") + protoRow(2, "") + protoInt(3, 7), two, ""},
		{"protobuf", frame + protoField(1, "INSERT"), nil, ""},
		{"protobuf", frame, nil, ""},
		{"protobuf", frame + protoRow(1, "k") + "\x0a\x05x", nil, "not a message Change"},
		{"protobuf", frame + protoField(2, "\x08") + protoRow(2, ""), nil, "not a message Change"},
		{"protobuf", "\x00\x00\x00\x00\x04\x02\x04", nil, `message In has no field "data" that is a list of messages`},
		{"protobuf", frame + protoField(1, strings.Repeat("x", 1<<16)) + strings.Repeat(protoRow(1, ""), 1<<14+1), nil, "16385 elements, for each of which 65540 bytes"},
	} {
		rows, err := rowsOf(New(from, x.format, "data"), nil, []byte(x.value), []string{"type", "data.id", "data.tags", "data.in.k", "n"})
		var got []string
		for _, row := range rows {
			texts, err := textsOf(row, 5)
			fatal.If(t, err)
			got = append(got, fmt.Sprint(texts))
		}
		_, is := errors.AsType[Flaw](err)
		if !slices.Equal(got, x.want) || is != (x.flaw != "") || is && !strings.Contains(err.Error(), x.flaw) {
			t.Errorf("%s %.99x: %q, %v; want %q, %s", x.format, x.value, got, err, x.want, x.flaw)
		}
	}
	s := New(from, "avro", "data")
	_, err := rowsOf(s, nil, []byte(avroValue(long(0))), nil)
	fatal.If(t, err)
	var names []string
	s.Names(func(name []byte) { names = append(names, string(name)) })
	if want := []string{"type", "old.x", "data.id", "data.tags", "data.in.k", "n"}; !slices.Equal(names, want) {
		t.Errorf("fields %q, want %q", names, want)
	}
}
