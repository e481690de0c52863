// Package describe has the descriptors of the services and messages of TensorFlow Serving, for gRPC reflection.
//
// fields.tsv lists the name, number and type of fields of messages of TensorFlow and TensorFlow Serving (projects
// tensorflow/tensorflow and tensorflow/serving, Apache-2.0): those that the server reads and writes. The
// descriptors are not registered globally, so a program may also link TensorFlow's stubs.
package describe

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	_ "google.golang.org/protobuf/types/known/anypb"      // an import of the messages
	_ "google.golang.org/protobuf/types/known/wrapperspb" // an import of the messages
)

//go:embed fields.tsv
var fields string

// services are the methods of each service, with the messages of request and response.
var services = [...]struct{ name, methods string }{
	{"PredictionService", "Classify ClassificationRequest ClassificationResponse, Regress RegressionRequest RegressionResponse, Predict PredictRequest PredictResponse, MultiInference MultiInferenceRequest MultiInferenceResponse, GetModelMetadata GetModelMetadataRequest GetModelMetadataResponse"},
	{"ModelService", "GetModelStatus GetModelStatusRequest GetModelStatusResponse, HandleReloadConfigRequest ReloadConfigRequest ReloadConfigResponse"},
}

const servingPackage = "tensorflow.serving"

// Files finds the descriptors, and those that this program has registered.
type Files struct{}

var own = sync.OnceValue(func() *protoregistry.Files {
	files, err := protodesc.NewFiles(descriptors())
	if err != nil {
		panic(err) // a fault in fields.tsv
	}
	return files
})

// FindFileByPath implements protodesc.Resolver.
func (Files) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if d, err := own().FindFileByPath(path); err == nil {
		return d, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

// FindDescriptorByName implements protodesc.Resolver.
func (Files) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if d, err := own().FindDescriptorByName(name); err == nil {
		return d, nil
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}

// set is the files that are being made, one for each package.
type set struct {
	files    map[string]*descriptorpb.FileDescriptorProto // by package
	messages map[string]*descriptorpb.DescriptorProto     // by full name
	enums    map[string]*descriptorpb.EnumDescriptorProto // by full name
}

// descriptors makes the files of the table and the services.
func descriptors() *descriptorpb.FileDescriptorSet {
	s := &set{map[string]*descriptorpb.FileDescriptorProto{}, map[string]*descriptorpb.DescriptorProto{}, map[string]*descriptorpb.EnumDescriptorProto{}}
	var rows [][]string
	for line := range strings.Lines(fields) {
		if cells := strings.Split(strings.TrimSpace(line), "\t"); len(cells) == 4 && cells[0] != "message" {
			rows = append(rows, cells)
		}
	}
	for _, cells := range rows { // before the fields of their types
		if cells[3] == "enum value" {
			e := s.enum(cells[0])
			e.Value = append(e.Value, &descriptorpb.EnumValueDescriptorProto{Name: proto.String(cells[2]), Number: proto.Int32(numberOf(cells[1]))})
		}
	}
	for _, cells := range rows {
		if cells[3] != "enum value" {
			m := s.message(cells[0])
			m.Field = append(m.Field, s.field(cells[2], numberOf(cells[1]), cells[3]))
		}
	}
	serving := s.file(servingPackage)
	for _, x := range services {
		d := &descriptorpb.ServiceDescriptorProto{Name: proto.String(x.name)}
		for m := range strings.SplitSeq(x.methods, ", ") {
			words := strings.Fields(m)
			d.Method = append(d.Method, &descriptorpb.MethodDescriptorProto{Name: proto.String(words[0]), InputType: proto.String("." + servingPackage + "." + words[1]), OutputType: proto.String("." + servingPackage + "." + words[2])})
		}
		serving.Service = append(serving.Service, d)
	}
	all := &descriptorpb.FileDescriptorSet{}
	serving.Dependency = []string{"google/protobuf/any.proto", "google/protobuf/wrappers.proto", "tensorflow.proto", "tensorflow_error.proto"}
	for _, path := range serving.Dependency[:2] {
		if d, err := protoregistry.GlobalFiles.FindFileByPath(path); err == nil { // otherwise NewFiles misses it
			all.File = append(all.File, protodesc.ToFileDescriptorProto(d))
		}
	}
	for _, f := range s.files {
		all.File = append(all.File, f)
	}
	return all
}

func numberOf(text string) (n int32) {
	_, _ = fmt.Sscan(text, &n) // 0 is no number of a field, which NewFiles reports
	return n
}

// file returns the file of a package.
func (s *set) file(name string) *descriptorpb.FileDescriptorProto {
	f := s.files[name]
	if f == nil {
		f = &descriptorpb.FileDescriptorProto{Name: proto.String(strings.ReplaceAll(name, ".", "_") + ".proto"), Package: proto.String(name), Syntax: proto.String("proto3")}
		s.files[name] = f
	}
	return f
}

// split divides a full name into the package, the message around it, if any, and its last part.
func split(full string) (in, around, last string) {
	parts := strings.Split(full, ".")
	n := slices.IndexFunc(parts, func(p string) bool { return unicode.IsUpper(rune(p[0])) })
	in, last = strings.Join(parts[:n], "."), parts[len(parts)-1]
	if n < len(parts)-1 {
		around = strings.Join(parts[:len(parts)-1], ".")
	}
	return in, around, last
}

// message returns a message, and makes it and those around it if necessary.
func (s *set) message(full string) *descriptorpb.DescriptorProto {
	m := s.messages[full]
	if m != nil {
		return m
	}
	in, around, last := split(full)
	m = &descriptorpb.DescriptorProto{Name: proto.String(last)}
	s.messages[full] = m
	if strings.HasSuffix(last, "Entry") {
		m.Options = &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)}
	}
	if around == "" {
		f := s.file(in)
		f.MessageType = append(f.MessageType, m)
	} else {
		outer := s.message(around)
		outer.NestedType = append(outer.NestedType, m)
	}
	return m
}

func (s *set) enum(full string) *descriptorpb.EnumDescriptorProto {
	e := s.enums[full]
	if e != nil {
		return e
	}
	in, around, last := split(full)
	e = &descriptorpb.EnumDescriptorProto{Name: proto.String(last)}
	s.enums[full] = e
	if around == "" {
		f := s.file(in)
		f.EnumType = append(f.EnumType, e)
	} else {
		outer := s.message(around)
		outer.EnumType = append(outer.EnumType, e)
	}
	return e
}

// field returns a field of a type of the table.
func (s *set) field(name string, number int32, kind string) *descriptorpb.FieldDescriptorProto {
	f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
	if rest, repeated := strings.CutPrefix(kind, "repeated "); repeated {
		kind, f.Label = rest, descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	}
	scalar, plain := descriptorpb.FieldDescriptorProto_Type_value["TYPE_"+strings.ToUpper(kind)]
	switch {
	case plain:
		f.Type = descriptorpb.FieldDescriptorProto_Type(scalar).Enum()
		return f
	case s.enums[kind] != nil:
		f.Type = descriptorpb.FieldDescriptorProto_TYPE_ENUM.Enum()
	default:
		f.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
		if !strings.HasPrefix(kind, "google.") {
			s.message(kind) // it may have no field
		}
	}
	f.TypeName = proto.String("." + kind)
	return f
}
