package serve

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/wdlrun/wdlrun/internal/serve/rescue"
	"github.com/wdlrun/wdlrun/internal/serve/tfs"
)

// report records panics.
type report struct {
	mu  sync.Mutex
	all []*rescue.Panic
}

func (r *report) add(p *rescue.Panic) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, p)
}

// TestAPanicEndsOneRequest: a request that panics is answered INTERNAL or 500, counted, and
// reported once per place. Its worker is not used again, and the next request is answered.
func TestAPanicEndsOneRequest(t *testing.T) {
	var seen report
	r := start(t, Options{Threads: 2, Panicked: seen.add}, nil, 1)
	faulty := new(atomic.Bool)
	r.model.fault = func() {
		if faulty.Load() {
			_ = make([]int, len(r.base))[len(r.base)+1:]
		}
	}
	r.write(2, "")
	r.waitFor("available", 2)
	examples := sub(sub(nil, 1, sub(nil, 1, "ctr")), 2, sub(nil, 1, sub(nil, 1, "")))
	task := sub(sub(nil, 1, sub(nil, 1, "ctr")), 2, tfs.MethodRegress)
	calls := map[string][]byte{
		"Predict": predicting(), "Classify": examples, "Regress": examples,
		"MultiInference": sub(sub(nil, 1, task), 2, sub(nil, 1, sub(nil, 1, ""))),
	}
	bodies := map[string]string{"predict": `{"instances": [{"age": 17}]}`, "classify": `{"examples": [{"age": 17}]}`, "regress": `{"examples": [{"age": 17}]}`}
	for _, fault := range []bool{false, true, false} {
		faulty.Store(fault)
		code0, status0 := codes.OK, 200
		if fault {
			code0, status0 = codes.Internal, 500
		}
		for range 3 { // more than there are workers
			for method, b := range calls {
				if _, err := r.call(context.Background(), "PredictionService/"+method, b); code(err) != code0 || fault && !strings.Contains(err.Error(), "slice bounds out of range") {
					t.Errorf("%s: %v, want %v", method, err, code0)
				}
			}
			for verb, text := range bodies {
				if status, answer := r.http("POST", "/v1/models/ctr:"+verb, text); status != status0 {
					t.Errorf("%s: %d %s, want %d", verb, status, answer, status0)
				}
			}
		}
	}
	_, text := r.http("GET", "/metrics", "")
	for _, want := range []string{
		`wdlrun_serve_panics_total{in="Predict"} 3`, `wdlrun_serve_panics_total{in="rest regress"} 3`,
		`wdlrun_serve_requests_total{code="Internal",method="MultiInference"} 3`, `wdlrun_serve_requests_total{code="OK",method="Predict"} 6`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	if len(seen.all) != 1 || !strings.Contains(string(seen.all[0].Stack), "fakeScorer") {
		t.Errorf("%d panics of one place are reported: %v", len(seen.all), seen.all)
	}
}

// TestAPanicOfAVersion: a version that panics when it is opened, closed or reported does not end the
// server. One that cannot be opened is END, and the other keeps serving.
func TestAPanicOfAVersion(t *testing.T) {
	var seen report
	r := start(t, Options{Panicked: seen.add}, nil, 1)
	r.write(2, "panic")
	r.waitFor("failed", 2)
	_, text := r.http("GET", "/v1/models/ctr/versions/2", "")
	if !strings.Contains(text, `"END"`) || !strings.Contains(text, "panic in") || !strings.Contains(text, "the opening panics") {
		t.Error(text)
	}
	r.model.fault = func() { panic("the warm-up panics") }
	r.write(3, "")
	r.waitFor("failed", 3)
	if _, err := r.call(context.Background(), "PredictionService/Predict", predicting()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if status, text := r.http("GET", "/metrics", ""); status != 200 || !strings.Contains(text, `wdlrun_serve_panics_total{in="version"} 2`) {
			t.Errorf("%d %s", status, text)
		}
	}
	if len(seen.all) != 2 {
		t.Errorf("%d panics are reported, want 2: %v", len(seen.all), seen.all)
	}
	r.model.fault, r.model.taken = nil, func() { panic("the gauge panics") }
	r.write(4, "")
	r.waitFor("available", 4)
	if status, text := r.http("GET", "/metrics", ""); status != 200 || strings.Contains(text, "delta_lag") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := r.http("GET", "/metrics", ""); status != 200 || !strings.Contains(text, `wdlrun_serve_panics_total{in="metrics"}`) {
		t.Errorf("%d %s", status, text)
	}
}

// TestADamagedVersionIsReported: a version that begins to fail is reported once, and once more when it answers again.
func TestADamagedVersionIsReported(t *testing.T) {
	var mu sync.Mutex
	var all []string
	r := start(t, Options{Broken: func(model string, version int64, err error) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, fmt.Sprint(model, " ", version, " ", err))
	}}, nil, 1)
	r.model.damaged = new(atomic.Bool)
	r.write(2, "")
	r.waitFor("available", 2)
	for _, damaged := range []bool{false, true, false} {
		r.model.damaged.Store(damaged)
		for range 3 {
			status, answer := r.http("POST", "/v1/models/ctr:predict", `{"instances": [{"age": 17}]}`)
			if want := map[bool]int{false: 200, true: 500}[damaged]; status != want {
				t.Errorf("%d %s, want %d", status, answer, want)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(all, "; "); got != "ctr 2 table-0000.bin: 0 bytes; ctr 2 <nil>" {
		t.Errorf("reported: %s", got)
	}
}
