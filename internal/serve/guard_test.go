package serve

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/serve/tfs"
	"github.com/wdlrun/wdlrun/internal/serve/versions"
)

// TestLiveRows: at most one request per interval is recorded, and the rows and bytes are limited.
func TestLiveRows(t *testing.T) {
	var l live
	again := func(b []byte) (batching, error) { return nil, nil }
	for range 1500 {
		l.note("ctr", make([]byte, 100), 3, again)
		if r := l.models["ctr"]; r != nil {
			r.at = time.Time{}
		}
	}
	l.note("ctr", make([]byte, liveBytes+1), 3, again)
	if r := l.models["ctr"]; r.rows != 1002 || len(r.requests) != 334 || r.bytes != 33400 {
		t.Errorf("%d rows of %d requests, %d bytes", r.rows, len(r.requests), r.bytes)
	}
	for range 100 {
		l.note("ctr", make([]byte, liveBytes), 1, again)
		l.models["ctr"].at = time.Time{}
	}
	if r := l.models["ctr"]; r.bytes > liveTotal || r.rows != len(r.requests) {
		t.Errorf("%d rows of %d requests, %d bytes", r.rows, len(r.requests), r.bytes)
	}
	l.note("ctr", nil, 1, again)
	n := len(l.requests("ctr"))
	l.note("ctr", nil, 1, again)
	if got := len(l.requests("ctr")); got != n {
		t.Error("a second request within the interval is recorded")
	}
}

// TestGuard: a version that answers recent requests with other logits is refused with a reason in
// status, event and counter, and the current version answers. The next good version is served.
func TestGuard(t *testing.T) {
	for _, rest := range []bool{false, true} {
		r := start(t, Options{Guard: 3}, nil, 1)
		if rest {
			if status, text := r.http("POST", "/v1/models/ctr:predict", `{"instances": [{"age": 17}]}`); status != 200 {
				t.Fatal(text)
			}
		} else {
			_, err := r.call(t.Context(), "PredictionService/Predict", recorded(t, "predict_typed_and_content.bin"))
			must(t, err)
		}
		r.write(1_000_000, "") // its logits are 1000 higher
		r.waitFor("failed", 1_000_000)
		_, text := r.http(http.MethodGet, "/v1/models/ctr/versions/1000000", "")
		if !strings.Contains(text, "FAILED_PRECONDITION") || !strings.Contains(text, "rows of recent requests, the mean of its logits is ") || !strings.Contains(text, "the limit is -guard 3") {
			t.Error(text)
		}
		_, text = r.http(http.MethodGet, "/metrics", "")
		if want := `wdlrun_serve_loads_total{model="ctr",result="refused"} 1`; !strings.Contains(text, want) {
			t.Errorf("/metrics has no %s", want)
		}
		served := func(want int64) {
			t.Helper()
			v, err := r.registry.Acquire(versions.Want{Model: "ctr"})
			must(t, err)
			defer v.Release()
			if v.Number != want {
				t.Errorf("version %d answers, want %d", v.Number, want)
			}
		}
		served(1)
		r.write(1_000_001, "")
		r.waitFor("failed", 1_000_001)
		served(1)
		r.write(1_000_002, "chosen") // a rollback
		r.waitFor("available", 1_000_002)
		served(1_000_002)
		must(t, r.Shutdown(context.Background()))
	}
	// Without requests and records, nothing can be compared.
	r := start(t, Options{Guard: 3}, nil, 1)
	r.write(1_000_000, "")
	r.waitFor("available", 1_000_000)
	_, err := batchingOfPredict(tfs.Limits{})([]byte{255})
	if err == nil {
		t.Error("a broken request is decoded again")
	}
}
