package serve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/wdlrun/wdlrun/internal/serve/describe"
	"github.com/wdlrun/wdlrun/internal/serve/modelconfig"
	"github.com/wdlrun/wdlrun/internal/serve/rows"
	"github.com/wdlrun/wdlrun/internal/serve/tfs"
)

// frame is a message as bytes. A received frame holds memory of the transport until free.
type frame struct {
	b    []byte
	held mem.Buffer // may be nil
}

func (f *frame) free() {
	if f.held != nil {
		f.held.Free()
		f.b, f.held = nil, nil
	}
}

// rawCodec passes frames unchanged, and other messages to protobuf.
type rawCodec struct {
	encoding.CodecV2
	received *received
}

func newCodec() rawCodec { return rawCodec{encoding.GetCodecV2(proto.Name), new(received)} }

func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*frame); ok {
		return mem.BufferSlice{mem.SliceBuffer(f.b)}, nil
	}
	return c.CodecV2.Marshal(v)
}

func (c rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(*frame); ok {
		f.held = data.MaterializeToBuffer(c.received)
		f.b = f.held.ReadOnlyData()
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// grpcServer answers gRPC requests.
type grpcServer struct {
	*core
	requests *requests
}

// services returns the services of TensorFlow Serving.
func (s grpcServer) services() []*grpc.ServiceDesc {
	return []*grpc.ServiceDesc{
		s.service("PredictionService", map[string]method{
			"Predict": s.gated(s.grpcPredict), "Classify": s.gated(s.grpcClassify), "Regress": s.gated(s.grpcRegress),
			"MultiInference": s.gated(s.grpcInfer), "GetModelMetadata": s.grpcMetadata,
		}),
		s.service("ModelService", map[string]method{"GetModelStatus": s.grpcStatus, "HandleReloadConfigRequest": s.clientReload}),
	}
}

// reflect describes the services of a server to clients that ask for it, such as grpcurl.
func reflect(g *grpc.Server) {
	o := reflection.ServerOptions{Services: g, DescriptorResolver: describe.Files{}, ExtensionResolver: new(protoregistry.Types)}
	grpc_reflection_v1.RegisterServerReflectionServer(g, reflection.NewServerV1(o))
	grpc_reflection_v1alpha.RegisterServerReflectionServer(g, reflection.NewServer(o)) // of older clients
}

// service returns a service with these methods.
func (s grpcServer) service(name string, methods map[string]method) *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: "tensorflow.serving." + name, HandlerType: (*any)(nil), Metadata: "tensorflow_serving/apis"}
	for name, m := range methods {
		d.Methods = append(d.Methods, grpc.MethodDesc{MethodName: name, Handler: s.unary(name, m)})
	}
	return d
}

// unary returns the handler of a method.
func (s grpcServer) unary(name string, m method) grpc.MethodHandler {
	return func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var in frame
		defer in.free()
		var b []byte
		start := time.Now()
		err := s.panics.rescue(name, func() (err error) {
			if err = decode(&in); err != nil {
				return err
			}
			start = time.Now()
			b, err = m(ctx, in.b)
			return err
		})
		s.metrics.answered(name, status.Code(err), time.Since(start))
		if err != nil {
			return nil, short(err)
		}
		return &frame{b: b}, nil
	}
}

// maxMessage is the maximum length of an error. gRPC sends it as a header, in which a byte may
// take three; clients accept 8 KiB of headers.
const maxMessage = 2 << 10

// short cuts the message of an error, which may quote long names of a request.
func short(err error) error {
	st, is := status.FromError(err)
	if text := st.Message(); is && len(text) > maxMessage {
		return status.Error(st.Code(), text[:maxMessage/2]+" … "+text[len(text)-maxMessage/4:])
	}
	return err
}

// requests pool decoded requests.
type requests struct{ predict, examples sync.Pool }

func newRequests() *requests {
	return &requests{
		predict:  sync.Pool{New: func() any { return new(tfs.PredictRequest) }},
		examples: sync.Pool{New: func() any { return new(tfs.ExamplesRequest) }},
	}
}

func (s grpcServer) grpcPredict(_ context.Context, b []byte) (out []byte, err error) {
	r := s.requests.predict.Get().(*tfs.PredictRequest)
	out, err = s.decodedPredict(r, b)
	s.requests.predict.Put(r) // not after a panic
	return out, err
}

func (s grpcServer) decodedPredict(r *tfs.PredictRequest, b []byte) (out []byte, err error) {
	start := time.Now()
	if err := r.Decode(b, s.options.Limits); err != nil {
		return nil, broken(err)
	}
	s.metrics.decode.Observe(time.Since(start).Seconds())
	encode := func(w *worker) (rows.Counts, error) { return w.coder.Tensors(&w.batch, r.Inputs) }
	err = s.predict(&r.Spec, r.Outputs, encode, func(spec *tfs.ModelSpec, outputs []tfs.Output) error {
		start := time.Now()
		s.live.note(r.Spec.Name, b, len(outputs[0].Values), batchingOfPredict(s.options.Limits))
		out = tfs.AppendPredictResponse(make([]byte, 0, tfs.PredictResponseBytes(spec, outputs)), spec, outputs)
		s.metrics.encode.Observe(time.Since(start).Seconds())
		return nil
	})
	return out, err
}

// ofExamples decodes a request of tf.Examples and calls answer with it.
func (s grpcServer) ofExamples(b []byte, name string, answer func(r *tfs.ExamplesRequest) error) error {
	r := s.requests.examples.Get().(*tfs.ExamplesRequest)
	err := r.Decode(b, s.options.Limits)
	if err != nil {
		err = broken(fmt.Errorf("%s: %w", name, err))
	} else {
		err = answer(r)
	}
	s.requests.examples.Put(r) // not after a panic
	return err
}

func (s grpcServer) grpcClassify(_ context.Context, b []byte) (out []byte, err error) {
	err = s.ofExamples(b, "ClassificationRequest", func(r *tfs.ExamplesRequest) error {
		return s.classify(&r.Spec, examples(&r.Input), func(spec *tfs.ModelSpec, classes []tfs.Class) error {
			out = tfs.AppendClassificationResponse(nil, spec, classes)
			return nil
		})
	})
	return out, err
}

func (s grpcServer) grpcRegress(_ context.Context, b []byte) (out []byte, err error) {
	err = s.ofExamples(b, "RegressionRequest", func(r *tfs.ExamplesRequest) error {
		return s.regress(&r.Spec, examples(&r.Input), func(spec *tfs.ModelSpec, values []float32) error {
			out = tfs.AppendRegressionResponse(nil, spec, values)
			return nil
		})
	})
	return out, err
}

func (s grpcServer) grpcInfer(_ context.Context, b []byte) ([]byte, error) {
	var r tfs.MultiInferenceRequest
	if err := r.Decode(b, s.options.Limits); err != nil {
		return nil, broken(err)
	}
	results, err := s.infer(&r)
	return tfs.AppendMultiInferenceResponse(nil, results), err
}

func (s grpcServer) grpcMetadata(_ context.Context, b []byte) ([]byte, error) {
	var r tfs.MetadataRequest
	if err := r.Decode(b, s.options.Limits); err != nil {
		return nil, broken(fmt.Errorf("GetModelMetadataRequest: %w", err))
	}
	if len(r.Fields) == 0 {
		return nil, invalid("GetModelMetadataRequest: metadata_field is empty; there is %s", tfs.SignatureField)
	}
	for _, f := range r.Fields {
		if f != tfs.SignatureField {
			return nil, invalid("GetModelMetadataRequest: metadata_field %q is not supported; there is %s", f, tfs.SignatureField)
		}
	}
	spec, signatures, err := s.metadata(&r.Spec)
	if err != nil {
		return nil, err
	}
	return tfs.AppendMetadataResponse(nil, spec, signatures), nil
}

func (s grpcServer) grpcStatus(_ context.Context, b []byte) ([]byte, error) {
	var r tfs.MetadataRequest
	if err := r.Decode(b, s.options.Limits); err != nil {
		return nil, broken(fmt.Errorf("GetModelStatusRequest: %w", err))
	}
	list, err := s.status(&r.Spec)
	return tfs.AppendStatusResponse(nil, list), err
}

// clientReload is HandleReloadConfigRequest at the address for clients.
func (s grpcServer) clientReload(ctx context.Context, b []byte) ([]byte, error) {
	if s.options.Admin != nil {
		return nil, status.Error(codes.PermissionDenied, "serve: the models are configured at the address of -admin, not here")
	}
	return s.grpcReload(ctx, b)
}

func (s grpcServer) grpcReload(ctx context.Context, b []byte) ([]byte, error) {
	all, err := modelconfig.ParseReload(b)
	if err != nil {
		return nil, broken(err)
	}
	if err := s.reload(ctx, all); err != nil {
		return nil, err
	}
	return tfs.AppendReloadConfigResponse(nil, tfs.Status{}), nil
}
