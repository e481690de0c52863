package jobs

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
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
	for _, want := range []string{`"key":"train.seed"`, `"key":"train_logloss"`, `"key":"test_auc"`, "artifacts/report.html", "artifacts/result.json", `"status":"FINISHED"`} {
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
