package serve

import (
	"crypto/tls"
	"runtime"
	"time"

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
	// arrived in part; default: 48 MiB, or 3 bodies of MaxBytes.
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
	// Admin, if not nil, moves control, metrics and reflection to the address of ServeAdmin.
	Admin *Admin
	// Report, if not nil, is called with every change of a version.
	Report func(versions.Event)
	// Panicked, if not nil, is called with the first panic of each place, such as a request's.
	Panicked func(*rescue.Panic)
	// Broken, if not nil, is called when a version begins to fail, such as one whose files were damaged after it was opened,
	// and with nil when it answers again.
	Broken func(model string, version int64, err error)
	// Ignored, if not nil, is called with each input of requests that a model does not have, once, and of at most
	// 100 inputs of a model.
	Ignored func(model, input string)
	// IgnoredMember, if not nil, is called like Ignored, with each member of the bodies of REST requests that has no
	// meaning there.
	IgnoredMember func(model, member string)
}

const (
	queuePerThread = 64
	defaultBytes   = 16 << 20
	defaultBodies  = 48 << 20
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
		o.BodyBytes = max(defaultBodies, 3*o.MaxBytes)
	}
	if o.Streams == 0 {
		o.Streams = max(minStreams, 2*(o.Threads+o.Queue))
	}
	if o.Limits == (tfs.Limits{}) {
		o.Limits = tfs.Limits{Inputs: 1 << 12, Rows: tfs.MaxRows, Values: 1 << 22}
	}
}

// Admin is the configuration of the administrative address. With it, the addresses for clients
// have neither metrics nor HandleReloadConfigRequest nor reflection.
type Admin struct {
	// Token returns the token that each request must have; "" for none.
	Token func() (string, error)
}

// Output names an output of Predict.
type Output struct {
	Name   string
	Of     string // an output of the model, such as score or logit
	Column bool   // its shape is [N,1] instead of [N]
}
