package serve

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/serve/tfs"
	"github.com/wdlrun/wdlrun/internal/serve/versions"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// sub appends a field of bytes.
func sub[T string | []byte](dst []byte, number protowire.Number, b T) []byte {
	dst = protowire.AppendTag(dst, number, protowire.BytesType)
	return append(protowire.AppendVarint(dst, uint64(len(b))), b...)
}

// predicting returns a PredictRequest for a model with fields, and an int64 input age: 17.
func predicting(fields ...func(b []byte) []byte) []byte {
	spec := sub(nil, 1, "ctr")
	tensor := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 9)
	tensor = protowire.AppendVarint(protowire.AppendTag(tensor, 10, protowire.VarintType), 17)
	var b []byte
	for _, f := range fields {
		spec = f(spec)
	}
	b = sub(b, 1, spec)
	return sub(b, 2, sub(sub(nil, 1, "age"), 2, tensor))
}

func TestFaultCodes(t *testing.T) {
	r := start(t, Options{}, map[string]int64{"gone": 3}, 1)
	version := func(n uint64) func([]byte) []byte {
		return func(b []byte) []byte {
			return sub(b, 2, protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), n))
		}
	}
	field := func(n protowire.Number, s string) func([]byte) []byte {
		return func(b []byte) []byte { return sub(b, n, s) }
	}
	examples := func(method string) []byte {
		one := sub(sub(nil, 1, sub(nil, 1, "ctr")), 2, method)
		return sub(sub(nil, 1, one), 2, sub(nil, 1, sub(nil, 1, "")))
	}
	metadata := sub(nil, 1, sub(nil, 1, "ctr"))
	for _, x := range []struct {
		method  string
		request []byte
		code    codes.Code
		want    string
	}{
		{"PredictionService/Predict", predicting(), codes.OK, ""},
		{"PredictionService/Predict", predicting(version(1), field(3, "predict")), codes.OK, ""},
		{"PredictionService/Predict", predicting(field(1, "x")), codes.NotFound, `there is no model "x"`},
		{"PredictionService/Predict", predicting(field(1, "")), codes.InvalidArgument, "names no model"},
		{"PredictionService/Predict", predicting(version(9)), codes.NotFound, "version 9 is not available"},
		{"PredictionService/Predict", predicting(field(4, "y")), codes.InvalidArgument, `has no label "y"`},
		{"PredictionService/Predict", predicting(field(4, "gone")), codes.NotFound, "version 3 is not available"},
		{"PredictionService/Predict", predicting(field(3, "other")), codes.FailedPrecondition, `no signature "other"`},
		{"PredictionService/Predict", sub(predicting(), 3, "other"), codes.InvalidArgument, `no output "other"; there are "score", "logit"`},
		{"PredictionService/Predict", sub(sub(predicting(), 3, "score"), 3, "score"), codes.InvalidArgument, `"score" twice`},
		{"PredictionService/Predict", []byte{255}, codes.InvalidArgument, "PredictRequest: the protobuf encoding is broken"},
		{"PredictionService/Predict", sub(nil, 1, sub(nil, 1, "ctr")), codes.InvalidArgument, "none of the model's inputs"},
		{"PredictionService/Regress", sub(sub(nil, 1, sub(sub(nil, 1, "ctr"), 3, "predict")), 2, ""), codes.InvalidArgument, `no signature "predict"`},
		{"PredictionService/Classify", sub(nil, 1, sub(nil, 1, "ctr")), codes.InvalidArgument, "no example"},
		{"PredictionService/MultiInference", examples("tensorflow/serving/classify"), codes.OK, ""},
		{"PredictionService/MultiInference", examples("tensorflow/serving/regress"), codes.OK, ""},
		{"PredictionService/MultiInference", examples("other"), codes.Unimplemented, `method "other"`},
		{"PredictionService/MultiInference", nil, codes.InvalidArgument, "at least one task"},
		{"PredictionService/GetModelMetadata", sub(metadata, 2, "signature_def"), codes.OK, ""},
		{"PredictionService/GetModelMetadata", metadata, codes.InvalidArgument, "metadata_field is empty"},
		{"PredictionService/GetModelMetadata", sub(metadata, 2, "x"), codes.InvalidArgument, `"x" is not supported`},
		{"ModelService/GetModelStatus", metadata, codes.OK, ""},
		{"ModelService/GetModelStatus", sub(nil, 1, sub(nil, 1, "x")), codes.NotFound, `there is no model "x"`},
		{"ModelService/HandleReloadConfigRequest", nil, codes.InvalidArgument, "the configuration has no model"},
		{"SessionService/SessionRun", nil, codes.Unimplemented, "unknown service"},
	} {
		_, err := r.call(context.Background(), x.method, x.request)
		if code(err) != x.code || x.want != "" && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %v %s", x.method, err, x.code, x.want)
		}
	}
}

func TestREST(t *testing.T) {
	r := start(t, Options{}, map[string]int64{"stable": 1}, 1, 2)
	const row = `{"age": 17, "education": "Masters", "hours-per-week": 40}`
	r.model.bias = .001
	one := r.model.logit(t, "17,Masters,40")
	r.model.bias = .002
	two := r.model.logit(t, "17,Masters,40", "38,HS-grad,0.5")
	r.model.bias = 0
	p1, p2 := probabilities(one), probabilities(two)
	prediction := func(i int) string { return fmt.Sprintf(`{"score": %v, "logit": %v}`, p2[i], two[i]) }
	for _, x := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "ctr:predict", `{"instances": [` + row + `, {"age": 38, "education": "HS-grad", "hours-per-week": 0.5}]}`, 200, `{"predictions": [` + prediction(0) + ", " + prediction(1) + "]}"},
		{"POST", "ctr:predict", `{"inputs": {"age": [17, 38], "education": ["Masters", "HS-grad"], "hours-per-week": [40, 0.5]}}`, 200,
			fmt.Sprintf(`{"outputs": {"score": [%v, %v], "logit": [%v, %v]}}`, p2[0], p2[1], two[0], two[1])},
		{"POST", "ctr/versions/1:predict", `{"instances": [` + row + `]}`, 200, fmt.Sprintf(`{"predictions": [{"score": %v, "logit": %v}]}`, p1[0], one[0])},
		{"POST", "ctr/labels/stable:regress", `{"context": {"education": "Masters"}, "examples": [{"age": 17, "hours-per-week": 40}]}`, 200, fmt.Sprintf(`{"results": [%v]}`, p1[0])},
		{"POST", "ctr/versions/1:classify", `{"examples": [` + row + `]}`, 200, fmt.Sprintf(`{"results": [[["0", %v], ["1", %v]]]}`, 1-p1[0], p1[0])},
		{"POST", "ctr:predict", `{"instances": [{"age": 1}, {"age": "x"}]}`, 400, `input \"age\": row 1: \"x\" is not a number`},
		{"POST", "ctr:predict", `{"instances": [{"x": 1}]}`, 400, "none of the model's inputs"},
		{"POST", "ctr:predict", `{"instances": [{"age": [[17]], "education": [["Masters"]], "hours-per-week": [[40]]}, {"age": [38], "education": ["HS-grad"], "hours-per-week": [0.5]}]}`, 200, `{"predictions": [` + prediction(0) + ", " + prediction(1) + "]}"},
		{"GET", "", ``, 200, `"name": "ctr",`},
		{"POST", "ctr:predict", `{"instances": [1]}`, 400, "values without names are for models of one input"},
		{"POST", "ctr:predict", `{`, 400, "JSON: byte 1"},
		{"POST", "ctr:predict", `{"signature_name": "x", "instances": [{}]}`, 400, `no signature \"x\"`},
		{"POST", "x:predict", `{"instances": [{"age": 1}]}`, 404, `there is no model \"x\"`},
		{"POST", "x:predict", `{}`, 404, `there is no model \"x\"`},
		{"POST", "x:classify", `[`, 404, `there is no model \"x\"`},
		{"POST", "ctr/versions/9:predict", `{"instances": [{"age": 1}]}`, 404, "version 9 is not available"},
		{"POST", "ctr/versions/x:predict", `{}`, 400, `version \"x\" is not a number`},
		{"POST", "ctr/labels/x:predict", `{"instances": [{"age": 1}]}`, 400, `has no label \"x\"`},
		{"POST", "ctr/other/x:predict", `{}`, 400, "path /v1/models/ctr/other/x is not"},
		{"POST", "ctr:explain", `{}`, 400, `no method \"explain\"`},
		{"GET", "ctr:predict", "", 400, "the method of this path is POST"},
		{"GET", "ctr", "", 200, `"state": "AVAILABLE"`},
		{"GET", "ctr/versions/9", "", 404, "has no version 9"},
		{"GET", "ctr/labels/stable", "", 200, `"version": "1"`},
		{"GET", "ctr/metadata", "", 200, `"dtype": "DT_STRING"`},
		{"GET", "../nothing", "", 404, "models are at"},
	} {
		got, text := r.http(x.method, "/v1/models/"+x.path, x.body)
		if got != x.status || !strings.Contains(text, x.want) || !json.Valid([]byte(text)) {
			t.Errorf("%s %s %s: %d %s\nwant %d %s", x.method, x.path, x.body, got, text, x.status, x.want)
		}
	}
}

func TestGzip(t *testing.T) {
	r := start(t, Options{MaxBytes: 100_000}, nil, 1)
	pack := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write([]byte(text))
		must(t, err)
		must(t, z.Close())
		return b.String()
	}
	text := `{"instances": [` + strings.Repeat(`{"age": 17}, `, 1000) + `{"age": 17}]}`
	_, plain := r.http("POST", "/v1/models/ctr:predict", text)
	status, packed := r.http("POST", "/v1/models/ctr:predict", pack(text), "Content-Encoding", "gzip") // the client decompresses
	if status != 200 || packed != plain || len(plain) < 20_000 {
		t.Errorf("%d: %.100s", status, packed)
	}
	status, text = r.http("POST", "/v1/models/ctr:predict", pack(strings.Repeat(" ", 200_000)), "Content-Encoding", "gzip")
	if status != 400 || !strings.Contains(text, "more than 100000 bytes") {
		t.Errorf("%d %s", status, text)
	}
	if status, text = r.http("POST", "/v1/models/ctr:predict", pack(`{"instances": [{"age": 17}]}`), "Content-Encoding", "GZIP"); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if status, text = r.http("POST", "/v1/models/ctr:predict", "x", "Content-Encoding", "br"); status != 400 || !strings.Contains(text, "br") {
		t.Errorf("%d %s", status, text)
	}
}

func TestLargeMessagesAreRejected(t *testing.T) {
	r := start(t, Options{MaxBytes: 1000}, nil, 1)
	_, err := r.call(context.Background(), "PredictionService/Predict", make([]byte, 2000))
	if code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
}

// until waits until is returns true.
func (r *running) until(what string, is func() bool) {
	r.t.Helper()
	for range 5000 {
		if is() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.t.Fatalf("timed out waiting until %s", what)
}

// TestDeadline: a request whose deadline has passed is not started, even if a slot is free.
func TestDeadline(t *testing.T) {
	g := newGate(1, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	if err := g.enter(ctx); code(err) != codes.DeadlineExceeded || len(g.slots) != 0 {
		t.Errorf("%v, %d slots taken", err, len(g.slots))
	}
	must(t, g.enter(context.Background()))
	if err := g.enter(ctx); code(err) != codes.DeadlineExceeded || g.waiting.Load() != 0 {
		t.Errorf("%v, %d wait", err, g.waiting.Load())
	}
}

// TestQueue: requests beyond the queue are rejected at once, and those cancelled while they wait are
// not started.
func TestQueue(t *testing.T) {
	r := start(t, Options{Threads: 1, Queue: 1}, nil, 1)
	r.hold = make(chan struct{}, 1000)
	for range warmupTimes {
		r.hold <- struct{}{}
	}
	r.write(2, "")
	r.waitFor("available", 2)
	first, second := make(chan error, 1), make(chan error, 1)
	call := func(ctx context.Context) error {
		_, err := r.call(ctx, "PredictionService/Predict", predicting())
		return err
	}
	go func() { first <- call(context.Background()) }()
	r.until("a request computes", func() bool { return len(r.gate.slots) > 0 })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { second <- call(ctx) }()
	r.until("a request waits", func() bool { return r.gate.waiting.Load() > 0 })
	if err := call(context.Background()); code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "1 requests are waiting") {
		t.Errorf("a request beyond the queue: %v", err)
	}
	if cancel(); code(<-second) != codes.Canceled {
		t.Error("a cancelled request has the wrong code")
	}
	r.until("the cancelled request has gone", func() bool { return r.gate.waiting.Load() == 0 })
	r.hold <- struct{}{}
	must(t, <-first)
	if len(r.hold) != 0 || r.gate.waiting.Load() != 0 {
		t.Errorf("%d requests were not started, %d wait", len(r.hold), r.gate.waiting.Load())
	}
}

// waitFor waits for an event of a version.
func (r *running) waitFor(state string, n int64) {
	r.t.Helper()
	for range 2000 {
		r.mu.Lock()
		for _, e := range r.events {
			if e.Number == n && (state == "available") == (e.State == 1) && (state == "failed") == (e.Err != nil) {
				r.mu.Unlock()
				return
			}
		}
		r.mu.Unlock()
		time.Sleep(5 * time.Millisecond)
	}
	r.t.Fatalf("version %d is not %s", n, state)
}

func TestCorruptVersionIsReported(t *testing.T) {
	r := start(t, Options{}, nil, 1)
	r.write(2, "table-0000.bin: section keys: checksum differs")
	r.waitFor("failed", 2)
	_, text := r.http("GET", "/v1/models/ctr/versions/2", "")
	if !strings.Contains(text, `"END"`) || !strings.Contains(text, "section keys") || !strings.Contains(text, "DATA_LOSS") {
		t.Error(text)
	}
	if _, err := r.call(context.Background(), "PredictionService/Predict", predicting()); err != nil {
		t.Error(err)
	}
}

func TestReload(t *testing.T) {
	r := start(t, Options{}, nil, 1)
	config := sub(sub(nil, 1, "other"), 2, r.base)
	reload := func(configs ...[]byte) ([]byte, error) {
		var list []byte
		for _, c := range configs {
			list = sub(list, 1, c)
		}
		return r.call(context.Background(), "ModelService/HandleReloadConfigRequest", sub(nil, 1, sub(nil, 1, list)))
	}
	if b, err := reload(config); err != nil || !bytes.Equal(b, []byte{10, 0}) {
		t.Errorf("% x %v", b, err)
	}
	if status, _ := r.http("GET", "/v1/models/other", ""); status != 200 {
		t.Error("the new model is not served")
	}
	if status, _ := r.http("GET", "/v1/models/ctr", ""); status != 404 {
		t.Error("the previous model is still served")
	}
	if _, err := reload(sub(sub(nil, 1, "third"), 2, r.base), sub(sub(nil, 1, "empty"), 2, t.TempDir())); code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "model empty: no version is available in the base path ") {
		t.Error(err)
	}
	for name, want := range map[string]int{"other": 200, "third": 404, "empty": 404} {
		if status, _ := r.http("GET", "/v1/models/"+name, ""); status != want {
			t.Errorf("%s after a reload that failed: %d, want %d", name, status, want)
		}
	}
}

// TestHealth: each model has its own status. The server's is SERVING while any model is.
func TestHealth(t *testing.T) {
	r := start(t, Options{}, nil, 1)
	client := grpc_health_v1.NewHealthClient(r.conn)
	check := func(want map[string]string) {
		t.Helper()
		for service, status := range want {
			a, err := client.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{Service: service})
			if got := a.GetStatus().String(); err != nil || got != status {
				t.Errorf("%q: %s, want %s, %v", service, got, status, err)
			}
		}
	}
	if _, err := client.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{Service: "new"}); code(err) != codes.NotFound {
		t.Error(err)
	}
	check(map[string]string{"": "SERVING", "tensorflow.serving.PredictionService": "SERVING", "ctr": "SERVING"})
	base := versions.Config{Name: "ctr", Base: r.base}
	if err := r.Set(t.Context(), []versions.Config{base, {Name: "new", Base: t.TempDir()}}); err == nil {
		t.Error("a model without a version is available")
	}
	check(map[string]string{"": "SERVING", "tensorflow.serving.ModelService": "SERVING", "ctr": "SERVING", "new": "NOT_SERVING"})
	must(t, r.Replace(t.Context(), []versions.Config{base}))
	check(map[string]string{"": "SERVING", "ctr": "SERVING", "new": "SERVICE_UNKNOWN"})
	watch, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "tensorflow.serving.PredictionService"})
	must(t, err)
	_, err = watch.Recv()
	must(t, err)
	go func() { _ = r.Shutdown(t.Context()) }()
	a, err := watch.Recv()
	must(t, err)
	if a.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Error(a.Status)
	}
}

// TestDrain: a request that has arrived is answered while the server shuts down.
func TestDrain(t *testing.T) {
	r := start(t, Options{Threads: 1}, nil, 1)
	r.hold = make(chan struct{}, 1000)
	for range warmupTimes {
		r.hold <- struct{}{}
	}
	r.write(2, "")
	r.waitFor("available", 2)
	answered, down := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := r.call(context.Background(), "PredictionService/Predict", predicting())
		answered <- err
	}()
	r.until("a request computes", func() bool { return len(r.gate.slots) > 0 })
	go func() { down <- r.Shutdown(context.Background()) }()
	time.Sleep(20 * time.Millisecond)
	r.hold <- struct{}{}
	must(t, <-answered)
	must(t, <-down)
}

// TestASilentConnectionDoesNotDelayTheEnd: a client that connects and sends nothing delays the
// end of the server by at most headerWait.
func TestASilentConnectionDoesNotDelayTheEnd(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	r := start(t, Options{}, nil, 1)
	c, err := net.Dial("tcp", r.conn.Target())
	must(t, err)
	defer c.Close()
	_, err = r.call(context.Background(), "PredictionService/Predict", predicting()) // a connection accepted later
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*headerWait)
	defer cancel()
	must(t, r.Shutdown(ctx))
}

func TestMetrics(t *testing.T) {
	r := start(t, Options{}, nil, 7)
	_, err := r.call(context.Background(), "PredictionService/Predict", sub(predicting(), 2, sub(sub(nil, 1, "new"), 2, []byte{8, 9})))
	must(t, err)
	_, _ = r.call(context.Background(), "PredictionService/Predict", nil)
	_, text := r.http(http.MethodGet, "/metrics", "")
	for _, want := range []string{
		`wdlrun_serve_requests_total{code="OK",method="Predict"} 1`, `wdlrun_serve_requests_total{code="InvalidArgument",method="Predict"} 1`,
		`wdlrun_serve_missing_values_total{input="education",model="ctr"} 1`, `wdlrun_serve_ignored_inputs_total{model="ctr"} 1`,
		`wdlrun_serve_rows_total{model="ctr"} 1`, `wdlrun_serve_version{model="ctr"} 7`, `wdlrun_serve_answered_version{model="ctr"} 7`, `wdlrun_serve_first_answer_seconds{model="ctr"} 0.`, `wdlrun_serve_delta_lag_seconds{model="ctr"} 3600.`, `wdlrun_serve_loads_total{model="ctr",result="ok"} 1`,
		`wdlrun_serve_stage_seconds_sum{stage="lookup"} 0.001`, `wdlrun_serve_stage_seconds_count{stage="compute"} 1`, `wdlrun_serve_waiting_requests 0`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	code, answer := r.http(http.MethodPost, "/v1/models/ctr:predict", `{"instances": [{"education": "12"}, {"education": "Dr"}, {"education": "Masters"}]}`)
	if _, text = r.http(http.MethodGet, "/metrics", ""); code != http.StatusOK {
		t.Fatal(code, answer)
	}
	for why, n := range map[string]int{"rare": 0, "newer": 1, "other_format": 1} {
		if want := fmt.Sprintf(`wdlrun_serve_unknown_values_total{feature="education",model="ctr",why=%q} %d`, why, n); !strings.Contains(text, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
}

// TestWarmUp: a version is warmed up with its own records. A record that the encoder rejects does not
// keep it from serving; a damaged file does.
func TestWarmUp(t *testing.T) {
	r := start(t, Options{}, nil, 1)
	age := func(v string) []byte {
		return tfrecord.AppendExample(nil, []string{"age"}, []value.List{{Kind: value.Text, Texts: [][]byte{[]byte(v)}}})
	}
	warmed := func(n int64, file []byte) {
		tmp := filepath.Join(r.base, ".tmp")
		must(t, os.MkdirAll(tmp, 0o755))
		must(t, os.WriteFile(filepath.Join(tmp, warmupName), file, 0o644))
		r.write(n, "")
	}
	warmed(2, tfrecord.AppendFrame(tfrecord.AppendFrame(nil, age("17")), age("no number")))
	r.waitFor("available", 2)
	file := tfrecord.AppendFrame(nil, age("17"))
	file[len(file)-1] ^= 1
	warmed(3, file)
	r.waitFor("failed", 3)
	warmed(4, file[:len(file)-1])
	r.waitFor("failed", 4)
}

// TestFirstAnswers: the newest version that has answered is known. A canary or a late answer of an older version does not
// take its place; the first version of another folder does.
func TestFirstAnswers(t *testing.T) {
	var f firstAnswers
	at := func(n int64) time.Time { return time.Unix(n, 0) }
	for _, x := range []struct {
		spec tfs.ModelSpec
		a    firstAnswer
		want int64
	}{
		{tfs.ModelSpec{Name: "ctr", Label: "stable"}, firstAnswer{3, at(1), 1}, 3},
		{tfs.ModelSpec{Name: "ctr"}, firstAnswer{20, at(20), 1}, 20},
		{tfs.ModelSpec{Name: "ctr", Version: 10, HasVersion: true}, firstAnswer{10, at(30), 1}, 20},
		{tfs.ModelSpec{Name: "ctr"}, firstAnswer{19, at(19), 1}, 20},
		{tfs.ModelSpec{Name: "ctr"}, firstAnswer{1, at(40), 1}, 1},
	} {
		f.note(&x.spec, x.a)
		if got, ok := f.of("ctr"); !ok || got.version != x.want {
			t.Errorf("%+v: version %d, want %d", x, got.version, x.want)
		}
	}
}

// TestStrangeMembersAreNamed: a member of a body without a meaning, which may be misspelt, is ignored as TensorFlow
// Serving does, counted in requests that are answered, and named once.
func TestStrangeMembersAreNamed(t *testing.T) {
	var named []string
	r := start(t, Options{IgnoredMember: func(model, member string) { named = append(named, model+" "+member) }}, nil, 7)
	for range 3 {
		for _, x := range []struct {
			verb, body string
			code       int
		}{
			{"predict", `{"instances": [{"education": "Dr"}], "signature": "x", "parameters": {"a": [1]}}`, http.StatusOK},
			{"predict", `{"inputs": {"education": ["Dr"]}, "signature_name": "serving_default", "signature": 1}`, http.StatusOK},
			{"classify", `{"examples": [{"education": "Dr"}], "contxt": {}}`, http.StatusOK},
			{"regress", `{"examples": [{"education": "Dr"}], "context": {"age": 1}, "x": 1}`, http.StatusOK},
			{"predict", `{"instances": [{"age": "z"}], "no": 1}`, http.StatusBadRequest},
			{"predict", `{"instance": [{"age": 3}]}`, http.StatusBadRequest},
		} {
			if code, text := r.http(http.MethodPost, "/v1/models/ctr:"+x.verb, x.body); code != x.code {
				t.Fatalf("%s: %d %s", x.body, code, text)
			}
		}
	}
	if want := []string{"ctr signature", "ctr parameters", "ctr contxt", "ctr x"}; !slices.Equal(named, want) {
		t.Errorf("%q, want %q", named, want)
	}
	if _, text := r.http(http.MethodGet, "/metrics", ""); !strings.Contains(text, "wdlrun_serve_ignored_members_total{model=\"ctr\"} 15\n") {
		t.Error(text)
	}
}

// TestStrangeInputsAreNamed: an input that the model does not have, which may be misspelt, is named and counted
// when a request with it is answered, and named once. The error of a rejected request names its inputs.
func TestStrangeInputsAreNamed(t *testing.T) {
	var named []string
	r := start(t, Options{Threads: 1, Ignored: func(model, input string) { named = append(named, model+" "+input) }}, nil, 7)
	post := func(body string, want int) string {
		t.Helper()
		code, text := r.http(http.MethodPost, "/v1/models/ctr:predict", body)
		if code != want {
			t.Fatal(body, code, text)
		}
		return text
	}
	for range 6 {
		post(`{"instances": [{"education": "Dr", "educaton": "Dr"}]}`, http.StatusOK)
		post(`{"inputs": {"education": ["Dr"], "aeg": [3], "x": [1]}}`, http.StatusOK)
		text := post(`{"instances": [{"agee": 3, "educatoin": "Dr", "educaton": "Dr"}]}`, http.StatusBadRequest)
		if want := `has none of the model's inputs; it has \"agee\", \"educatoin\", \"educaton\": did you mean age, education?`; !strings.Contains(text, want) || strings.Contains(text, "examples") {
			t.Errorf("%s, want %s", text, want)
		}
		post(`{"instances": [{"y": 3, "age": "z"}]}`, http.StatusBadRequest)
	}
	post(`{"inputs": {"age": [3], "agee": [3]}}`, http.StatusOK)
	if want := []string{"ctr educaton", "ctr aeg", "ctr x", "ctr agee"}; !slices.Equal(named, want) {
		t.Errorf("%q, want %q", named, want)
	}
	if _, text := r.http(http.MethodGet, "/metrics", ""); !strings.Contains(text, "wdlrun_serve_ignored_inputs_total{model=\"ctr\"} 19\n") {
		t.Error(text)
	}
}
