package mlflow

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
)

var began = time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC)

// resumed makes a run with hostile names and values that was resumed: its last job took 2.5 s, and its last line is 60 s after
// its first. It began with another run of the folder, from.
func resumed(t *testing.T, dir, from string) *runs.Run {
	t.Helper()
	files := map[string]string{
		"config.yaml":   "model: {kind: wide_deep}\nfeatures:\n  - {name: age, encode: hash}\n  - {name: AGE, encode: id}\n../../up: 1\n..: 2\nlong: " + strings.Repeat("x", 7000) + "\n",
		"metrics.jsonl": `{"event":"train","time":"2026-11-23T14:00:00Z","step":1,"logloss":0.7,"rate":1}` + "\n" + `{"event":"valid","time":"2026-11-23T14:01:00Z","step":9,"logloss":0.5,"metrics":{"auc":0.75,"logloss":0.5}}` + "\n",
		"run.json":      `{"version":"1","command":["wdlrun","train"],"note":"a: \"b\"","tags":["base","../x"],"from":"` + from + `/checkpoints/step-000000001"}`,
		"result.json":   `{"steps":9,"seconds":2.5}`,
	}
	run := filepath.Join(dir, "20261123-140000")
	fatal.If(t, os.Mkdir(run, 0o755))
	for name, text := range files {
		fatal.If(t, os.WriteFile(filepath.Join(run, name), []byte(text), 0o644))
	}
	r, err := runs.Read(run)
	if err != nil || len(r.Faults) > 0 {
		t.Fatal(err, r.Faults)
	}
	r.Began = began
	r.Train[0].Speed = math.Inf(1)
	return r
}

// parent makes the run that resumed began with.
func parent(t *testing.T, dir string) *runs.Run {
	t.Helper()
	run := filepath.Join(dir, "20261122-140000")
	fatal.If(t, os.Mkdir(run, 0o755))
	fatal.If(t, os.WriteFile(filepath.Join(run, "config.yaml"), []byte("model: {kind: wide_deep}\n"), 0o644))
	r, err := runs.Read(run)
	fatal.If(t, err)
	r.Began = began.AddDate(0, 0, -1)
	return r
}

func text(name, content string) File {
	return File{name, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }}
}

// TestRequests compares the requests of two exports, of which the second replaces the first, with their golden text.
func TestRequests(t *testing.T) {
	var sent strings.Builder
	found := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(&sent, "%s %s %s\n", r.Method, r.URL, body)
		switch {
		case strings.HasSuffix(r.URL.Path, "get-by-name"):
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"error_code":"RESOURCE_DOES_NOT_EXIST","message":"no"}`)
		case strings.HasSuffix(r.URL.Path, "experiments/create"):
			io.WriteString(w, `{"experiment_id":"7"}`)
		case strings.HasSuffix(r.URL.Path, "runs/create"):
			io.WriteString(w, `{"run":{"info":{"run_id":"new","artifact_uri":"mlflow-artifacts:/7/new/artifacts"}}}`)
		case strings.HasSuffix(r.URL.Path, "runs/search"):
			io.WriteString(w, found)
		default:
			io.WriteString(w, `{}`)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	first, second := parent(t, dir), resumed(t, dir, filepath.Join(dir, "20261122-140000"))
	for _, found = range []string{`{}`, `{"runs":[{"info":{"run_id":"old"}}]}`} {
		add(t, server.URL, first, second)
	}
	text := regexp.MustCompile(`[0-9a-f]{32}`).ReplaceAllString(sent.String(), "ID")
	text = regexp.MustCompile(`x{100,}`).ReplaceAllStringFunc(text, func(s string) string { return fmt.Sprintf("x*%d", len(s)) })
	golden.Check(t, "requests.txt", strings.ReplaceAll(text, dir, "DIR"))
}

func add(t *testing.T, address string, all ...*runs.Run) (*Server, *Experiment) {
	t.Helper()
	s, err := NewServer(address, func(string) string { return "" })
	fatal.If(t, err)
	e, err := s.Experiment(t.Context(), "clicks")
	fatal.If(t, err)
	for _, r := range all {
		fatal.If(t, e.Add(t.Context(), r, []File{text("config.yaml", "model: {}\n")}))
	}
	return s, e
}

// TestRealServer exports to the server at WDLRUN_TEST_MLFLOW, twice, and reads back what it has.
func TestRealServer(t *testing.T) {
	address := os.Getenv("WDLRUN_TEST_MLFLOW")
	if address == "" {
		t.Skip("WDLRUN_TEST_MLFLOW has no address of a server of MLflow")
	}
	dir := t.TempDir()
	first, second := parent(t, dir), resumed(t, dir, filepath.Join(dir, "20261122-140000"))
	add(t, address, first, second)
	s, e := add(t, address, first, second)
	was, err := e.find(t.Context(), idOf(first.Dir))
	if err != nil || len(was) != 1 {
		t.Fatal(was, err)
	}
	found, err := e.find(t.Context(), idOf(second.Dir))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	var answer struct {
		Run struct {
			Info struct {
				Status string `json:"status"`
				End    int64  `json:"end_time"`
			}
			Data struct{ Params, Tags []pair }
		}
	}
	fatal.If(t, s.get(t.Context(), "runs/get", "run_id", found[0], &answer))
	if answer.Run.Info.Status != "FINISHED" || answer.Run.Info.End != began.Add(time.Minute).UnixMilli() {
		t.Errorf("%+v", answer.Run.Info)
	}
	tags := map[string]string{}
	for _, p := range answer.Run.Data.Tags {
		tags[p.Key] = p.Value
	}
	if tags["mlflow.parentRunId"] != was[0] || tags["mlflow.note.content"] != `a: "b"` || tags["base"] != "true" {
		t.Error(tags)
	}
	params := map[string]string{}
	for _, p := range answer.Run.Data.Params {
		params[p.Key] = p.Value
	}
	if params["model.kind"] != "wide_deep" || params["features.age.encode"] != "hash" || len(params["long"]) < 1000 {
		t.Error(params)
	}
	var history struct{ Metrics []metric }
	query := url.Values{"run_id": {found[0]}, "metric_key": {"valid_auc"}}
	fatal.If(t, s.send(t.Context(), http.MethodGet, "api/2.0/mlflow/metrics/get-history", query.Encode(), nil, &history))
	if len(history.Metrics) != 1 || history.Metrics[0] != (metric{"valid_auc", .75, began.Add(time.Minute).UnixMilli(), 9}) {
		t.Error(history)
	}
	var files struct {
		Files []struct {
			Path string
			Size int `json:"file_size"`
		}
	}
	fatal.If(t, s.get(t.Context(), "artifacts/list", "run_id", found[0], &files))
	if len(files.Files) != 1 || files.Files[0].Path != "config.yaml" || files.Files[0].Size != 10 {
		t.Error(files)
	}
}

// TestServersThatRefuse: each fault is one line that says what to do.
func TestServersThatRefuse(t *testing.T) {
	for address, want := range map[string]string{
		"mlruns":                     "to start one: mlflow server",
		"http://user:secret@a.test/": "set MLFLOW_TRACKING_USERNAME",
	} {
		if _, err := NewServer(address, os.Getenv); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", address, err)
		}
	}
	answers := map[string]string{
		"no server of MLflow":                                      "is it a tracking server of MLflow?",
		`{"error_code":"X","message":1}`:                           "is it a tracking server of MLflow?",
		`{"error_code":"PERMISSION_DENIED","message":"not yours"}`: "PERMISSION_DENIED: not yours",
	}
	for answer, want := range answers {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, answer)
		}))
		s, err := NewServer(server.URL, os.Getenv)
		fatal.If(t, err)
		if _, err := s.Experiment(t.Context(), "clicks"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", answer, err)
		}
		server.Close()
		if _, err := s.Experiment(t.Context(), "clicks"); err == nil || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("%v", err)
		}
	}
	s := &Server{url: &url.URL{Scheme: "http", Host: "a.test"}}
	if err := s.upload(t.Context(), "s3://bucket/7", File{}); err == nil || !strings.Contains(err.Error(), "--serve-artifacts") {
		t.Error(err)
	}
}

// TestCredentials are those of MLflow's own clients.
func TestCredentials(t *testing.T) {
	for want, env := range map[string]map[string]string{
		"Bearer abc": {"MLFLOW_TRACKING_TOKEN": "abc", "MLFLOW_TRACKING_USERNAME": "u"},
		"Basic dTpw": {"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_PASSWORD": "p"},
		"":           {},
	} {
		got := ""
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r.Header.Get("Authorization")
			json.NewEncoder(w).Encode(map[string]any{})
		}))
		s, err := NewServer(server.URL, func(name string) string { return env[name] })
		fatal.If(t, err)
		_, err = s.Experiment(t.Context(), "clicks")
		fatal.If(t, err)
		if got != want {
			t.Errorf("%v: %q", env, got)
		}
		server.Close()
	}
}
