package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/serve/versions"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(patient.Settled(m)) }

func must(t testing.TB, err error) {
	t.Helper()
	fatal.If(t, err)
}

func schemaOf(c *config.Config) schema.Schema {
	return schema.Schema{Label: c.Label, Labels: c.Labels, Features: c.Features, Crosses: c.Crosses}
}

const people = `age,education,hours-per-week,income
17,Masters,40,0
38,HS-grad,0.5,1
90,Masters,99,1
20,Bachelors,60,0
`

const peopleConfig = `
data: {train: [%s], header: true}
label: {field: income}
features:
  - {field: age, encode: standardise}
  - {field: education, encode: vocabulary}
  - {field: hours-per-week, encode: raw}
`

// fakeModel scores by a formula: bias + Σ dense + Σ of a fraction of the keys.
type fakeModel struct {
	config  *config.Config
	encoder *encode.Encoder
	bias    float32
	gate    chan struct{} // scoring waits for it; nil: it does not wait
	closed  chan struct{}
	fault   func()       // called by each Score
	damaged *atomic.Bool // Score fails
	taken   func()       // called by Taken
	chosen  bool
}

func (m *fakeModel) Chosen() bool { return m.chosen }

func (m *fakeModel) Config() *config.Config     { return m.config }
func (m *fakeModel) Encoder() *encode.Encoder   { return m.encoder }
func (m *fakeModel) NewScorer() (Scorer, error) { return &fakeScorer{of: m}, nil }
func (m *fakeModel) Close() error               { close(m.closed); return nil }
func (m *fakeModel) Taken() time.Time {
	if m.taken != nil {
		m.taken()
	}
	return time.Now().Add(-time.Hour)
}

// roundedModel is a fakeModel whose scorers add 1 to every logit.
type roundedModel struct {
	*fakeModel
	records int
	most    float64
}

func (m *roundedModel) NewScorer() (Scorer, error) {
	of := *m.fakeModel
	of.bias++
	return &fakeScorer{of: &of}, nil
}
func (m *roundedModel) Exact() (Scorer, error)            { return m.fakeModel.NewScorer() }
func (m *roundedModel) Differs(records int, most float64) { m.records, m.most = records, most }

// TestRoundingIsMeasured: the error of a model that rounds is measured with the warm-up records
// when it is opened, and a model without such records has none.
func TestRoundingIsMeasured(t *testing.T) {
	for _, records := range []int{0, 3} {
		m := &roundedModel{fakeModel: newFakeModel(t, peopleConfig), records: -1}
		dir := t.TempDir()
		var file []byte
		for range records {
			file = tfrecord.AppendFrame(file, nil)
		}
		must(t, os.WriteFile(filepath.Join(dir, warmupName), file, 0o644))
		s := New(Options{})
		_, err := newServable("ctr", 1, dir, m, &Options{Threads: 2}, s.metrics, func() {})
		must(t, err)
		must(t, s.Shutdown(context.Background()))
		if want := min(1, float64(records)); m.records != records || math.Abs(m.most-want) > 1e-6 {
			t.Errorf("%d records: the logits of %d differ by %v, want %v", records, m.records, m.most, want)
		}
	}
}

type fakeScorer struct {
	of     *fakeModel
	logits []float32
	broken bool // it has panicked
}

func (s *fakeScorer) Score(b *encode.Batch) ([]float32, error) {
	if s.of.gate != nil {
		<-s.of.gate
	}
	if d := s.of.damaged; d != nil && d.Load() {
		return nil, errors.New("table-0000.bin: 0 bytes")
	}
	if s.broken {
		return nil, errors.New("a scorer that panicked is used again")
	}
	if s.of.fault != nil {
		s.broken = true
		s.of.fault()
		s.broken = false
	}
	s.logits = s.logits[:0]
	labels, dense := 1+len(s.of.config.Labels), len(s.of.encoder.Dense())
	for l := range labels {
		for r := range b.Rows {
			x := s.of.bias + float32(l)
			for _, d := range b.Dense[r*dense : (r+1)*dense] {
				x += d
			}
			for i := range b.Sparse {
				for _, k := range b.Sparse[i].Values[b.Sparse[i].Offsets[r]:b.Sparse[i].Offsets[r+1]] {
					x += float32(k%1000) / 1000
				}
			}
			s.logits = append(s.logits, x)
		}
	}
	return s.logits, nil
}

func (s *fakeScorer) LookUp() time.Duration { return time.Millisecond }

func (s *fakeScorer) Unknown() []int64 { return make([]int64, len(s.of.encoder.Sparse())) }

// newFakeModel fits the encoder to people.
func newFakeModel(t testing.TB, text string) *fakeModel {
	t.Helper()
	return newFakeModelOf(t, text, people)
}

// newFakeModelOf fits the encoder to records.
func newFakeModelOf(t testing.TB, text, records string) *fakeModel {
	t.Helper()
	path := filepath.Join(t.TempDir(), "people.csv")
	must(t, os.WriteFile(path, []byte(records), 0o644))
	c, err := config.Parse("test.yaml", fmt.Appendf(nil, text, path))
	must(t, err)
	c.Fill()
	d, err := data.Open(c.Data, schemaOf(c), c.Data.Train)
	must(t, err)
	fit := encode.NewFit(schemaOf(c))
	counts, err := d.Scan(context.Background(), 0, 1, fit, nil)
	must(t, err)
	must(t, d.Use(counts))
	e, err := encode.NewEncoder(fit)
	must(t, err)
	return &fakeModel{config: c, encoder: e}
}

// logit returns the logit of a fake model of bias 0 for a row of people.
func (m *fakeModel) logit(t testing.TB, rows ...string) []float32 {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.csv")
	text := "age,education,hours-per-week,income\n"
	for _, r := range rows {
		text += r + ",0\n"
	}
	must(t, os.WriteFile(path, []byte(text), 0o644))
	d, err := data.Open(m.config.Data, schemaOf(m.config), []string{path})
	must(t, err)
	counts, err := d.Scan(context.Background(), 0, 1, encode.NewFit(schemaOf(m.config)), nil)
	must(t, err)
	must(t, d.Use(counts))
	r, err := data.NewReader(d, m.encoder, data.ReaderConfig{GlobalBatch: len(rows)})
	must(t, err)
	defer r.Close()
	b, err := r.Next(context.Background())
	must(t, err)
	logits, err := (&fakeScorer{of: m}).Score(b)
	must(t, err)
	return slices.Clone(logits)
}

// running is a server with a model "ctr" whose versions are in a folder.
type running struct {
	*Server
	t     *testing.T
	base  string
	model *fakeModel
	conn  *grpc.ClientConn
	url   string
	hold  chan struct{} // of models opened later

	mu     sync.Mutex
	events []versions.Event
}

func start(t *testing.T, o Options, labels map[string]int64, numbers ...int64) *running {
	t.Helper()
	r := &running{t: t, base: t.TempDir(), model: newFakeModel(t, peopleConfig)}
	for _, n := range numbers {
		r.write(n, "")
	}
	o.Open, o.Poll = r.load, 5*time.Millisecond
	o.Report = func(e versions.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	}
	r.Server = New(o)
	must(t, r.Set(context.Background(), []versions.Config{{Name: "ctr", Base: r.base, Policy: versions.Policy{All: true}, Labels: labels}}))
	grpcListener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	restListener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var all sync.WaitGroup
	all.Go(func() { must(t, r.ServeGRPC(grpcListener)) })
	all.Go(func() { must(t, r.ServeREST(restListener)) })
	r.conn, err = grpc.NewClient(grpcListener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	r.url = "http://" + restListener.Addr().String()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		_ = r.conn.Close()
		_ = r.Shutdown(context.Background())
		all.Wait()
	})
	return r
}

// write makes a version; content is a fault, or "".
func (r *running) write(n int64, content string) {
	tmp := filepath.Join(r.base, ".tmp")
	must(r.t, os.MkdirAll(tmp, 0o755))
	must(r.t, os.WriteFile(filepath.Join(tmp, "model"), []byte(content), 0o644))
	must(r.t, os.Rename(tmp, filepath.Join(r.base, fmt.Sprint(n))))
}

// load opens a version whose bias is its number in thousandths.
func (r *running) load(dir string, _ Model, _ func()) (Model, error) {
	b, err := os.ReadFile(filepath.Join(dir, "model"))
	if string(b) == "panic" {
		panic("the opening panics")
	}
	if err == nil && len(b) > 0 && string(b) != "chosen" {
		err = errors.New(string(b))
	}
	if err != nil {
		return nil, err
	}
	var n int
	fmt.Sscan(filepath.Base(dir), &n)
	m := *r.model
	m.bias, m.closed, m.gate, m.chosen = float32(n)/1000, make(chan struct{}), r.hold, string(b) == "chosen"
	return &m, nil
}

// call sends bytes to a method.
func (r *running) call(ctx context.Context, method string, b []byte) ([]byte, error) {
	var out frame
	err := r.conn.Invoke(ctx, "/tensorflow.serving."+method, &frame{b: b}, &out, grpc.ForceCodecV2(newCodec()))
	return out.b, err
}

// http returns the status and the body of a request.
func (r *running) http(method, path, text string, header ...string) (int, string) {
	r.t.Helper()
	q, err := http.NewRequest(method, r.url+path, strings.NewReader(text))
	must(r.t, err)
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(q)
	must(r.t, err)
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	must(r.t, err)
	return a.StatusCode, string(b)
}

func recorded(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("tfs/testdata/" + name)
	must(t, err)
	return b
}

// contains reports whether b contains these little-endian numbers in sequence.
func contains(b []byte, x []float32) bool {
	var want []byte
	for _, v := range x {
		bits := math.Float32bits(v)
		want = append(want, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
	}
	return bytes.Contains(b, want)
}

func probabilities(x []float32) (p []float32) {
	for _, z := range x {
		p = append(p, float32(metrics.Probability(float64(z))))
	}
	return p
}

func code(err error) codes.Code { return status.Code(err) }

func TestRecordedRequests(t *testing.T) {
	r := start(t, Options{}, map[string]int64{"stable": 640}, 640, 641)
	ctx := context.Background()
	rows := []string{"17,Masters,40", "38,HS-grad,0.5", "90,\xff,99"}
	scores := func(n int64, rows ...string) []float32 {
		m := *r.model
		m.bias = float32(n) / 1000
		return probabilities(m.logit(t, rows...))
	}
	b, err := r.call(ctx, "PredictionService/Predict", recorded(t, "predict_typed_and_content.bin"))
	must(t, err)
	if !contains(b, scores(641, rows...)) {
		t.Errorf("scores %v are not in % x", scores(641, rows...), b)
	}
	b, err = r.call(ctx, "PredictionService/Predict", recorded(t, "predict_examples_label.bin"))
	must(t, err)
	if !contains(b, scores(640, "17,Masters,40", "18,Masters,40")) || bytes.Contains(b, []byte("logit")) {
		t.Errorf("scores of the labelled version are not in % x", b)
	}
	b, err = r.call(ctx, "PredictionService/Classify", recorded(t, "classify_context.bin"))
	must(t, err)
	for _, row := range []string{"20,Masters,", "21,Masters,", "22,Masters,"} {
		p := scores(640, row)
		if !contains(b, p) || !contains(b, []float32{1 - p[0]}) {
			t.Errorf("the classes of %s are not in % x", row, b)
		}
	}
	b, err = r.call(ctx, "PredictionService/Regress", recorded(t, "regress_context.bin"))
	must(t, err)
	for _, row := range []string{"20,Masters,", "21,Masters,", "22,Masters,"} {
		if !contains(b, scores(640, row)) {
			t.Errorf("the value of %s is not in % x", row, b)
		}
	}
}
