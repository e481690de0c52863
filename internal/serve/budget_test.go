package serve

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// TestBodiesShareABudget: clients that stall in the middle of a body, plain or gzip, hold only what
// they have sent; a request beyond the budget is rejected at once; all memory is given back.
func TestBodiesShareABudget(t *testing.T) {
	const most = 2 << 20
	r := start(t, Options{MaxBytes: 1 << 19, BodyBytes: most}, nil, 1)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(bytes.Repeat([]byte(" "), 100_000))
	must(t, err)
	must(t, z.Flush())
	var stalled []net.Conn
	stall := func(header string, body []byte) {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		must(t, err)
		stalled = append(stalled, c)
		_, err = fmt.Fprintf(c, "POST /v1/models/ctr:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n%s\r\n%s", header, body)
		must(t, err)
	}
	row := `{"instances": [{"age": 17}]}`
	if status, _ := r.http("POST", "/v1/models/ctr:predict", row); status != 200 || r.bodies.held.Load() != 0 {
		t.Errorf("%d, %d bytes are held", status, r.bodies.held.Load())
	}
	stall("", bytes.Repeat([]byte(" "), 100_000))
	r.until("a plain body is held", func() bool { return r.bodies.held.Load() == 132<<10 })
	stall("Content-Encoding: gzip\r\n", packed.Bytes())
	r.until("a gzip body is held", func() bool { return r.bodies.held.Load() == 2*(132<<10)+gzipBytes })
	status, text := r.http("POST", "/v1/models/ctr:predict", strings.Repeat(" ", 400_000)+row)
	if status != 200 {
		t.Errorf("a request within the budget: %d %s", status, text)
	}
	for range 10 {
		stall("", bytes.Repeat([]byte(" "), 100_000))
	}
	r.until("all bodies are held", func() bool { return r.bodies.held.Load() == 12*(132<<10)+gzipBytes })
	status, text = r.http("POST", "/v1/models/ctr:predict", strings.Repeat(" ", 400_000)+row)
	if status != 429 || !strings.Contains(text, "-max-body-bytes") {
		t.Errorf("a request beyond the budget: %d %s", status, text)
	}
	if status, text = r.http("POST", "/v1/models/ctr:predict", row); status != 200 {
		t.Errorf("a small request: %d %s", status, text)
	}
	for _, c := range stalled {
		must(t, c.Close())
	}
	r.until("the bodies are given back", func() bool { return r.bodies.held.Load() == 0 })
}

// TestLongNamesHaveAnAnswer: an error that quotes a long name of the request reaches the client.
func TestLongNamesHaveAnAnswer(t *testing.T) {
	r := start(t, Options{}, nil, 1)
	for _, name := range []string{strings.Repeat("x", 1<<16), strings.Repeat("\xff", 1<<16)} {
		_, err := r.call(context.Background(), "PredictionService/Predict", predicting(func(b []byte) []byte { return sub(b, 1, name) }))
		if code(err) != codes.NotFound || !strings.Contains(err.Error(), "there is no model") || len(err.Error()) > 2*maxMessage {
			t.Errorf("%.200v", err)
		}
		if _, err = r.call(context.Background(), "ModelService/GetModelStatus", sub(nil, 1, sub(nil, 1, name))); code(err) != codes.NotFound {
			t.Errorf("%.200v", err)
		}
	}
}
