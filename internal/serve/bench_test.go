package serve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/serve/versions"
)

// stepModel is a fakeModel that scores as exported models do, with untrained parameters
// and rows of noise.
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

func (x noise) Read(queries []step.Query) error {
	for _, q := range queries {
		width := len(q.Values) / max(1, len(q.Keys))
		for i, key := range q.Keys {
			copy(q.Values[i*width:(i+1)*width], x[key*0x9E3779B97F4A7C15>>32%uint64(len(x)-width):])
		}
	}
	return nil
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

// benchModel returns a model with hashed features of 10 columns, as many wide weights, and
// these layers.
func benchModel(t testing.TB, features int, hidden string) *stepModel {
	names := make([]string, features)
	text := "data: {train: [%s], header: true}\nlabel: {field: y}\nmodel: {embedding_dim: 10, hidden: " + hidden + "}\nfeatures:\n"
	for i := range names {
		names[i] = fmt.Sprintf("f%d", i)
		text += fmt.Sprintf("  - {field: f%d, encode: hash}\n", i)
	}
	row := strings.Repeat(",17", features)
	return newStepModel(t, text, "y,"+strings.Join(names, ",")+"\n1"+row+"\n0"+row+"\n")
}

// benchInput returns an input of int64 values of this shape.
func benchInput(rng *rand.Rand, feature int, dims ...int) []byte {
	bytesField := func(dst []byte, number protowire.Number, b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), b)
	}
	varint := func(dst []byte, number protowire.Number, x uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), x)
	}
	var content, shape []byte
	values := 1
	for _, d := range dims {
		values *= d
		shape = bytesField(shape, 2, varint(nil, 1, uint64(d)))
	}
	for range values {
		content = protowire.AppendFixed64(content, rng.Uint64N(10_000))
	}
	tensor := bytesField(varint(nil, 1, 9), 2, shape) // DT_INT64
	tensor = bytesField(tensor, 4, content)
	return bytesField(nil, 2, bytesField(bytesField(nil, 1, fmt.Appendf(nil, "f%d", feature)), 2, tensor))
}

// benchSpec names the model.
var benchSpec = []byte{10, 5, 10, 3, 'c', 't', 'r'}

// benchRequest returns a PredictRequest of 100 rows; the first 40 features have one value.
func benchRequest(rng *rand.Rand) []byte {
	msg := slices.Clone(benchSpec)
	for f := range benchFeatures {
		rows := benchRows
		if f < benchShared {
			rows = 1
		}
		msg = append(msg, benchInput(rng, f, rows)...)
	}
	return msg
}

// benchServer returns a server with the model, and some requests.
func benchServer(b *testing.B) (s *Server, requests [][]byte) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 16 {
		requests = append(requests, benchRequest(rng))
	}
	return serveModel(b, benchModel(b, benchFeatures, "[256, 256, 256]")), requests
}

func serveModel(b *testing.B, m Model) *Server {
	base := b.TempDir()
	must(b, os.Mkdir(filepath.Join(base, "1"), 0o755))
	s := New(Options{Open: func(string, Model, func()) (Model, error) { return m, nil }, Threads: 1})
	must(b, s.Set(b.Context(), []versions.Config{{Name: "ctr", Base: base}}))
	b.Cleanup(func() { must(b, s.Shutdown(context.Background())) })
	return s
}

// BenchmarkPredict measures a request from its bytes to the bytes of the response, without the
// transport.
func BenchmarkPredict(b *testing.B) {
	s, requests := benchServer(b)
	server := grpcServer{s.core, newRequests()}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := server.grpcPredict(b.Context(), requests[i%len(requests)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkRandomOrder answers requests of 400 inputs in random order, one of which is a
// list of 100 values. It reports the growth of the resident size after the first tenth of
// the requests, in percent.
func BenchmarkRandomOrder(b *testing.B) {
	const features = 400
	server := grpcServer{serveModel(b, benchModel(b, features, "[8]")).core, newRequests()}
	rng := rand.New(rand.NewPCG(1, 2))
	inputs := make([][]byte, features)
	for f := range inputs {
		inputs[f] = benchInput(rng, f, 1)
	}
	inputs[0] = benchInput(rng, 0, 1, benchRows)
	var msg []byte
	var early int64
	for i := range b.N {
		if i == b.N/10 {
			early = residentBytes(b)
		}
		rng.Shuffle(features, func(i, j int) { inputs[i], inputs[j] = inputs[j], inputs[i] })
		msg = append(msg[:0], benchSpec...)
		for _, in := range inputs {
			msg = append(msg, in...)
		}
		if _, err := server.grpcPredict(b.Context(), msg); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(100*float64(residentBytes(b)-early)/float64(early), "growth-%")
	b.ReportMetric(float64(early)/(1<<20), "MiB")
}

// residentBytes returns the resident size of the process after a garbage collection.
func residentBytes(b *testing.B) int64 {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip(err)
	}
	var size, resident int64
	_, err = fmt.Sscan(string(text), &size, &resident)
	must(b, err)
	return resident * int64(os.Getpagesize())
}
