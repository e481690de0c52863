package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/wdlrun/wdlrun/internal/serve/rescue"
	"github.com/wdlrun/wdlrun/internal/serve/tfs"
	"github.com/wdlrun/wdlrun/internal/serve/versions"
)

// Options configure a Server. The zero value of a field means the default.
type Options struct {
	// Open opens a version of a model and verifies it. before is the current version, nil if
	// there is none; the new version may share data with it. Open calls pause between pieces
	// of work of about 0.1 ms.
	Open func(dir string, before Model, pause func()) (Model, error)
	// Poll is the interval at which folders are read for new versions; 0: once.
	Poll time.Duration
	// Threads is the number of requests that compute at once; default: GOMAXPROCS.
	Threads int
	// Queue is the maximum number of waiting requests; default: 64 per thread. −1: none.
	Queue int
	// MaxBytes is the maximum size of a request, and of a decompressed REST body; default:
	// 16 MiB.
	MaxBytes int
	// BodyBytes is the maximum memory of all REST bodies at once, and of all gRPC messages that have
	// arrived in part; default: 64 MiB, or 4 bodies of MaxBytes.
	BodyBytes int
	// Guard is the greatest change of the logits by a new version, on warm-up records and recent
	// requests: of their mean in standard deviations, and the factor of their standard deviation. 0:
	// no comparison.
	Guard float64
	// Outputs, if any, replace the outputs of Predict.
	Outputs []Output
	// RejectInvalid rejects numbers that are NaN, infinite or beyond float32, and values that should be
	// dates and are none. Otherwise they are missing values.
	RejectInvalid bool
	// Limits are the limits of the inputs of a request.
	Limits tfs.Limits
	// TLS is the configuration of both listeners; nil: no TLS.
	TLS *tls.Config
	// Streams is the maximum number of requests of one gRPC connection at once; default: 256, or twice
	// the requests that compute and wait.
	Streams int
	// Keepalive limits the age and the idle time of gRPC connections.
	Keepalive keepalive.ServerParameters
	// RESTTimeout is the maximum time of a REST request after its body has arrived; 0: none.
	RESTTimeout time.Duration
	// CORS allows web pages of every origin to send REST requests.
	CORS bool
	// Admin, if not nil, moves control and metrics to the address of ServeAdmin.
	Admin *Admin
	// Report, if not nil, is called with every change of a version.
	Report func(versions.Event)
	// Panicked, if not nil, is called with the first panic of each place, such as a request's.
	Panicked func(*rescue.Panic)
}

const (
	queuePerThread = 64
	defaultBytes   = 16 << 20
	defaultBodies  = 64 << 20
	minStreams     = 256              // requests of one gRPC connection at once
	headerWait     = 10 * time.Second // also for the handshake of gRPC, for which the end of a server waits
	bodyWait       = time.Minute      // for a whole request
	idleWait       = 2 * time.Minute
	maxHeader      = 64 << 10
	// windowBytes is the number of bytes that a client sends before it waits. A fixed number
	// saves the pings by which gRPC would measure the connection at every request.
	windowBytes = 1 << 20
	// readBytes is the memory of a connection for reading. A request of 100 rows and 60 fields has
	// 18 kB; with 32 KiB, gRPC's default, more system calls read it.
	readBytes = 1 << 16
)

func (o *Options) fill() {
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.Queue == 0 {
		o.Queue = queuePerThread * o.Threads
	}
	o.Queue = max(0, o.Queue)
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultBytes
	}
	if o.BodyBytes == 0 {
		o.BodyBytes = max(defaultBodies, 4*o.MaxBytes)
	}
	if o.Streams == 0 {
		o.Streams = max(minStreams, 2*(o.Threads+o.Queue))
	}
	if o.Limits == (tfs.Limits{}) {
		o.Limits = tfs.Limits{Inputs: 1 << 12, Rows: tfs.MaxRows, Values: 1 << 22}
	}
}

// Server answers requests. Its methods may be called concurrently.
type Server struct {
	options  Options
	registry *versions.Registry[*servable]
	gate     *gate
	metrics  *counters
	requests *requests
	panics   panics
	bodies   budget
	inflow   *inflow
	live     live
	health   *health.Server
	grpc     *grpc.Server
	http     *http.Server
	admin    *http.Server // nil without Options.Admin

	mu      sync.Mutex
	healthy map[string]bool // the models of the health service
}

// New returns a server without models; see Set.
func New(o Options) *Server {
	o.fill()
	s := &Server{options: o, gate: newGate(o.Threads, o.Queue), requests: newRequests(), health: health.NewServer(), healthy: map[string]bool{}}
	s.bodies.most = int64(o.BodyBytes)
	s.inflow = newInflow(int64(o.BodyBytes))
	s.metrics = newCounters(s)
	s.registry = versions.New(versions.Options[*servable]{Open: s.open, Poll: o.Poll, Report: s.changed})
	s.updateHealth()
	options := []grpc.ServerOption{grpc.ForceServerCodecV2(newCodec()), grpc.MaxRecvMsgSize(o.MaxBytes), grpc.WaitForHandlers(true),
		grpc.NumStreamWorkers(uint32(o.Threads)), grpc.InitialWindowSize(windowBytes), grpc.InitialConnWindowSize(windowBytes),
		grpc.ReadBufferSize(readBytes), grpc.MaxConcurrentStreams(uint32(o.Streams)), grpc.ConnectionTimeout(headerWait), grpc.KeepaliveParams(o.Keepalive), grpc.StatsHandler(s.inflow)}
	options = append(options, // for the health service; the other methods count their panics by name
		grpc.UnaryInterceptor(func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (out any, err error) {
			err = s.rescue("health", func() (err error) {
				out, err = next(ctx, in)
				return err
			})
			return out, err
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			return s.rescue("health", func() error { return next(srv, stream) })
		}))
	if o.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	s.grpc = grpc.NewServer(options...)
	for _, d := range s.services() {
		s.grpc.RegisterService(d, nil)
	}
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	s.http = &http.Server{Handler: restServer{s}.handler(), ReadHeaderTimeout: headerWait, ReadTimeout: bodyWait, IdleTimeout: idleWait, MaxHeaderBytes: maxHeader}
	if o.Admin != nil {
		s.admin = adminServer{s}.server()
	}
	return s
}

// changed handles a change of a version.
func (s *Server) changed(e versions.Event) {
	if p, is := errors.AsType[*rescue.Panic](e.Err); is {
		s.panicked("version", p)
	}
	_ = s.rescue("report", func() error {
		s.metrics.changed(e)
		s.updateHealth()
		if s.options.Report != nil {
			s.options.Report(e)
		}
		return nil
	})
}

// updateHealth reports, by the name of each model, SERVING if it has a version. The server and its
// services are SERVING if any model is.
func (s *Server) updateHealth() {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := map[bool]grpc_health_v1.HealthCheckResponse_ServingStatus{
		true: grpc_health_v1.HealthCheckResponse_SERVING, false: grpc_health_v1.HealthCheckResponse_NOT_SERVING,
	}
	ready, some := s.registry.Ready(), false
	for name := range s.healthy {
		if _, ok := ready[name]; !ok {
			s.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN)
		}
	}
	for name, is := range ready {
		s.health.SetServingStatus(name, of[is])
		some = some || is
	}
	s.healthy = ready
	for _, service := range []string{"", "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"} {
		s.health.SetServingStatus(service, of[some])
	}
}

// Set sets the models that are served; see versions.Registry.Set.
func (s *Server) Set(ctx context.Context, all []versions.Config) error {
	err := s.registry.Set(ctx, all)
	s.updateHealth()
	return err
}

// Replace sets the models that are served, all or none; see versions.Registry.Replace.
func (s *Server) Replace(ctx context.Context, all []versions.Config) error {
	err := s.registry.Replace(ctx, all)
	s.updateHealth()
	return err
}

// ServeGRPC answers gRPC requests until Shutdown.
func (s *Server) ServeGRPC(l net.Listener) error { return s.grpc.Serve(s.inflow.listener(l)) }

// ServeREST answers HTTP requests until Shutdown.
func (s *Server) ServeREST(l net.Listener) error {
	if s.options.TLS != nil {
		l = tls.NewListener(l, s.options.TLS)
	}
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown reports NOT_SERVING, accepts no more connections, answers the requests that
// have arrived, and closes the models. Requests not answered when ctx ends are cancelled.
func (s *Server) Shutdown(ctx context.Context) error {
	s.health.Shutdown() // all are NOT_SERVING from here
	stopped := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(stopped)
	}()
	err := errors.Join(s.http.Shutdown(ctx), closeAdmin(ctx, s.admin))
	select {
	case <-stopped:
	case <-ctx.Done():
		err = ctx.Err()
		s.grpc.Stop()
		<-stopped
	}
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.registry.Close()
	return err
}
