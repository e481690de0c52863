// Package modelconfig parses TensorFlow Serving's configuration of models and of TLS, as
// protobuf text files, and of models also as the message of a reload request.
//
// This package describes the messages by their public field names and numbers, and parses
// them with protobuf's own parsers. The descriptions are not registered, so a program may
// also link TensorFlow's stubs. A text may have at most MaxBytes bytes; unknown fields are
// errors with line and column.
package modelconfig

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/wdlrun/wdlrun/internal/serve/versions"
)

// MaxBytes is the maximum size of a text.
const MaxBytes = 1 << 20

// maxNested is the maximum nesting depth of braces in a text.
const maxNested = 16

// fields describes the messages: name, then number, name and type of each field. A type in
// brackets is repeated.
var fields = [...]struct {
	message string
	fields  string
}{
	{"ModelServerConfig", "1 model_config_list ModelConfigList"},
	{"ModelConfigList", "1 config [ModelConfig]"},
	{"ModelConfig", "1 name string, 2 base_path string, 3 model_type int32, 4 model_platform string, 7 model_version_policy ServableVersionPolicy, 8 version_labels [VersionLabelsEntry]"},
	{"VersionLabelsEntry", "1 key string, 2 value int64"},
	{"ServableVersionPolicy", "100 latest Latest, 101 all All, 102 specific Specific"},
	{"Latest", "1 num_versions uint32"},
	{"All", ""},
	{"Specific", "1 versions [int64]"},
	{"ReloadConfigRequest", "1 config ModelServerConfig, 2 metric_names [string]"},
	{"SSLConfig", "1 server_key string, 2 server_cert string, 3 custom_ca string, 4 client_verify bool"},
}

var scalars = map[string]descriptorpb.FieldDescriptorProto_Type{
	"string": descriptorpb.FieldDescriptorProto_TYPE_STRING, "int32": descriptorpb.FieldDescriptorProto_TYPE_INT32,
	"int64": descriptorpb.FieldDescriptorProto_TYPE_INT64, "uint32": descriptorpb.FieldDescriptorProto_TYPE_UINT32,
	"bool": descriptorpb.FieldDescriptorProto_TYPE_BOOL,
}

// messages returns the descriptions, which are made once.
var messages = sync.OnceValues(func() (protoreflect.MessageDescriptors, error) {
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("modelconfig"), Package: proto.String("modelconfig"), Syntax: proto.String("proto3")}
	for _, m := range fields {
		d := &descriptorpb.DescriptorProto{Name: proto.String(m.message)}
		for _, text := range strings.Split(m.fields, ", ") {
			f := &descriptorpb.FieldDescriptorProto{Name: new(string), Number: new(int32), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
			kind := ""
			if n, _ := fmt.Sscan(text, f.Number, f.Name, &kind); n < 3 {
				continue // a message without fields
			}
			if inner, repeated := strings.CutPrefix(kind, "["); repeated {
				kind, f.Label = strings.TrimSuffix(inner, "]"), descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
			}
			if s, ok := scalars[kind]; ok {
				f.Type = s.Enum()
			} else {
				f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String(".modelconfig."+kind)
			}
			d.Field = append(d.Field, f)
		}
		file.MessageType = append(file.MessageType, d)
	}
	d, err := protodesc.NewFile(file, nil)
	if err != nil {
		return nil, err
	}
	return d.Messages(), nil
})

func newMessage(name string) (*dynamicpb.Message, error) {
	all, err := messages()
	if err != nil {
		return nil, fmt.Errorf("serve: configuration: %w", err)
	}
	return dynamicpb.NewMessage(all.ByName(protoreflect.Name(name))), nil
}

// message accesses fields of a message by name.
type message struct{ protoreflect.Message }

func (m message) field(name string) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByName(protoreflect.Name(name))
}

func (m message) has(name string) bool                 { return m.Has(m.field(name)) }
func (m message) value(name string) protoreflect.Value { return m.Get(m.field(name)) }
func (m message) sub(name string) message              { return message{m.value(name).Message()} }
func (m message) list(name string) protoreflect.List   { return m.value(name).List() }

// parseText parses a text into a message.
func parseText(name string, text []byte) (message, error) {
	if len(text) > MaxBytes {
		return message{}, fmt.Errorf("%d bytes, at most %d are allowed", len(text), MaxBytes)
	}
	depth := 0
	for _, c := range text {
		switch c {
		case '{', '<', '[':
			depth++
		case '}', '>', ']':
			depth--
		}
		if depth > maxNested {
			return message{}, fmt.Errorf("more than %d levels of braces", maxNested)
		}
	}
	m, err := newMessage(name)
	if err != nil {
		return message{}, err
	}
	return message{m}, prototext.Unmarshal(text, m)
}

// ParseModels parses a ModelServerConfig in text form.
func ParseModels(text []byte) ([]versions.Config, error) {
	m, err := parseText("ModelServerConfig", text)
	if err != nil {
		return nil, err
	}
	return models(m)
}

// ParseReload parses a ReloadConfigRequest.
func ParseReload(b []byte) ([]versions.Config, error) {
	m, err := newMessage("ReloadConfigRequest")
	if err != nil {
		return nil, err
	}
	if err := (proto.UnmarshalOptions{RecursionLimit: maxNested}).Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("ReloadConfigRequest: %w", err)
	}
	if err := unknown(m); err != nil {
		return nil, fmt.Errorf("ReloadConfigRequest: %w", err)
	}
	return models(message{m}.sub("config"))
}

// unknown returns an error for a field that is not described here, such as custom_model_config
// or logging_config, which would have no effect.
func unknown(m protoreflect.Message) error {
	if b := m.GetUnknown(); len(b) > 0 {
		n, _, _ := protowire.ConsumeTag(b)
		return fmt.Errorf("%s: field %d is not supported: leave it out", m.Descriptor().Name(), n)
	}
	var err error
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Kind() != protoreflect.MessageKind:
		case f.IsList():
			for i := 0; i < v.List().Len() && err == nil; i++ {
				err = unknown(v.List().Get(i).Message())
			}
		default:
			err = unknown(v.Message())
		}
		return err == nil
	})
	return err
}

// models returns the models of a ModelServerConfig.
func models(m message) (all []versions.Config, err error) {
	configs := m.sub("model_config_list").list("config")
	for i := range configs.Len() {
		m := message{configs.Get(i).Message()}
		c := versions.Config{Name: m.value("name").String(), Base: m.value("base_path").String()}
		if m.value("model_type").Int() != 0 {
			return nil, fmt.Errorf("model %s: model_type is not supported: leave it out", c.Name)
		}
		labels := m.list("version_labels")
		for k := range labels.Len() {
			l := message{labels.Get(k).Message()}
			if c.Labels == nil {
				c.Labels = map[string]int64{}
			}
			c.Labels[l.value("key").String()] = l.value("value").Int()
		}
		if c.Policy, err = policy(m.sub("model_version_policy")); err != nil {
			return nil, fmt.Errorf("model %s: %w", c.Name, err)
		}
		all = append(all, c)
	}
	return all, versions.Check(all)
}

// policy returns a ServableVersionPolicy.
func policy(m message) (p versions.Policy, err error) {
	given := 0
	if m.has("latest") {
		given++
		n := m.sub("latest").value("num_versions").Uint()
		p.Latest = int(min(n, math.MaxInt32))
	}
	if m.has("all") {
		given, p.All = given+1, true
	}
	if m.has("specific") {
		given++
		list := m.sub("specific").list("versions")
		for i := range list.Len() {
			p.Specific = append(p.Specific, list.Get(i).Int())
		}
		if len(p.Specific) == 0 {
			return p, fmt.Errorf("model_version_policy: specific names no version")
		}
	}
	if given > 1 {
		return p, fmt.Errorf("model_version_policy: give one of latest, all and specific")
	}
	return p, nil
}

// TLS is an SSLConfig, with PEM texts.
type TLS struct {
	Key, Certificate string
	ClientCA         string // with Verify, or ""
	Verify           bool   // clients need a certificate of ClientCA
}

// ParseTLS parses an SSLConfig in text form.
func ParseTLS(text []byte) (TLS, error) {
	m, err := parseText("SSLConfig", text)
	if err != nil {
		return TLS{}, err
	}
	t := TLS{m.value("server_key").String(), m.value("server_cert").String(), m.value("custom_ca").String(), m.value("client_verify").Bool()}
	if t.Verify && t.ClientCA == "" {
		return t, fmt.Errorf("client_verify needs custom_ca, the certificates that sign clients' certificates")
	}
	return t, nil
}
