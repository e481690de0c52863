package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/table"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// confluent is what tests/interop/confluent.py wrote with the serializers of Confluent.
type confluent struct {
	Schemas  []json.RawMessage
	Versions map[string][]int
	Records  []struct {
		Format string
		Value  []byte
		Want   struct {
			Click int
			Site  *string
			Tags  []string
			User  struct {
				ID   int64
				Kind string
			}
			At    time.Time
			Price float64
		}
	}
	asked atomic.Int32
}

func readConfluent(t testing.TB) *confluent {
	t.Helper()
	b, err := os.ReadFile("testdata/confluent.json")
	fatal.If(t, err)
	c := new(confluent)
	fatal.If(t, json.Unmarshal(b, c))
	return c
}

// ServeHTTP answers as a registry does.
func (c *confluent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.asked.Add(1)
	part := strings.Split(r.URL.Path, "/")
	n := 0
	switch {
	case part[1] == "schemas" && part[2] == "guids": // of this test: the id is at the end
		if id, ok := strings.CutPrefix(part[3], guidPrefix); ok {
			n, _ = strconv.Atoi(id)
		}
	case part[1] == "schemas":
		n, _ = strconv.Atoi(part[3])
	case len(c.Versions[strings.Join(part[2:len(part)-2], "/")]) > 0:
		v, _ := strconv.Atoi(part[len(part)-1])
		n = c.Versions[strings.Join(part[2:len(part)-2], "/")][v-1]
	}
	if n < 1 || n > len(c.Schemas) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error_code": 40403, "message": "Schema not found"}`)
		return
	}
	w.Write(c.Schemas[n-1])
}

func serve(t testing.TB, h http.Handler) schema.Registry {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return schema.Registry{URL: s.URL + "/"}
}

var fields = []string{"click", "site", "tags", "user.id", "user.kind", "at", "price", "extra", "nothing"}

// guidPrefix is the beginning of the GUIDs of the stand-in for a registry.
const guidPrefix = "00112233-4455-6677-8899-aabbcc00000"

// decode returns the values of fields as text: | separates the values of a list, - means no value.
func decode(s *Schemas, b []byte, names []string) ([]string, error) {
	return decodeAfter(s, nil, b, names)
}

// decodeAfter decodes a value with a header.
func decodeAfter(s *Schemas, header, b []byte, names []string) ([]string, error) {
	rows, err := rowsOf(s, header, b, names)
	if err != nil {
		return nil, err
	}
	return textsOf(rows[0], len(names))
}

// rowsOf returns the records of a value.
func rowsOf(s *Schemas, header, b []byte, names []string) (rows [][]byte, err error) {
	d := s.NewDecoder(names)
	if err := d.Begin(context.Background(), header, b); err != nil {
		return nil, err
	}
	for {
		row, ok, err := d.Next(nil)
		if err != nil || !ok {
			return rows, err
		}
		rows = append(rows, row)
	}
}

// textsOf returns the values of a row of n fields.
func textsOf(row []byte, n int) ([]string, error) {
	lists := make([]value.List, n)
	if err := table.Decode(row, lists); err != nil {
		return nil, err
	}
	texts := make([]string, n)
	for i := range lists {
		var all []string
		for j := range lists[i].All {
			text := "-"
			if j >= 0 {
				text = string(lists[i].Append(nil, j))
			}
			all = append(all, text)
		}
		if texts[i] = strings.Join(all, "|"); len(all) == 0 {
			texts[i] = "-"
		}
	}
	return texts, nil
}

// Each schema is fetched once, also by several goroutines.
func TestRecordsOfConfluentsSerializers(t *testing.T) {
	c := readConfluent(t)
	for _, format := range []string{"avro", "protobuf"} {
		c.asked.Store(0)
		s := New(serve(t, c), format, "")
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for i, r := range c.Records {
					if r.Format != format {
						continue
					}
					w := r.Want
					want := []string{strconv.Itoa(w.Click), "-", strings.Join(w.Tags, "|"), strconv.FormatInt(w.User.ID, 10), w.User.Kind, w.At.UTC().Format("2006-01-02 15:04:05") + "+00", string(value.AppendNumber(nil, w.Price, 64)), "-", "-"}
					if w.Site != nil {
						want[1] = *w.Site
					}
					if len(w.Tags) == 0 {
						want[2] = "-"
					}
					if format == "avro" && w.Click == 1 {
						want[7] = "new"
					}
					if got, err := decode(s, r.Value, fields); err != nil || !slices.Equal(got, want) {
						t.Errorf("%s, record %d: %q, %v, want %q", format, i, got, err, want)
					}
				}
			})
		}
		all.Wait()
		if n := c.asked.Load(); n != 2 { // two versions of Avro; a file of Protobuf and the one that it imports
			t.Errorf("%s: %d requests, want 2", format, n)
		}
	}
}

func TestFlawsAndRefusals(t *testing.T) {
	c := readConfluent(t)
	avro, protobuf := c.Records[0].Value, c.Records[12].Value
	mux := http.NewServeMux()
	mux.Handle("/", c)
	mux.HandleFunc("/schemas/ids/100", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"schemaType": "PROTOBUF", "schema": "syntax = \"proto3\";"}`)
	})
	mux.HandleFunc("/schemas/ids/101", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusUnauthorized) })
	mux.HandleFunc("/schemas/ids/102", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") })
	mux.HandleFunc("/schemas/ids/103", func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) })
	mux.HandleFunc("/schemas/ids/104", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"schema": "\"long\""}`) })
	mux.HandleFunc("/schemas/ids/105", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, maxAnswer+1)) })
	from := serve(t, mux)
	for _, x := range []struct {
		format, value, want string
		flaw                bool
	}{
		{"avro", "", "does not begin with the magic byte", true},
		{"avro", "{\"a\": 1}", "7b2261223a2031", true},
		{"avro", "\x00\x00\x00\x00", "does not begin with the magic byte", true},
		{"avro", "\x00\x00\x00\x00\x07", "schema 7 of " + from.URL + ": the registry does not know it", true},
		{"avro", string(protobuf), "type PROTOBUF, and data.format is avro", true},
		{"protobuf", string(avro), "type AVRO, and data.format is protobuf", true},
		{"avro", string(avro[:9]), "its bytes end early", true},
		{"avro", "\x00\x00\x00\x00\x68", "of the type long; write records", true},
		{"avro", "\x00\x00\x00\x00\x69", "more than", true},
		{"protobuf", "\x00\x00\x00\x00\x64\x00", "format=serialized", true},
		{"protobuf", "\x00\x00\x00\x00\x04", "indexes of its message", true},
		{"protobuf", "\x00\x00\x00\x00\x04\x04\x02", "end early", true},
		{"protobuf", "\x00\x00\x00\x00\x04\x02\x08", "no message of the indexes 0208", true},
		{"avro", "\x00\x00\x00\x00\x65", "data.registry.credentials", false},
		{"avro", "\x00\x00\x00\x00\x66", "is data.registry.url the address", false},
		{"avro", "\x00\x00\x00\x00\x67", "404 Not Found", false},
	} {
		_, err := decode(New(from, x.format, ""), []byte(x.value), fields)
		var flaw Flaw
		if err == nil || !strings.Contains(err.Error(), x.want) || errors.As(err, &flaw) != x.flaw {
			t.Errorf("%s %x: %T %v, want %q", x.format, x.value, err, err, x.want)
		}
	}
}

// An id that does not exist is asked for once in a minute, in spite of many records.
func TestUnknownIDsAreKept(t *testing.T) {
	c := readConfluent(t)
	s := New(serve(t, c), "avro", "")
	for range 10 {
		if _, err := decode(s, []byte{0, 0, 0, 1, 0}, nil); err == nil {
			t.Fatal("no error")
		}
	}
	if n := c.asked.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
	for id := range 2 * maxUnknown {
		_, _ = decode(s, []byte{0, 1, 0, byte(id >> 8), byte(id)}, nil)
	}
	if len(s.unknown) > maxUnknown {
		t.Errorf("%d ids are kept", len(s.unknown))
	}
}

// A registry that is away is waited for: without limit after Wait, until its context ends.
func TestRegistryIsAway(t *testing.T) {
	c := readConfluent(t)
	var left atomic.Int32
	left.Store(4)
	from := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if left.Add(-1) >= 0 {
			http.Error(w, `{"error_code": 50002, "message": "the store timed out"}`, http.StatusInternalServerError)
			return
		}
		c.ServeHTTP(w, r)
	}))
	var causes []string
	s := New(from, "avro", "")
	s.patience = 0
	if _, err := decode(s, c.Records[0].Value, fields); err == nil || !strings.Contains(err.Error(), "given up after") || !strings.Contains(err.Error(), "the store timed out") {
		t.Fatalf("%v", err)
	}
	s.Wait(t.Context(), func(cause error, _ time.Duration) { causes = append(causes, cause.Error()) })
	if _, err := decode(s, c.Records[0].Value, fields); err != nil || len(causes) == 0 || !strings.Contains(causes[0], "schema 1: GET "+from.URL) {
		t.Errorf("%v, causes %q", err, causes)
	}
	ctx, cancel := context.WithCancel(t.Context())
	none := New(schema.Registry{URL: "http://127.0.0.1:1"}, "avro", "")
	none.Wait(ctx, func(error, time.Duration) { cancel() })
	if _, err := decode(none, c.Records[0].Value, fields); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("after the end: %v", err)
	}
}

func TestCredentialsAreReadAgain(t *testing.T) {
	c := readConfluent(t)
	from := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ctr" || password != "second" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		c.ServeHTTP(w, r)
	}))
	from.Credentials = filepath.Join(t.TempDir(), "credentials")
	s := New(from, "avro", "")
	for _, x := range []struct {
		password string
		ok       bool
	}{{"first", false}, {"second", true}} {
		fatal.If(t, os.WriteFile(from.Credentials, []byte("username=ctr\npassword="+x.password+"\n"), 0o600))
		_, err := decode(s, c.Records[0].Value, fields)
		if (err == nil) != x.ok || err != nil && strings.Contains(err.Error(), "first") {
			t.Errorf("%s: %v", x.password, err)
		}
	}
}

// Schemas are files by their ids, or one file for all values, also for values without an id.
func TestFiles(t *testing.T) {
	c := readConfluent(t)
	dir := t.TempDir()
	var set descriptorpb.FileDescriptorSet
	for i, raw := range c.Schemas {
		var a answer
		fatal.If(t, json.Unmarshal(raw, &a))
		switch a.Type {
		case "AVRO":
			fatal.If(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i+1)+".avsc"), []byte(a.Schema), 0o600))
		case "PROTOBUF":
			f, err := descriptor([]byte(a.Schema))
			fatal.If(t, err)
			set.File = append(set.File, f)
		}
	}
	b, err := proto.Marshal(&set)
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(filepath.Join(dir, "4.desc"), b, 0o600))
	avro, protobuf := c.Records[3].Value, c.Records[15].Value // both are record 3, whose schema of Avro is 2
	for _, x := range []struct {
		name, format string
		from         schema.Registry
		value        []byte
		want         string
	}{
		{"folder", "avro", schema.Registry{Files: dir}, avro, "8"},
		{"folder", "protobuf", schema.Registry{Files: dir}, protobuf, "8"},
		{"one file", "protobuf", schema.Registry{Files: dir + "/4.desc"}, append([]byte{0, 9, 9, 9, 9}, protobuf[5:]...), "8"},
		{"bare", "avro", schema.Registry{Files: dir + "/2.avsc", Bare: true}, avro[5:], "8"},
		{"bare", "protobuf", schema.Registry{Files: dir + "/4.desc", Bare: true, Message: "ads.Events.Click"}, protobuf[8:], "8"},
		{"message", "protobuf", schema.Registry{Files: dir, Message: "ads.Events.Click"}, protobuf, "8"},
		{"no message", "protobuf", schema.Registry{Files: dir, Message: "ads.Clicks"}, protobuf, "no message ads.Clicks"},
		{"no id", "avro", schema.Registry{Files: dir}, []byte{0, 0, 0, 0, 77}, "there is no file 77.avsc"},
		{"no set", "protobuf", schema.Registry{Files: dir + "/2.avsc", Bare: true}, protobuf, "is not a FileDescriptorSet"},
		{"no file", "avro", schema.Registry{Files: dir + "/none"}, avro, "no such file"},
	} {
		got, err := decode(New(x.from, x.format, ""), x.value, []string{"user.id"})
		if text := fmt.Sprint(got, err); !strings.Contains(text, x.want) {
			t.Errorf("%s, %s: %s, want %s", x.name, x.format, text, x.want)
		}
	}
}

func fileOf(t testing.TB, f *descriptorpb.FileDescriptorProto) *written {
	t.Helper()
	w, err := New(schema.Registry{}, "protobuf", "").parseProto([]*descriptorpb.FileDescriptorProto{f})
	fatal.If(t, err)
	return w
}

func field(name string, n int32, kind descriptorpb.FieldDescriptorProto_Type, of string, list bool) *descriptorpb.FieldDescriptorProto {
	f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &n, Type: &kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
	if list {
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	}
	if of != "" {
		f.TypeName = &of
	}
	return f
}

func TestValuesOfProtobuf(t *testing.T) {
	type p = descriptorpb.FieldDescriptorProto
	optional := field("maybe", 4, descriptorpb.FieldDescriptorProto_TYPE_INT32, "", false)
	optional.Proto3Optional, optional.OneofIndex = proto.Bool(true), proto.Int32(0)
	m := &descriptorpb.DescriptorProto{Name: proto.String("M"), OneofDecl: []*descriptorpb.OneofDescriptorProto{{Name: proto.String("_maybe")}}, Field: []*p{
		field("n", 1, descriptorpb.FieldDescriptorProto_TYPE_UINT64, "", false),
		field("f", 2, descriptorpb.FieldDescriptorProto_TYPE_FLOAT, "", false),
		field("b", 3, descriptorpb.FieldDescriptorProto_TYPE_BYTES, "", false),
		optional,
		field("e", 5, descriptorpb.FieldDescriptorProto_TYPE_ENUM, ".E", false),
		field("self", 6, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".M", false),
		field("many", 7, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".M", true),
		field("took", 8, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".google.protobuf.Duration", false),
		field("at", 9, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".google.protobuf.Timestamp", false),
		field("ok", 10, descriptorpb.FieldDescriptorProto_TYPE_BOOL, "", false),
		field("xs", 11, descriptorpb.FieldDescriptorProto_TYPE_SINT32, "", true),
		field("gone", 12, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".Gone", false),
	}}
	w := fileOf(t, &descriptorpb.FileDescriptorProto{Syntax: proto.String("proto3"), MessageType: []*descriptorpb.DescriptorProto{m}, Dependency: []string{"gone.proto", "google/protobuf/duration.proto", "google/protobuf/timestamp.proto"},
		EnumType: []*descriptorpb.EnumDescriptorProto{{Name: proto.String("E"), Value: []*descriptorpb.EnumValueDescriptorProto{{Name: proto.String("ZERO"), Number: proto.Int32(0)}}}}})
	one := w.messages[first]
	names := []string{"n", "f", "b", "maybe", "e", "took", "at", "ok", "xs"}
	for _, x := range []struct{ message, want string }{
		{"", "[0 0.0  - ZERO - - false -]"}, // what has no presence has its default
		{"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x15\xcd\xcc\xcc\x3d\x1a\x02\x00\x01\x20\x00\x28\x07\x42\x08\x08\x01\x10\x80\xca\xb5\xee\x01\x4a\x00\x50\x01\x5a\x02\x01\x02",
			`[18446744073709551615 0.1 \x00\x01 0 7 1.5 1970-01-01 00:00:00+00 true -1|1]`},
		{"\x08", "it is not a message M"},
		{"\x4a\x07\x08\x80\x80\x80\x80\x80\x20", "outside the years"},
	} {
		row, err := one.rower(names).appendRow(nil, []byte(x.message))
		var texts []string
		if err == nil {
			texts, err = textsOf(row, len(names))
		}
		if text := fmt.Sprint(texts, err); !strings.Contains(text, x.want) {
			t.Errorf("%x: %s, want %s", x.message, text, x.want)
		}
	}
	for name, why := range map[string]string{"self": "a message in itself", "many": "a list of messages; name their fields", "many.xs": "a list or message in a list", "gone": "Gone, which the schema does not define"} {
		if _, err := one.rower([]string{name}).appendRow(nil, nil); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Maps and lists of messages are lists of equal length, with nulls for fields that a message does not
// have. Entries of a map have no order, so that of the keys is taken, on every rank.
func TestMapsAndListsOfMessages(t *testing.T) {
	entry := func(name string, kind descriptorpb.FieldDescriptorProto_Type) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: proto.String(name), Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)}, Field: []*descriptorpb.FieldDescriptorProto{
			field("key", 1, kind, "", false), field("value", 2, descriptorpb.FieldDescriptorProto_TYPE_DOUBLE, "", false)}}
	}
	m := &descriptorpb.DescriptorProto{Name: proto.String("M"), Field: []*descriptorpb.FieldDescriptorProto{
		field("tags", 1, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".M.TagsEntry", true),
		field("ids", 2, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".M.IdsEntry", true),
		field("hist", 3, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".M.H", true),
	}, NestedType: []*descriptorpb.DescriptorProto{
		entry("TagsEntry", descriptorpb.FieldDescriptorProto_TYPE_STRING), entry("IdsEntry", descriptorpb.FieldDescriptorProto_TYPE_SINT64),
		{Name: proto.String("H"), Field: []*descriptorpb.FieldDescriptorProto{field("id", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING, "", false), field("w", 2, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".google.protobuf.DoubleValue", false)}},
	}}
	one := fileOf(t, &descriptorpb.FileDescriptorProto{Syntax: proto.String("proto3"), Dependency: []string{"google/protobuf/wrappers.proto"}, MessageType: []*descriptorpb.DescriptorProto{m}}).messages[first]
	names := []string{"tags.key", "tags.value", "ids.key", "ids.value", "hist.id", "hist.w"}
	if got := one.message().names; !slices.Equal(got, names) {
		t.Fatalf("%q", got)
	}
	d := dynamicpb.NewMessage(one.message().of)
	fields := d.Descriptor().Fields()
	tags, ids, hist := d.Mutable(fields.ByName("tags")).Map(), d.Mutable(fields.ByName("ids")).Map(), d.Mutable(fields.ByName("hist")).List()
	for i, key := range []string{"z", "a", "m", "ä", "0"} {
		tags.Set(protoreflect.ValueOfString(key).MapKey(), protoreflect.ValueOfFloat64(float64(i)+.5))
		ids.Set(protoreflect.ValueOfInt64(int64(2-i)).MapKey(), protoreflect.ValueOfFloat64(float64(i)+.5))
	}
	for _, text := range []string{"x", "", "y"} {
		h := hist.AppendMutable().Message()
		h.Set(h.Descriptor().Fields().ByName("id"), protoreflect.ValueOfString(text))
		if w := h.Descriptor().Fields().ByName("w"); text != "x" {
			in := h.Mutable(w).Message()
			in.Set(in.Descriptor().Fields().ByName("value"), protoreflect.ValueOfFloat64(2.5))
		}
	}
	b, err := proto.Marshal(d)
	fatal.If(t, err)
	for range 20 {
		row, err := one.rower(names).appendRow(nil, b)
		fatal.If(t, err)
		texts, err := textsOf(row, len(names))
		if want := "[0|a|m|z|ä 4.5|1.5|2.5|0.5|3.5 -2|-1|0|1|2 4.5|3.5|2.5|1.5|0.5 x||y -|2.5|2.5]"; err != nil || fmt.Sprint(texts) != want {
			t.Fatalf("%s, %v; want %s", texts, err, want)
		}
	}
	if _, err := one.rower([]string{"tags"}).appendRow(nil, b); err == nil || !strings.Contains(err.Error(), "name its keys and values, tags.key and tags.value") {
		t.Error(err)
	}
}

// Messages that contain one another twice have 2^30 fields.
func TestManyFieldsAreLimited(t *testing.T) {
	f := &descriptorpb.FileDescriptorProto{Syntax: proto.String("proto3")}
	text := `{"type":"record","name":"R30","fields":[]}`
	for i := range 30 {
		next, name := ".M"+strconv.Itoa(i+1), "M"+strconv.Itoa(i)
		f.MessageType = append(f.MessageType, &descriptorpb.DescriptorProto{Name: &name, Field: []*descriptorpb.FieldDescriptorProto{
			field("a", 1, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, next, false), field("b", 2, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, next, false)}})
		text = fmt.Sprintf(`{"type":"record","name":"R%d","fields":[{"name":"a","type":%s},{"name":"b","type":"R%d"}]}`, 29-i, text, 30-i)
	}
	f.MessageType = append(f.MessageType, &descriptorpb.DescriptorProto{Name: proto.String("M30")})
	if m := fileOf(t, f).messages[first].message(); len(m.unread) == 0 || m.seen > 2*maxFields {
		t.Errorf("%d fields, %d not read", m.seen, len(m.unread))
	}
	if _, err := new(Schemas).parseAvro([]byte(text), nil); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("Avro: %v", err)
	}
}

// FuzzValues: no value makes decoding panic or last long.
func FuzzValues(f *testing.F) {
	c := readConfluent(f)
	var of = map[bool]*Schemas{false: New(serve(f, c), "avro", ""), true: New(serve(f, c), "protobuf", "")}
	for _, r := range c.Records {
		f.Add(r.Format == "protobuf", r.Value)
	}
	f.Fuzz(func(t *testing.T, protobuf bool, b []byte) {
		if len(b) > 1 { // few ids, so that the registry is not asked for each
			b[1] = 0
		}
		got, err := decode(of[protobuf], b, fields)
		if err == nil && len(got) != len(fields) {
			t.Errorf("%q", got)
		}
	})
}

// FuzzSchemas: no schema makes parsing it, or decoding with it, panic or last long.
func FuzzSchemas(f *testing.F) {
	c := readConfluent(f)
	for _, raw := range c.Schemas {
		var a answer
		fatal.If(f, json.Unmarshal(raw, &a))
		text := []byte(a.Schema)
		if a.Type == "PROTOBUF" {
			text, _ = base64.StdEncoding.DecodeString(a.Schema)
		}
		f.Add(a.Type == "PROTOBUF", text, c.Records[0].Value[5:])
	}
	f.Fuzz(func(t *testing.T, protobuf bool, text, b []byte) {
		s := New(schema.Registry{}, map[bool]string{false: "avro", true: "protobuf"}[protobuf], "")
		w, err := s.parseAvro(text, nil)
		if protobuf {
			d := new(descriptorpb.FileDescriptorProto)
			if proto.Unmarshal(text, d) != nil {
				return
			}
			w, err = s.parseProto([]*descriptorpb.FileDescriptorProto{d})
		}
		if err != nil {
			return
		}
		of := w.one
		if of == nil {
			of = w.messages[first]
		}
		if of == nil {
			return
		}
		var names []string
		of.names(func(name []byte) { names = append(names, string(name)) })
		row, err := of.rower(names).appendRow(nil, b)
		if err == nil {
			_, err = textsOf(row, len(names))
			fatal.If(t, err)
		}
	})
}

// TestTLS: a certificate that cannot be verified is an error at once; its authority is a file.
func TestTLS(t *testing.T) {
	c := readConfluent(t)
	server := httptest.NewUnstartedServer(c)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	from := schema.Registry{URL: server.URL}
	if _, err := decode(New(from, "avro", ""), c.Records[0].Value, fields); err == nil || !strings.Contains(err.Error(), "give in data.registry.ca the file") {
		t.Errorf("unknown authority: %v", err)
	}
	from.CA = filepath.Join(t.TempDir(), "ca.pem")
	fatal.If(t, os.WriteFile(from.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	if _, err := decode(New(from, "avro", ""), c.Records[0].Value, fields); err != nil {
		t.Error(err)
	}
}

// TestFrameInAHeader: the frame of a value may be in a header, with the id or the GUID of the schema.
func TestFrameInAHeader(t *testing.T) {
	c := readConfluent(t)
	for _, format := range []string{"avro", "protobuf"} {
		s, read := New(serve(t, c), format, ""), 0
		for _, r := range c.Records {
			if r.Format != format {
				continue
			}
			want, err := decode(s, r.Value, fields)
			fatal.If(t, err)
			id, message, _ := Cut(r.Value)
			key := []byte(nil)
			if format == "protobuf" {
				key, message, err = indexes(message)
				fatal.If(t, err)
			}
			guid := append([]byte{1, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0, 0, byte(id)}, key...)
			for _, header := range [][]byte{guid, append(slices.Clone(r.Value[:frameBytes]), key...)} {
				got, err := decodeAfter(s, header, message, fields)
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("%s after %x: %q, %v, want %q", format, header, got, err, want)
				}
			}
			read++
		}
		if read == 0 {
			t.Errorf("no record of %s", format)
		}
		for want, header := range map[string]string{
			"header __value_schema_id is 0200, and no frame":      "\x02\x00",
			"schema 09112233-4455-6677-8899-aabbcc000001 of http": "\x01\x09\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\x00\x00\x01",
		} {
			_, err := decodeAfter(s, []byte(header), nil, fields)
			if _, ok := errors.AsType[Flaw](err); !ok || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
}
