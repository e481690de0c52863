package mlflow

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// tracker is a tracking server with one run.
type tracker struct {
	made    int
	metrics map[string][]int64 // steps by metric
	status  []string
	files   []string
	fails   int // requests to reject
}

func (k *tracker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if k.fails > 0 {
		k.fails--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var x struct {
		Metrics []metric
		Status  string
	}
	json.Unmarshal(body, &x)
	switch call := strings.TrimPrefix(r.URL.Path, "/api/2.0/mlflow/"); call {
	case "experiments/get-by-name":
		io.WriteString(w, `{"experiment":{"experiment_id":"7"}}`)
	case "runs/search":
		if k.made > 0 {
			io.WriteString(w, `{"runs":[{"info":{"run_id":"one"}}]}`)
			return
		}
		io.WriteString(w, `{}`)
	case "runs/create":
		k.made++
		io.WriteString(w, `{"run":{"info":{"run_id":"one","artifact_uri":"mlflow-artifacts:/7/one/artifacts"}}}`)
	case "runs/get":
		var last []metric
		for name, steps := range k.metrics {
			last = append(last, metric{Key: name, Step: steps[len(steps)-1]})
		}
		b, _ := json.Marshal(map[string]any{"run": map[string]any{"info": info{"one", "mlflow-artifacts:/7/one/artifacts"}, "data": map[string]any{"metrics": last}}})
		w.Write(b)
	case "runs/log-batch":
		for _, m := range x.Metrics {
			k.metrics[m.Key] = append(k.metrics[m.Key], m.Step)
		}
		io.WriteString(w, `{}`)
	case "runs/update":
		k.status = append(k.status, x.Status)
		io.WriteString(w, `{}`)
	default:
		if r.Method == http.MethodPut {
			k.files = append(k.files, r.URL.Path)
		}
		io.WriteString(w, `{}`)
	}
}

// TestLive: each line of a training that runs is sent once, after a rejected request too. A resumed training
// continues the run.
func TestLive(t *testing.T) {
	k := &tracker{metrics: map[string][]int64{}}
	web := httptest.NewServer(k)
	defer web.Close()
	server, err := NewServer(web.URL, func(string) string { return "" })
	fatal.If(t, err)
	e, err := server.Experiment(t.Context(), "clicks")
	fatal.If(t, err)
	dir := filepath.Join(t.TempDir(), "20261123-140000")
	fatal.If(t, os.Mkdir(dir, 0o755))
	fatal.If(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("model: {kind: wide_deep}\n"), 0o644))
	lines := ""
	read := func(steps ...int) *runs.Run {
		for _, step := range steps {
			lines += fmt.Sprintf(`{"event":"train","time":"2026-11-23T14:00:00Z","step":%d,"logloss":0.7,"rate":1}`+"\n", step)
		}
		fatal.If(t, os.WriteFile(filepath.Join(dir, "metrics.jsonl"), []byte(lines), 0o644))
		r, err := runs.Read(dir)
		fatal.If(t, err)
		return r
	}
	l, err := e.Follow(t.Context(), read())
	fatal.If(t, err)
	fatal.If(t, l.Send(t.Context(), read(0, 20)))
	k.fails = 1
	if l.Send(t.Context(), read(40)) == nil {
		t.Error("a rejected request is no error")
	}
	fatal.If(t, l.Send(t.Context(), read(60)))
	fatal.If(t, l.End(t.Context(), read(80), runs.Stopped, []File{text("report.html", "x")}))

	l, err = e.Follow(t.Context(), read(100)) // the training was resumed
	fatal.If(t, err)
	fatal.If(t, l.End(t.Context(), read(120), runs.Finished, nil))
	if got, want := fmt.Sprint(k.made, k.metrics["train_logloss"], k.metrics["rate"], k.status, k.files), "1 [0 20 40 60 80 100 120] [0 20 40 60 80 100 120] [KILLED RUNNING FINISHED] [/api/2.0/mlflow-artifacts/artifacts/7/one/artifacts/report.html]"; got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
}
