package serve

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wdlrun/wdlrun/internal/serve/body"
	"github.com/wdlrun/wdlrun/internal/serve/tfs"
	"github.com/wdlrun/wdlrun/internal/serve/versions"
)

// gzipFrom is the size of a response from which it is compressed for clients that accept
// it.
const gzipFrom = 1 << 10

const modelsPath = "/v1/models/"

var metricsPaths = [...]string{"/metrics", "/monitoring/prometheus/metrics"}

// restServer answers HTTP requests of clients.
type restServer struct {
	*core
	bodies *budget
}

// handler returns the handler of all paths.
func (s restServer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(modelsPath, s.restModel)
	mux.HandleFunc("GET "+strings.TrimSuffix(modelsPath, "/"), s.restModels)
	mux.HandleFunc("GET "+modelsPath+"{$}", s.restModels)
	metrics := "at /metrics"
	if s.options.Admin != nil {
		metrics = "at the address of -admin"
	} else {
		for _, path := range metricsPaths {
			mux.Handle(path, s.metrics.page())
		}
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeFault(w, status.Errorf(codes.NotFound, "serve: %s %s: models are at %sNAME, metrics %s", r.Method, r.URL.Path, modelsPath, metrics))
	})
	if s.options.CORS {
		return allowOrigins(mux)
	}
	return mux
}

// allowOrigins lets web pages of every origin send requests.
func allowOrigins(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		if r.Method == http.MethodOptions {
			h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
			h.Set("Access-Control-Allow-Headers", "Content-Type, Content-Encoding, Authorization")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// restModels lists the models, with the latest version of each.
func (s restServer) restModels(w http.ResponseWriter, r *http.Request) {
	type modelJSON struct {
		Name    string `json:"name"`
		Version *int64 `json:"version,string"` // null: none is available
	}
	all := struct {
		Models []modelJSON `json:"models"`
	}{[]modelJSON{}}
	for _, name := range s.registry.Models() {
		m := modelJSON{Name: name}
		if v, err := s.registry.Acquire(versions.Want{Model: name}); err == nil {
			m.Version = &v.Number
			v.Release()
		}
		all.Models = append(all.Models, m)
	}
	answer, err := indented(all)
	if err != nil {
		writeFault(w, err)
		return
	}
	writeAnswer(w, r, answer)
}

// parsePath parses NAME[/versions/N|/labels/L][:VERB|/metadata].
func parsePath(path string) (spec tfs.ModelSpec, verb string, err error) {
	path = strings.TrimPrefix(path, modelsPath)
	if at := strings.LastIndexByte(path, ':'); at >= 0 {
		path, verb = path[:at], path[at+1:]
	} else if rest, ok := strings.CutSuffix(path, "/metadata"); ok {
		path, verb = rest, "metadata"
	}
	parts := strings.Split(path, "/")
	spec.Name = parts[0]
	switch {
	case len(parts) == 1:
	case len(parts) == 3 && parts[1] == "versions":
		spec.HasVersion = true
		if spec.Version, err = strconv.ParseInt(parts[2], 10, 64); err != nil {
			return spec, verb, invalid("version %q is not a number", parts[2])
		}
	case len(parts) == 3 && parts[1] == "labels" && parts[2] != "":
		spec.Label = parts[2]
	default:
		return spec, verb, invalid("path %s%s is not %sNAME[/versions/N|/labels/L][:predict|:classify|:regress|/metadata]", modelsPath, path, modelsPath)
	}
	return spec, verb, nil
}

// restModel handles all requests about a model.
func (s restServer) restModel(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	spec, verb, err := parsePath(r.URL.Path)
	var answer []byte
	method, known := map[string]string{"": "rest status", "metadata": "rest metadata", "predict": "rest predict", "classify": "rest classify", "regress": "rest regress"}[verb]
	if !known {
		method = "rest other"
	}
	if err == nil {
		err = s.panics.rescue(method, func() (err error) {
			answer, err = s.restAnswer(r, &spec, verb)
			return err
		})
	}
	s.metrics.answered(method, status.Code(err), time.Since(start))
	if err != nil {
		writeFault(w, err)
		return
	}
	writeAnswer(w, r, answer)
}

func (s restServer) restAnswer(r *http.Request, spec *tfs.ModelSpec, verb string) ([]byte, error) {
	var answer func(text []byte, spec *tfs.ModelSpec) ([]byte, error)
	method := http.MethodPost
	switch verb {
	case "":
		method = http.MethodGet
	case "metadata":
		method = http.MethodGet
	case "predict":
		answer = s.restPredict
	case "classify":
		answer = s.restClassify
	case "regress":
		answer = s.restRegress
	default:
		return nil, invalid("there is no method %q; there are predict, classify and regress", verb)
	}
	if r.Method != method {
		return nil, invalid("%s %s: the method of this path is %s", r.Method, r.URL.Path, method)
	}
	switch verb {
	case "":
		return s.restStatus(spec)
	case "metadata":
		return s.restMetadata(spec)
	}
	v, err := s.registry.Acquire(wanted(spec)) // an unknown model is reported before faults of the body
	if err != nil {
		return nil, fault(err)
	}
	v.Release()
	text, err := s.read(r)
	defer func() { s.bodies.release(cap(text)) }()
	if err != nil {
		return nil, err
	}
	ctx := r.Context()
	if s.options.RESTTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.options.RESTTimeout)
		defer cancel()
	}
	return s.gated(func(_ context.Context, text []byte) ([]byte, error) { return answer(text, spec) })(ctx, text)
}

// read reads the body of a request. The caller gives back the capacity of the result to s.bodies,
// also after an error.
func (s restServer) read(r *http.Request) ([]byte, error) {
	var from io.Reader = http.MaxBytesReader(nil, r.Body, int64(s.options.MaxBytes))
	switch e := r.Header.Get("Content-Encoding"); strings.ToLower(e) {
	case "", "identity":
	case "gzip":
		if err := s.bodies.reserve(gzipBytes); err != nil {
			return nil, err
		}
		defer s.bodies.release(gzipBytes)
		z, err := gzip.NewReader(from)
		if err != nil {
			return nil, invalid("the body is not gzip: %v", err)
		}
		from = z
	default:
		return nil, invalid("Content-Encoding %q is not supported; there is gzip", e)
	}
	b, err := s.bodies.read(from, s.options.MaxBytes)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return b, invalid("the body has more than %d bytes; send fewer rows, or raise -max-bytes", s.options.MaxBytes)
	}
	if status.Code(err) == codes.ResourceExhausted {
		return b, err
	}
	if err != nil {
		return b, invalid("the body cannot be read: %v", err)
	}
	return b, nil
}

func (s restServer) restPredict(text []byte, spec *tfs.ModelSpec) (out []byte, err error) {
	r, err := body.Predict(text, s.options.Limits)
	if err != nil {
		return nil, broken(err)
	}
	spec.Signature = r.Signature
	err = s.predict(spec, nil, restBatch(&r), func(_ *tfs.ModelSpec, outputs []tfs.Output) error {
		s.live.note(spec.Name, text, len(outputs[0].Values), batchingOfBody(s.options.Limits))
		out = body.AppendPredictions(nil, outputs, r.Instances)
		return nil
	})
	s.ignored(spec.Name, &r, err)
	return out, err
}

func (s restServer) restClassify(text []byte, spec *tfs.ModelSpec) (out []byte, err error) {
	r, err := body.Examples(text, s.options.Limits)
	if err != nil {
		return nil, broken(err)
	}
	spec.Signature = r.Signature
	err = s.classify(spec, columns(&r), func(_ *tfs.ModelSpec, classes []tfs.Class) error {
		out = body.AppendClasses(nil, classes)
		return nil
	})
	s.ignored(spec.Name, &r, err)
	return out, err
}

func (s restServer) restRegress(text []byte, spec *tfs.ModelSpec) (out []byte, err error) {
	r, err := body.Examples(text, s.options.Limits)
	if err != nil {
		return nil, broken(err)
	}
	spec.Signature = r.Signature
	err = s.regress(spec, columns(&r), func(_ *tfs.ModelSpec, values []float32) error {
		out = body.AppendValues(nil, values)
		return nil
	})
	s.ignored(spec.Name, &r, err)
	return out, err
}

// ignored counts and reports the members without a meaning in the body of a request that was answered.
func (s restServer) ignored(model string, r *body.Request, err error) {
	if err == nil && len(r.Ignored) > 0 {
		s.metrics.members.WithLabelValues(model).Add(float64(len(r.Ignored)))
		s.members.report(model, r.Ignored, s.options.IgnoredMember)
	}
}

// The JSON of a status. 64-bit numbers are strings, as in protobuf's JSON.
type (
	statusJSON struct {
		Versions []versionJSON `json:"model_version_status"`
	}
	versionJSON struct {
		Version int64     `json:"version,string"`
		State   string    `json:"state"`
		Status  faultJSON `json:"status"`
	}
	faultJSON struct {
		Code    string `json:"error_code"`
		Message string `json:"error_message"`
	}
)

func (s restServer) restStatus(spec *tfs.ModelSpec) ([]byte, error) {
	list, err := s.status(spec)
	if err != nil {
		return nil, err
	}
	all := statusJSON{Versions: []versionJSON{}}
	for _, v := range list {
		all.Versions = append(all.Versions, versionJSON{v.Version, v.State.String(), faultJSON{codeNames[codes.Code(v.Status.Code)], v.Status.Message}})
	}
	return indented(all)
}

// codeNames are the names of the codes that a version's status can have.
var codeNames = map[codes.Code]string{codes.OK: "OK", codes.DataLoss: "DATA_LOSS", codes.FailedPrecondition: "FAILED_PRECONDITION"}

// The JSON of metadata.
type (
	metadataJSON struct {
		Spec struct {
			Name    string `json:"name"`
			Version int64  `json:"version,string"`
		} `json:"model_spec"`
		Metadata struct {
			Signatures struct {
				All map[string]signatureJSON `json:"signature_def"`
			} `json:"signature_def"`
		} `json:"metadata"`
	}
	signatureJSON struct {
		Inputs  map[string]infoJSON `json:"inputs"`
		Outputs map[string]infoJSON `json:"outputs"`
		Method  string              `json:"method_name"`
	}
	infoJSON struct {
		Type  string    `json:"dtype"`
		Shape shapeJSON `json:"tensor_shape"`
		Name  string    `json:"name"`
	}
	shapeJSON struct {
		Dims []dimJSON `json:"dim"`
	}
	dimJSON struct {
		Size int64 `json:"size,string"`
	}
)

func (s restServer) restMetadata(spec *tfs.ModelSpec) ([]byte, error) {
	spec, signatures, err := s.metadata(spec)
	if err != nil {
		return nil, err
	}
	var m metadataJSON
	m.Spec.Name, m.Spec.Version = spec.Name, spec.Version
	m.Metadata.Signatures.All = map[string]signatureJSON{}
	infos := func(list []tfs.TensorInfo) map[string]infoJSON {
		all := map[string]infoJSON{}
		for _, x := range list {
			info := infoJSON{Type: x.Type.String(), Name: x.Name}
			for _, d := range x.Dims {
				info.Shape.Dims = append(info.Shape.Dims, dimJSON{d})
			}
			all[x.Key] = info
		}
		return all
	}
	for _, x := range signatures {
		m.Metadata.Signatures.All[x.Name] = signatureJSON{infos(x.Inputs), infos(x.Outputs), x.Method}
	}
	return indented(m)
}

func indented(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	return append(b, '\n'), err
}

// writeAnswer writes a response, compressed if it is long and the client accepts that.
func writeAnswer(w http.ResponseWriter, r *http.Request, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	if len(b) < gzipFrom || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		_, _ = w.Write(b) // the client may have gone
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	_, _ = z.Write(b)
	_ = z.Close()
}

// httpStatus returns the HTTP status of a code.
func httpStatus(c codes.Code) int {
	switch c {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.NotFound:
		return http.StatusNotFound
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.DeadlineExceeded, codes.Canceled:
		return http.StatusGatewayTimeout
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.Unimplemented: // an unknown method name
		return http.StatusNotImplemented
	}
	return http.StatusInternalServerError
}

func writeFault(w http.ResponseWriter, err error) {
	st, _ := status.FromError(err)
	b, _ := json.Marshal(map[string]string{"error": st.Message()}) // a string always has a JSON form
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(httpStatus(st.Code()))
	_, _ = w.Write(append(b, '\n'))
}
