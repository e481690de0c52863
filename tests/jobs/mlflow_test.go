package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestMLflowWhileTraining: a training sends its run to a tracking server, and does not need the server: one
// that answers nothing but errors is reported once while it trains, and once at the end.
func TestMLflowWhileTraining(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	sent, down := "", false
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if down {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		sent += fmt.Sprintln(r.URL.Path, string(body[:min(len(body), 1<<16)]))
		switch {
		case strings.HasSuffix(r.URL.Path, "get-by-name"):
			io.WriteString(w, `{"experiment":{"experiment_id":"7"}}`)
		case strings.HasSuffix(r.URL.Path, "runs/create"):
			io.WriteString(w, `{"run":{"info":{"run_id":"one","artifact_uri":"mlflow-artifacts:/7/one/artifacts"}}}`)
		default:
			io.WriteString(w, `{}`)
		}
	}))
	defer web.Close()
	args := append([]string{"-np", "2", "train", "-mlflow", web.URL}, short...)
	if o := run(t, t.TempDir(), args...); o.code != 0 {
		t.Fatal(o.stderr)
	}
	mu.Lock()
	for _, want := range []string{`"key":"train.seed"`, `"key":"train_logloss"`, `"key":"test_auc"`, "artifacts/report.html", "artifacts/result.json", "artifacts/onnx/model.onnx", "artifacts/onnx/model.data", "artifacts/onnx/check.json", `"status":"FINISHED"`} {
		if !strings.Contains(sent, want) {
			t.Errorf("the server did not get %s:\n%.2000s", want, sent)
		}
	}
	down = true
	mu.Unlock()
	o := run(t, t.TempDir(), args...)
	if n := strings.Count(o.stderr, "mlflow: "); o.code != 0 || n < 1 || n > 2 || !strings.Contains(o.stderr, "to send the run later: wdlrun runs -export mlflow") {
		t.Errorf("exit code %d\n%s", o.code, o.stderr)
	}
	if o := run(t, t.TempDir(), "train", "-mlflow", "mlruns"); o.code != 1 || !strings.Contains(o.stderr, `-mlflow: mlflow: "mlruns" is no address of a server`) {
		t.Errorf("exit code %d\n%s", o.code, o.stderr)
	}
}

// TestMLflowHasTheModel: a real tracking server has the ONNX model of a training that was followed, and of one that was
// sent afterwards, with the bytes of an export.
func TestMLflowHasTheModel(t *testing.T) {
	address := os.Getenv("WDLRUN_TEST_MLFLOW")
	if address == "" {
		t.Skip("set WDLRUN_TEST_MLFLOW to the address of a tracking server of MLflow")
	}
	dir := t.TempDir()
	name := fmt.Sprintf("model-%d", time.Now().UnixNano())
	t.Setenv("MLFLOW_EXPERIMENT_NAME", name)
	for _, args := range [][]string{append([]string{"-np", "2", "train", "-mlflow", address}, short...), {"runs", "-export", "mlflow", "-out", address}} {
		if o := run(t, dir, args...); o.code != 0 || strings.Contains(o.stderr, "not sent") {
			t.Fatal(o.stdout, o.stderr)
		}
		must(t, dir, "export -resume latest -format onnx -out onnx")
		model, err := os.ReadFile(filepath.Join(dir, "onnx", "model.onnx"))
		fatal.If(t, err)
		fatal.If(t, os.RemoveAll(filepath.Join(dir, "onnx")))
		var experiment struct {
			Experiment struct {
				ID string `json:"experiment_id"`
			}
		}
		ask(t, http.MethodGet, address+"/api/2.0/mlflow/experiments/get-by-name?experiment_name="+name, "", &experiment)
		var found struct {
			Runs []struct {
				Info struct {
					Artifacts string `json:"artifact_uri"`
				}
			}
		}
		ask(t, http.MethodPost, address+"/api/2.0/mlflow/runs/search", `{"experiment_ids": ["`+experiment.Experiment.ID+`"]}`, &found)
		if len(found.Runs) != 1 {
			t.Fatalf("%d runs", len(found.Runs))
		}
		got := ask(t, http.MethodGet, address+"/api/2.0/mlflow-artifacts/artifacts/"+strings.TrimPrefix(found.Runs[0].Info.Artifacts, "mlflow-artifacts:/")+"/onnx/model.onnx", "", nil)
		if !bytes.Equal(got, model) {
			t.Errorf("%v: the model of the server has %d bytes, the export %d", args, len(got), len(model))
		}
	}
}

// ask sends a request and decodes the answer, if into is not nil.
func ask(t *testing.T, verb, address, body string, into any) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), verb, address, strings.NewReader(body))
	fatal.If(t, err)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	fatal.If(t, err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	fatal.If(t, err)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %.300s", address, answer.Status, b)
	}
	if into != nil {
		fatal.If(t, json.Unmarshal(b, into))
	}
	return b
}
