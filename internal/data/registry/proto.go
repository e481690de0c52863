package registry

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	// files that every schema may import, and registries leave out
	_ "google.golang.org/protobuf/types/known/anypb"
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/emptypb"
	_ "google.golang.org/protobuf/types/known/fieldmaskpb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	maxNesting = 32      // messages in one another
	maxFields  = 1 << 14 // of a message with those in it
)

// parseProto links the last of some files. Each follows those that it imports, unless they are known
// to this program.
func (s *Schemas) parseProto(files []*descriptorpb.FileDescriptorProto) (w *written, err error) {
	defer func() {
		if p := recover(); p != nil { // of the library, on descriptors that no compiler writes
			w, err = nil, Flaw(fmt.Sprintf("its descriptor is damaged: %v", p))
		}
	}()
	found := &linked{new(protoregistry.Files)}
	var last protoreflect.FileDescriptor
	for i, f := range files {
		if f.GetName() == "" {
			f.Name = proto.String("schema.proto")
		}
		if last, err = (protodesc.FileOptions{AllowUnresolvable: true}).New(f, found); err != nil {
			return nil, Flaw(err.Error())
		}
		if i == len(files)-1 {
			break
		}
		if err := found.RegisterFile(last); err != nil {
			return nil, Flaw(err.Error())
		}
	}
	w = &written{messages: map[string]*Type{}}
	s.addMessages(w.messages, last.Messages(), nil)
	if name := protoreflect.FullName(s.from.Message); name != "" {
		m := messageOf(last.Messages(), name)
		if m == nil {
			d, _ := found.FindDescriptorByName(name) // of a file that it imports
			m, _ = d.(protoreflect.MessageDescriptor)
		}
		if m == nil {
			return nil, Flaw(fmt.Sprintf("it has no message %s, which data.registry.message names", name))
		}
		w.one = s.messageType(m)
	} else if s.from.Bare {
		if w.one = w.messages[first]; w.one == nil {
			return nil, Flaw("it has no message")
		}
	}
	return w, nil
}

// messageOf returns the message of a name among some and those in them; nil if there is none.
func messageOf(all protoreflect.MessageDescriptors, name protoreflect.FullName) protoreflect.MessageDescriptor {
	for i := range all.Len() {
		m := all.Get(i)
		if m.FullName() == name {
			return m
		}
		if m = messageOf(m.Messages(), name); m != nil {
			return m
		}
	}
	return nil
}

// linked finds files and types of a schema and of this program.
type linked struct{ *protoregistry.Files }

func (f *linked) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if d, err := f.Files.FindFileByPath(path); err == nil {
		return d, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

func (f *linked) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if d, err := f.Files.FindDescriptorByName(name); err == nil {
		return d, nil
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}

// first is the short form of the indexes of the first message.
const first = "\x00"

// addMessages adds messages and those in them by their indexes, as a value has them. above are the
// indexes of the message around them.
func (s *Schemas) addMessages(to map[string]*Type, all protoreflect.MessageDescriptors, above []int) {
	for i := range all.Len() {
		at := append(above[:len(above):len(above)], i)
		key := binary.AppendVarint(nil, int64(len(at)))
		for _, index := range at {
			key = binary.AppendVarint(key, int64(index))
		}
		t := s.messageType(all.Get(i))
		if to[string(key)] = t; len(at) == 1 && i == 0 {
			to[first] = t
		}
		if len(at) < maxNesting {
			s.addMessages(to, all.Get(i).Messages(), at)
		}
	}
}

// indexes cuts the indexes of a message off a value.
func indexes(b []byte) (key, rest []byte, err error) {
	n, size := binary.Varint(b)
	if size <= 0 || n < 0 || n > maxNesting {
		return nil, nil, errors.New("the indexes of its message are damaged")
	}
	end := size
	for range n {
		if _, size = binary.Varint(b[end:]); size <= 0 {
			return nil, nil, errors.New("the indexes of its message end early")
		}
		end += size
	}
	return b[:end], b[end:], nil
}
