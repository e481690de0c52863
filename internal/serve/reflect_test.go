package serve

import (
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// reflected asks a server for its services, and for the files that one of them needs.
func reflected(ctx context.Context, conn *grpc.ClientConn, symbol string) (services []string, files *descriptorpb.FileDescriptorSet, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, nil, err
	}
	ask := func(r *grpc_reflection_v1.ServerReflectionRequest) (*grpc_reflection_v1.ServerReflectionResponse, error) {
		if err := stream.Send(r); err != nil && err != io.EOF { // EOF: the server has ended the stream, and Recv has its error
			return nil, err
		}
		return stream.Recv()
	}
	a, err := ask(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}})
	if err != nil {
		return nil, nil, err
	}
	for _, s := range a.GetListServicesResponse().GetService() {
		services = append(services, s.Name)
	}
	if a, err = ask(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol}}); err != nil {
		return nil, nil, err
	}
	files = &descriptorpb.FileDescriptorSet{}
	for _, b := range a.GetFileDescriptorResponse().GetFileDescriptorProto() {
		f := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(b, f); err != nil {
			return nil, nil, err
		}
		files.File = append(files.File, f)
	}
	return services, files, nil
}

// TestReflection: a client that knows nothing of the messages, such as grpcurl, asks for a prediction by names of fields.
func TestReflection(t *testing.T) {
	r := start(t, Options{}, nil, 1)
	services, set, err := reflected(t.Context(), r.conn, "tensorflow.serving.PredictionService")
	must(t, err)
	for _, want := range []string{"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "tensorflow.serving.ModelService", "tensorflow.serving.PredictionService"} {
		if !slices.Contains(services, want) {
			t.Errorf("%s is not in %q", want, services)
		}
	}
	files, err := protodesc.NewFiles(set)
	must(t, err)
	types := dynamicpb.NewTypes(files)
	for _, x := range []struct{ service, method, request, want string }{
		{"PredictionService", "Predict", `{"modelSpec": {"name": "ctr"}, "inputs": {"education": {"dtype": "DT_STRING", "tensorShape": {"dim": [{"size": "2"}]}, "stringVal": ["YQ==", "Yg=="]}}}`, "outputs"},
		{"PredictionService", "GetModelMetadata", `{"modelSpec": {"name": "ctr"}, "metadataField": ["signature_def"]}`, "metadata"},
		{"ModelService", "GetModelStatus", `{"modelSpec": {"name": "ctr"}}`, "model_version_status"},
	} {
		d, err := files.FindDescriptorByName(protoreflect.FullName("tensorflow.serving." + x.service))
		must(t, err)
		m := d.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(x.method))
		in, out := dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output())
		must(t, protojson.UnmarshalOptions{Resolver: types}.Unmarshal([]byte(x.request), in))
		if err := r.conn.Invoke(t.Context(), "/tensorflow.serving."+x.service+"/"+x.method, in, out); err != nil {
			t.Errorf("%s: %v", x.method, err)
			continue
		}
		text, err := protojson.MarshalOptions{Resolver: types}.Marshal(out) // also of the message in Any
		if err != nil || !out.Has(m.Output().Fields().ByName(protoreflect.Name(x.want))) || len(unknownOf(out)) > 0 {
			t.Errorf("%s: %v, unknown fields %x: %s", x.method, err, unknownOf(out), text)
		}
	}
}

// unknownOf returns the fields of a message that its descriptor does not have.
func unknownOf(m protoreflect.Message) (b []byte) {
	b = m.GetUnknown()
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				if f.MapValue().Message() != nil {
					b = append(b, unknownOf(v.Message())...)
				}
				return true
			})
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				b = append(b, unknownOf(v.List().Get(i).Message())...)
			}
		default:
			b = append(b, unknownOf(v.Message())...)
		}
		return true
	})
	return b
}

// TestReflectionIsControl: with an administrative address, reflection is there, for requests with the token, and not at
// the address of clients.
func TestReflectionIsControl(t *testing.T) {
	r := start(t, Options{Admin: &Admin{Token: func() (string, error) { return "secret", nil }}}, nil, 1)
	const service = "tensorflow.serving.ModelService"
	if _, _, err := reflected(t.Context(), r.conn, service); code(err) != codes.Unimplemented {
		t.Errorf("at the address of clients: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var all sync.WaitGroup
	all.Go(func() { must(t, r.ServeAdmin(l)) })
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer func() {
		must(t, conn.Close())
		must(t, r.Shutdown(context.Background()))
		all.Wait()
	}()
	if _, _, err := reflected(t.Context(), conn, service); code(err) != codes.Unauthenticated {
		t.Errorf("without the token: %v", err)
	}
	services, files, err := reflected(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer secret"), conn, service)
	if err != nil || !slices.Contains(services, service) || len(files.File) == 0 {
		t.Errorf("%v: services %q", err, services)
	}
}
