package tfrecord

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// From TensorFlow's test (core/lib/hash/crc32c_test.cc): 32 zero bytes have CRC-32C
// 8a9136aa.
func TestMaskedChecksum(t *testing.T) {
	c := uint32(0x8a9136aa)
	if got, want := masked(make([]byte, 32)), (c>>15|c<<17)+0xa282ead8; got != want {
		t.Errorf("masked checksum %08x, want %08x", got, want)
	}
}

func TestFrame(t *testing.T) {
	var file []byte
	records := []string{"", "a", "bcd", string(make([]byte, 1000))}
	for _, r := range records {
		file = AppendFrame(file, []byte(r))
	}
	rest := file
	for _, r := range records {
		n, err := Header(rest[:HeaderBytes])
		if err != nil || n != len(r) {
			t.Fatalf("header: %d bytes, %v; want %d", n, err, len(r))
		}
		if err := Verify(rest[HeaderBytes:HeaderBytes+n], rest[HeaderBytes+n:]); err != nil || string(rest[HeaderBytes:HeaderBytes+n]) != r {
			t.Fatalf("record of %d bytes: %v", n, err)
		}
		rest = rest[n+Overhead:]
	}
	for i := range file {
		for bit := range 8 {
			file[i] ^= 1 << bit
			if whole(file) {
				t.Fatalf("bit %d of byte %d changed, and nothing was noticed", bit, i)
			}
			file[i] ^= 1 << bit
		}
	}
	if !whole(file) {
		t.Fatal("the file is not as it was")
	}
	huge := AppendFrame(nil, nil)
	huge[6] = 1
	copy(huge[8:], AppendFrame(nil, huge[:8])[HeaderBytes+8:]) // the checksum of that length
	if _, err := Header(huge[:HeaderBytes]); err != ErrLength {
		t.Errorf("a record of 2^48 bytes: %v", err)
	}
}

// whole reports whether a file is a sequence of frames.
func whole(file []byte) bool {
	for len(file) >= HeaderBytes {
		n, err := Header(file[:HeaderBytes])
		if err != nil || len(file) < n+Overhead || Verify(file[HeaderBytes:HeaderBytes+n], file[HeaderBytes+n:]) != nil {
			return false
		}
		file = file[n+Overhead:]
	}
	return len(file) == 0
}

func TestFind(t *testing.T) {
	frame := AppendFrame(nil, []byte("record"))
	for before := range 40 {
		b := append(bytes.Repeat([]byte{0}, before), frame...)
		if at := Find(b); at != before {
			t.Fatalf("%d bytes before a frame: found at %d", before, at)
		}
	}
	if at := Find(frame[1:]); at >= 0 {
		t.Errorf("found at %d what is not there", at)
	}
}

var kinds = []value.Kind{value.None, value.Text, value.Int, value.Float32}

func lists(t *rapid.T) (names []string, all []value.List) {
	for i := range rapid.IntRange(0, 6).Draw(t, "features") {
		l := value.List{Kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
		n := rapid.IntRange(1, 5).Draw(t, "values")
		switch l.Kind {
		case value.Text:
			for range n {
				l.Texts = append(l.Texts, []byte(rapid.String().Draw(t, "text")))
			}
		case value.Int:
			l.Ints = rapid.SliceOfN(rapid.Int64(), n, n).Draw(t, "ints")
		case value.Float32:
			for range n {
				l.AddFloat32(rapid.Float32().Draw(t, "real"))
			}
		}
		names, all = append(names, fmt.Sprintf("f%d", i)), append(all, l)
	}
	return names, all
}

func equal(a, b *value.List) bool {
	switch {
	case a.Kind != b.Kind:
		return false
	case a.Kind == value.Text:
		return slices.EqualFunc(a.Texts, b.Texts, bytes.Equal)
	case a.Kind == value.Int:
		return slices.Equal(a.Ints, b.Ints)
	}
	return a.Kind == value.None || slices.EqualFunc(a.Reals, b.Reals, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

// The protobuf library reads the output of AppendExample as tf.Example, and Decode reads
// the output of both.
func TestExampleRoundTrip(t *testing.T) {
	example := exampleType(t)
	rapid.Check(t, func(t *rapid.T) {
		names, want := lists(t)
		record := AppendExample(nil, names, want)
		m := dynamicpb.NewMessage(example)
		if err := proto.Unmarshal(record, m); err != nil {
			t.Fatalf("the library cannot read it: %v", err)
		}
		again, err := proto.Marshal(m)
		fatal.If(t, err)
		for _, b := range [][]byte{record, again} {
			got := make([]value.List, len(names))
			d := NewDecoder(names)
			for range 2 { // the second time the order is known
				fatal.If(t, d.Decode(b, got))
				for i := range got {
					if !equal(&got[i], &want[i]) {
						t.Fatalf("%s is %+v, want %+v", names[i], got[i], want[i])
					}
				}
			}
		}
	})
}

// exampleType returns tf.Example as a type of the protobuf library.
func exampleType(t testing.TB) protoreflect.MessageDescriptor {
	t.Helper()
	repeated, optional := descriptorpb.FieldDescriptorProto_LABEL_REPEATED, descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
	field := func(name string, n int32, label descriptorpb.FieldDescriptorProto_Label, typ descriptorpb.FieldDescriptorProto_Type, of string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &n, Label: &label, Type: &typ}
		if of != "" {
			f.TypeName = proto.String(".tensorflow." + of)
		}
		return f
	}
	const message = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	list := func(name string, typ descriptorpb.FieldDescriptorProto_Type) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: &name, Field: []*descriptorpb.FieldDescriptorProto{field("value", 1, repeated, typ, "")}}
	}
	feature := &descriptorpb.DescriptorProto{Name: proto.String("Feature"), OneofDecl: []*descriptorpb.OneofDescriptorProto{{Name: proto.String("kind")}}}
	for i, of := range []string{"BytesList", "FloatList", "Int64List"} {
		f := field(of, int32(i+1), optional, message, of)
		f.OneofIndex = proto.Int32(0)
		feature.Field = append(feature.Field, f)
	}
	entry := &descriptorpb.DescriptorProto{
		Name: proto.String("FeatureEntry"), Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
		Field: []*descriptorpb.FieldDescriptorProto{
			field("key", 1, optional, descriptorpb.FieldDescriptorProto_TYPE_STRING, ""), field("value", 2, optional, message, "Feature"),
		},
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("example.proto"), Package: proto.String("tensorflow"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			list("BytesList", descriptorpb.FieldDescriptorProto_TYPE_BYTES),
			list("FloatList", descriptorpb.FieldDescriptorProto_TYPE_FLOAT),
			list("Int64List", descriptorpb.FieldDescriptorProto_TYPE_INT64),
			feature,
			{
				Name: proto.String("Features"), NestedType: []*descriptorpb.DescriptorProto{entry},
				Field: []*descriptorpb.FieldDescriptorProto{field("feature", 1, repeated, message, "Features.FeatureEntry")},
			},
			{Name: proto.String("Example"), Field: []*descriptorpb.FieldDescriptorProto{field("features", 1, optional, message, "Features")}},
		},
	}, nil)
	fatal.If(t, err)
	return file.Messages().ByName("Example")
}

// Numbers may be unpacked, and unknown fields may occur anywhere.
func TestDecodeUnusualEncodings(t *testing.T) {
	entry := func(name string, feature ...byte) []byte {
		e := append([]byte{0x0a, byte(len(name))}, name...)
		e = append(append(e, 0x12, byte(len(feature))), feature...)
		return append([]byte{0x0a, byte(len(e))}, e...)
	}
	features := slices.Concat(
		[]byte{0x7a, 2, 9, 9}, // field 15
		entry("i", 0x1a, 4, 0x08, 5, 0x08, 6),
		entry("f", 0x12, 5, 0x0d, 0, 0, 0x80, 0x3f),
		entry("both", 0x0a, 3, 0x0a, 1, 'x', 0x1a, 2, 0x08, 7),
		entry("none", 0x0a, 0),
		entry("i", 0x1a, 2, 0x08, 8), // a map keeps the last
	)
	record := append([]byte{0x0a, byte(len(features))}, features...)
	got := make([]value.List, 5)
	fatal.If(t, NewDecoder([]string{"i", "f", "both", "none", "absent"}).Decode(record, got))
	want := []value.List{{Kind: value.Int, Ints: []int64{8}}, {Kind: value.Float32, Reals: []float64{1}}, {Kind: value.Int, Ints: []int64{7}}, {}, {}}
	for i := range want {
		if !equal(&got[i], &want[i]) {
			t.Errorf("feature %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	var names []string
	if err := Names(record, func(n []byte) { names = append(names, string(n)) }); err != nil || len(names) != 5 {
		t.Errorf("names %q, %v", names, err)
	}
}

// A truncated record, or one with a lost byte, is an error or has other values, and never
// panics.
func FuzzDecode(f *testing.F) {
	f.Add(clicks(1)[0])
	f.Add(sequence(listed("I1", "t0", "", "t2"), listed("C1")))
	f.Add(message(1, clicks(1)[0]))
	f.Add([]byte{0x0a, 0x05, 0x0a, 0x03, 0x0a, 0x01, 'x'})
	names := []string{"label", "I1", "C1", "C26", ""}
	f.Fuzz(func(t *testing.T, record []byte) {
		got, general := make([]value.List, len(names)), make([]value.List, len(names))
		d := NewDecoder(names)
		err := d.Decode(record, got)
		if e := d.decode(record, general); fmt.Sprint(e) != fmt.Sprint(err) {
			t.Fatalf("Decode: %v, in general: %v", err, e)
		}
		if err != nil {
			return
		}
		for i := range got {
			if fmt.Sprint(got[i].Kind, got[i].Len()) != fmt.Sprint(general[i].Kind, general[i].Len()) || got[i].Len() > 0 && string(got[i].Append(nil, 0)) != string(general[i].Append(nil, 0)) {
				t.Fatalf("feature %d is %+v, in general %+v", i, got[i], general[i])
			}
		}
		// AppendExample of the result decodes to the same values.
		again := make([]value.List, len(names))
		fatal.If(t, NewDecoder(names).Decode(AppendExample(nil, names, got), again))
		for i := range got {
			nan := got[i].Kind == value.Float32 && slices.ContainsFunc(got[i].Reals, math.IsNaN)
			if !nan && !equal(&got[i], &again[i]) {
				t.Fatalf("%+v was written and read as %+v", got[i], again[i])
			}
		}
	})
}

// Single accepts records of common writers, with every number of values that it can
// represent.
func TestSingle(t *testing.T) {
	names := []string{"text", "int", "float", "negative", "absent", "empty"}
	lists := []value.List{
		{Kind: value.Text, Texts: [][]byte{[]byte(strings.Repeat("long ", 60))}},
		{Kind: value.Int, Ints: []int64{1 << 40}},
		{Kind: value.Float32, Reals: []float64{1.5}},
		{Kind: value.Int, Ints: []int64{-3}},
		{},
		{Kind: value.Text, Texts: [][]byte{nil}},
	}
	record := AppendExample(nil, names, lists)
	d, got := NewDecoder(names), make([]Value, len(names))
	if !d.Single(record, got) {
		t.Fatal("a usual record is not taken")
	}
	if v := got[0]; v.Kind != value.Text || string(record[v.Lo:v.Hi]) != string(lists[0].Texts[0]) {
		t.Errorf("text: %+v", v)
	}
	if got[1] != (Value{Kind: value.Int, Int: 1 << 40}) || got[2] != (Value{Kind: value.Float32, Real: 1.5}) ||
		got[3] != (Value{Kind: value.Int, Int: -3}) || got[4].Kind != value.None || got[5].Kind != value.Text || got[5].Lo != got[5].Hi {
		t.Errorf("%+v", got)
	}
	double := func(l value.List) []byte { // "int" again; the last one counts
		return AppendExample(nil, []string{"int", "text", "int"}, []value.List{lists[1], lists[0], l})
	}
	for _, l := range []value.List{lists[1], {Kind: value.Text}} {
		if d.Single(double(l), got) {
			t.Error("a feature that comes twice is taken")
		}
	}
	lists[1].Ints = append(lists[1].Ints, 2)
	if d.Single(AppendExample(nil, names, lists), got) {
		t.Error("a list of two is taken")
	}
	for n := range record {
		if n > 0 && d.Single(record[:n], got) {
			t.Errorf("%d bytes of %d are taken", n, len(record))
		}
	}
}

func FuzzHeader(f *testing.F) {
	f.Add(AppendFrame(nil, []byte("abc")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if at := Find(b); at >= 0 {
			if n, err := Header(b[at : at+HeaderBytes]); err != nil || n < 0 || n > MaxRecord {
				t.Fatalf("found at %d: %d, %v", at, n, err)
			}
		}
	})
}

func TestEveryCutOfARecord(t *testing.T) {
	record := clicks(1)[0]
	names := clickNames()
	got := make([]value.List, len(names))
	for n := 1; n < len(record); n++ {
		if err := NewDecoder(names).Decode(record[:n], got); err == nil {
			t.Errorf("cut at %d of %d: no error", n, len(record))
		}
	}
}

func clickNames() []string {
	names := []string{"label"}
	for i := 1; i <= 13; i++ {
		names = append(names, fmt.Sprintf("I%d", i))
	}
	for i := 1; i <= 26; i++ {
		names = append(names, fmt.Sprintf("C%d", i))
	}
	return names
}

// clicks returns tf.Examples with the 39 features of Criteo's logs and a label.
func clicks(n int) (records [][]byte) {
	names := clickNames()
	lists := make([]value.List, len(names))
	for r := range n {
		for i := range lists {
			if i < 14 {
				lists[i] = value.List{Kind: value.Int, Ints: []int64{int64((r * i) % 1000)}}
			} else {
				lists[i] = value.List{Kind: value.Text, Texts: [][]byte{fmt.Appendf(nil, "%08x", uint32(r*2654435761+i*97))}}
			}
		}
		records = append(records, AppendExample(nil, names, lists))
	}
	return records
}

func TestDecodeAllocatesNothing(t *testing.T) {
	records, names := clicks(10), clickNames()
	d, got := NewDecoder(names), make([]value.List, len(names))
	i := 0
	decode := func() {
		fatal.If(t, d.Decode(records[i%len(records)], got))
		i++
	}
	decode()
	if n := testing.AllocsPerRun(100, decode); n != 0 {
		t.Errorf("%v allocations a record", n)
	}
}
