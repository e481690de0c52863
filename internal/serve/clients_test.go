package serve

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// foreign runs a program of another project. Without the program the test is skipped.
func foreign(t *testing.T, input, has string, program string, args ...string) string {
	t.Helper()
	if exec.Command("sh", "-c", has).Run() != nil {
		t.Skipf("%s fails, so the client is not installed", has)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Stdin = strings.NewReader(input)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
	return string(out)
}

// TestPromtoolAcceptsTheMetrics: Prometheus's linter accepts a page with every metric.
func TestPromtoolAcceptsTheMetrics(t *testing.T) {
	r := start(t, Options{}, nil, 640)
	_, err := r.call(t.Context(), "PredictionService/Predict", recorded(t, "predict_typed_and_content.bin"))
	must(t, err)
	_, _ = r.call(t.Context(), "PredictionService/Predict", nil)
	_, text := r.http(http.MethodGet, "/metrics", "")
	if out := foreign(t, text, "promtool --version", "promtool", "check", "metrics"); out != "" {
		t.Errorf("promtool reports: %s", out)
	}
}

// TestNodeAsksTheServer: the gRPC client of Node gets the same bytes as ours, and the code
// and message of a request that fails.
func TestNodeAsksTheServer(t *testing.T) {
	r := start(t, Options{}, nil, 640)
	request := recorded(t, "predict_typed_and_content.bin")
	want, err := r.call(t.Context(), "PredictionService/Predict", request)
	must(t, err)
	script := fmt.Sprintf(`
const grpc = require('@grpc/grpc-js');
const client = new grpc.Client(%q, grpc.credentials.createInsecure());
const same = b => b;
const call = (bytes, then) => client.makeUnaryRequest('/tensorflow.serving.PredictionService/Predict', same, same, Buffer.from(bytes, 'hex'), then);
call('%x', (err, answer) => {
  if (err) throw err;
  call('', err => { console.log(answer.toString('hex') + ' ' + err.code + ' ' + err.details); client.close(); });
});`, r.conn.Target(), request)
	got := foreign(t, "", `node -e "require('@grpc/grpc-js')"`, "node", "-e", script)
	var answer []byte
	var code int
	_, err = fmt.Sscanf(got, "%x %d", &answer, &code)
	if err != nil || !bytes.Equal(answer, want) || code != 3 || !strings.Contains(got, "the request names no model") {
		t.Errorf("%v: node got %s\nwant %x", err, got, want)
	}
}
