package serve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/serve/versions"
	"github.com/wdlrun/wdlrun/internal/wdl/layout"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
)

// stepModel is a fakeModel that scores as exported models do, by parameters that are not
// trained and rows of noise.
type stepModel struct {
	*fakeModel
	layout layout.Layout
	params *step.Parameters
	rows   noise
}

func (m *stepModel) NewScorer() (Scorer, error) {
	return step.NewScorer(m.config, m.layout, m.params, m.rows)
}

func (m *stepModel) Close() error { return nil }

// noise is a table with a row for every key; rows of different keys are far apart in memory.
type noise []float32

func (x noise) Read(_ int, keys []uint64, dst []float32) {
	width := len(dst) / max(1, len(keys))
	for i, key := range keys {
		copy(dst[i*width:(i+1)*width], x[key*0x9E3779B97F4A7C15>>32%uint64(len(x)-width):])
	}
}

func newStepModel(t testing.TB, text, records string) *stepModel {
	t.Helper()
	m := &stepModel{fakeModel: newFakeModelOf(t, text, records), rows: make(noise, 1<<22)}
	for i := range m.rows {
		m.rows[i] = float32(i%17)/16 - .5
	}
	m.layout = layout.New(m.config, m.encoder.Sparse(), m.encoder.Dense())
	var err error
	m.params, err = step.NewParameters(m.config, m.layout)
	must(t, err)
	return m
}

const benchFeatures, benchShared, benchRows = 60, 40, 100

// benchModel has 60 hashed features of 10 columns, 60 wide weights and layers of 256-256-256.
func benchModel(t testing.TB) *stepModel {
	names := make([]string, benchFeatures)
	text := "data: {train: [%s], header: true}\nlabel: {field: y}\nmodel: {embedding_dim: 10, hidden: [256, 256, 256]}\nfeatures:\n"
	for i := range names {
		names[i] = fmt.Sprintf("f%d", i)
		text += fmt.Sprintf("  - {field: f%d, encode: hash}\n", i)
	}
	row := strings.Repeat(",17", benchFeatures)
	return newStepModel(t, text, "y,"+strings.Join(names, ",")+"\n1"+row+"\n0"+row+"\n")
}

// benchRequest is a PredictRequest of 100 rows; the first 40 features have one value.
func benchRequest(rng *rand.Rand) (msg []byte) {
	bytesField := func(dst []byte, number protowire.Number, b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), b)
	}
	varint := func(dst []byte, number protowire.Number, x uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), x)
	}
	msg = bytesField(nil, 1, bytesField(nil, 1, []byte("ctr")))
	for f := range benchFeatures {
		rows := benchRows
		if f < benchShared {
			rows = 1
		}
		var content []byte
		for range rows {
			content = protowire.AppendFixed64(content, rng.Uint64N(10_000))
		}
		tensor := varint(nil, 1, 9) // DT_INT64
		tensor = bytesField(tensor, 2, bytesField(nil, 2, varint(nil, 1, uint64(rows))))
		tensor = bytesField(tensor, 4, content)
		msg = bytesField(msg, 2, bytesField(bytesField(nil, 1, fmt.Appendf(nil, "f%d", f)), 2, tensor))
	}
	return msg
}

// benchServer serves the model, and makes some requests of it.
func benchServer(b *testing.B) (s *Server, requests [][]byte) {
	base := b.TempDir()
	must(b, os.Mkdir(filepath.Join(base, "1"), 0o755))
	m := benchModel(b)
	s = New(Options{Open: func(string) (Model, error) { return m, nil }, Threads: 1})
	must(b, s.Set(b.Context(), []versions.Config{{Name: "ctr", Base: base}}))
	b.Cleanup(func() { must(b, s.Shutdown(context.Background())) })
	rng := rand.New(rand.NewPCG(1, 2))
	for range 16 {
		requests = append(requests, benchRequest(rng))
	}
	return s, requests
}

// BenchmarkPredict answers a request from its bytes to those of the answer, without the
// transport.
func BenchmarkPredict(b *testing.B) {
	s, requests := benchServer(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := s.grpcPredict(b.Context(), requests[i%len(requests)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkCall is BenchmarkPredict over gRPC, with a client in the same process.
func BenchmarkCall(b *testing.B) {
	s, requests := benchServer(b)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	go s.ServeGRPC(l)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(b, err)
	defer conn.Close()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		var out frame
		if err := conn.Invoke(b.Context(), "/tensorflow.serving.PredictionService/Predict", &frame{b: requests[i%len(requests)]}, &out, grpc.ForceCodecV2(newCodec())); err != nil {
			b.Fatal(err)
		}
		out.free()
		i++
	}
}
