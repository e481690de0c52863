package serve

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/serve/modelconfig"
	"github.com/wdlrun/wdlrun/internal/serve/tfs"
	"github.com/wdlrun/wdlrun/internal/serve/versions"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestArrivals: requests come at the rate; gaps of poisson arrivals are exponential.
func TestArrivals(t *testing.T) {
	t.Parallel()
	const n, rate = 20000, 500.0
	for _, kind := range Arrivals() {
		a, err := newArrivals(kind, rate, 1)
		fatal.If(t, err)
		last, short := a.due(), 0
		for range n {
			at := a.due()
			if at < last {
				t.Fatalf("%s: due at %v after %v", kind, at, last)
			}
			if (at-last).Seconds()*rate < math.Ln2 { // the median of an exponential distribution
				short++
			}
			last = at
		}
		if got := n / last.Seconds(); math.Abs(got/rate-1) > 0.03 {
			t.Errorf("%s: %v requests per second", kind, got)
		}
		if want := map[string]float64{"poisson": 0.5, "constant": 0}[kind]; math.Abs(float64(short)/n-want) > 0.02 {
			t.Errorf("%s: %v of the gaps are below the median", kind, float64(short)/n)
		}
	}
	if _, err := newArrivals("bursts", 1, 1); err == nil {
		t.Error("unknown arrivals are accepted")
	}
}

// TestRequests: the server's decoder reads the values of the records.
func TestRequests(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "r.csv")
	var b strings.Builder
	b.WriteString("user,item,price,site\n")
	for i := range 25 {
		fmt.Fprintf(&b, "%d,%d,%d.5,s%d\n", 1000+i, -i, i, i)
	}
	fatal.If(t, os.WriteFile(file, []byte(b.String()), 0o644))
	from := Records{Source: schema.Source{Header: true}, Files: []string{file}, Shared: []string{"user"}, Model: "ctr", Rows: 10, Requests: 9}
	all, err := MakeRequests(context.Background(), from)
	if err != nil || len(all) != 2 {
		t.Fatalf("%d requests: %v", len(all), err)
	}
	var r tfs.PredictRequest
	fatal.If(t, r.Decode(all[1], tfs.Limits{Inputs: 10, Rows: 100, Values: 1000}))
	got := map[string]string{}
	for i := range r.Inputs {
		in := &r.Inputs[i]
		got[string(in.Name)] = fmt.Sprintf("%v of %d", in.Tensor.Type, in.Tensor.Elements())
	}
	want := map[string]string{"user": "DT_INT64 of 1", "item": "DT_INT64 of 10", "price": "DT_FLOAT of 10", "site": "DT_STRING of 10"}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is %s, want %s", name, got[name], text)
		}
	}
	from.Rows = 26
	if _, err := MakeRequests(context.Background(), from); err == nil || !strings.Contains(err.Error(), "fewer records") {
		t.Errorf("too few records: %v", err)
	}
	from.Rows, from.Shared = 1, []string{"gone"}
	if _, err := MakeRequests(context.Background(), from); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("an unknown shared field: %v", err)
	}
}

// slowServer answers with 40 bytes, after a delay for every request but each tenth; that
// one fails.
func slowServer(t *testing.T, delay time.Duration) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	s, n := grpc.NewServer(grpc.ForceServerCodec(rawCodec{})), make(chan int, 1)
	n <- 0
	answer := make([]byte, 40)
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "tensorflow.serving.PredictionService", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Predict",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var in []byte
			if err := decode(&in); err != nil {
				return nil, err
			}
			k := <-n
			n <- k + 1
			if k%10 == 9 {
				return nil, fmt.Errorf("the tenth")
			}
			time.Sleep(delay)
			return &answer, nil
		},
	}}}, nil)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

func echoHere(t *testing.T) func(bytes int) (string, func(), error) {
	return func(bytes int) (string, func(), error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", nil, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- Echo(ctx, l, bytes) }()
		return l.Addr().String(), func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}, nil
	}
}

// TestOpenLoop: a slow answer delays no other request, latencies hold the delay, and
// failures are counted by code.
func TestOpenLoop(t *testing.T) {
	t.Parallel()
	const delay = 60 * time.Millisecond
	o := Options{
		Load:   Load{Rate: 200, Arrivals: "constant", Timeout: 30 * time.Second, MaxPending: 1000},
		Target: slowServer(t, delay), Requests: [][]byte{[]byte("a"), []byte("bc")}, Connections: 2,
		Time: time.Second, Turn: 400 * time.Millisecond, StartEcho: echoHere(t),
	}
	r, err := Run(context.Background(), o)
	fatal.If(t, err)
	failed := r.Measured.Failed["Unknown"]
	if n := r.Measured.Requests + failed; n != 200 || failed < 18 || failed > 22 { // a closed loop could send 33
		t.Errorf("%d requests, %d of them failed", n, failed)
	}
	if r.Measured.Latency.P50 < 60 || r.Turns != 3 || r.AnswerBytes != 40 || r.Echo == nil || r.Echo.Requests != 200 || r.Echo.Failed != nil && len(r.Echo.Failed) > 0 {
		t.Errorf("%+v, echo %+v", r, r.Echo)
	}
	if math.Abs(r.Above.P50-(r.Measured.Latency.P50-r.Echo.Latency.P50)) > 1e-9 {
		t.Errorf("above the echo server: %+v", r.Above)
	}
}

// TestSwitches: the server switches through the versions of the folder in order, and each request
// counts as calm or as one that met a switch.
func TestSwitches(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"9", "10", "-1", "tmp"} {
		fatal.If(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	var served atomic.Pointer[[]versions.Config]
	request := appendBytes(nil, 1, appendBytes(nil, 1, []byte("ctr")))
	o := Options{
		Load:   Load{Rate: 100, Arrivals: "constant", Timeout: 30 * time.Second, MaxPending: 1000},
		Target: switchingServer(t, &served), Requests: [][]byte{request}, Connections: 1, Time: 500 * time.Millisecond, Turn: time.Second,
		Swap: 200 * time.Millisecond, Model: "ctr", Base: dir, // at .1, .3 and .5 s
	}
	r, err := Run(context.Background(), o)
	fatal.If(t, err)
	x := r.Measured.Swap
	if n := len(x.Switches); n < 1 || n > 3 || x.Switches[0].Version != 10 || n > 1 && x.Switches[1].Version != 9 {
		t.Errorf("switches %+v", x.Switches)
	}
	if x.Calm.P50 == 0 || x.Switched.P50 == 0 {
		t.Errorf("%+v", x)
	}
	want := versions.Config{Name: "ctr", Base: dir, Policy: versions.Policy{Specific: []int64{x.Switches[len(x.Switches)-1].Version}}}
	if got := *served.Load(); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("the server was left with %+v, want %+v", got, want)
	}
	o.Base = t.TempDir()
	if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), "0 versions") {
		t.Errorf("an empty folder: %v", err)
	}

	s := &swapper{calm: newHistogram(), switched: newHistogram(), ended: time.Now()}
	s.answered(s.ended.Add(swapSettle), time.Second)
	s.answered(s.ended.Add(swapSettle-1), time.Minute)
	s.busy = true
	s.answered(s.ended.Add(time.Hour), time.Minute)
	if s.calm.TotalCount() != 1 || s.switched.TotalCount() != 2 {
		t.Errorf("%d calm requests, %d that met a switch", s.calm.TotalCount(), s.switched.TotalCount())
	}
}

// switchingServer answers with what the last ReloadConfigRequest names; a request for another
// version fails.
func switchingServer(t *testing.T, served *atomic.Pointer[[]versions.Config]) string {
	handler := func(answer func(b []byte) error) func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
		return func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var in []byte
			if err := decode(&in); err != nil {
				return nil, err
			}
			return &[]byte{}, answer(in)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	s := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}))
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "tensorflow.serving.PredictionService", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Predict",
		Handler: handler(func(b []byte) error {
			var r tfs.PredictRequest
			if err := r.Decode(b, tfs.Limits{Inputs: 10, Rows: 100, Values: 1000}); err != nil {
				return err
			}
			if r.Spec.HasVersion && (*served.Load())[0].Policy.Specific[0] != r.Spec.Version || r.Spec.Name != "ctr" {
				return fmt.Errorf("%+v is not served", r.Spec)
			}
			return nil
		}),
	}}}, nil)
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "tensorflow.serving.ModelService", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "HandleReloadConfigRequest",
		Handler: handler(func(b []byte) error {
			all, err := modelconfig.ParseReload(b)
			served.Store(&all)
			return err
		}),
	}}}, nil)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// TestPendingIsBounded: requests beyond the bound fail instead of waiting.
func TestPendingIsBounded(t *testing.T) {
	t.Parallel()
	o := Options{
		Load:   Load{Rate: 500, Arrivals: "poisson", Timeout: 30 * time.Second, MaxPending: 2},
		Target: slowServer(t, 300*time.Millisecond), Requests: [][]byte{nil}, Connections: 1, Time: 300 * time.Millisecond, Turn: time.Second,
	}
	r, err := Run(context.Background(), o)
	fatal.If(t, err)
	if r.Measured.Requests > 20 || r.Measured.Failed["Unknown"] < 100 || r.Echo != nil {
		t.Errorf("%+v", r)
	}
}

// TestFaults: options that mean nothing and servers that do not answer are errors.
func TestFaults(t *testing.T) {
	t.Parallel()
	good := Options{
		Load:   Load{Rate: 100, Arrivals: "constant", Timeout: 200 * time.Millisecond, MaxPending: 10},
		Target: "127.0.0.1:1", Requests: [][]byte{nil}, Connections: 1, Time: time.Second, Turn: time.Second,
	}
	if _, err := Run(context.Background(), good); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1 answers no request") {
		t.Errorf("no server: %v", err)
	}
	for i, spoil := range []func(o *Options){
		func(o *Options) { o.Rate = 0 }, func(o *Options) { o.Rate = math.NaN() }, func(o *Options) { o.Arrivals = "" }, func(o *Options) { o.Time = 0 },
		func(o *Options) { o.Connections = 0 }, func(o *Options) { o.Requests = nil }, func(o *Options) { o.MaxPending = 0 }, func(o *Options) { o.Swap = -1 },
	} {
		o := good
		if spoil(&o); o.Validate() == nil {
			t.Errorf("fault %d is not found", i)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, good); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("canceled: %v", err)
	}
	if !slices.Equal(Arrivals(), []string{"poisson", "constant"}) {
		t.Error(Arrivals())
	}
}
