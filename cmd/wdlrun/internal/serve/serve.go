// Package serve has the commands that bring a model to requests: export, publish and serve.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/machine/cgroup"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/serve"
	"github.com/wdlrun/wdlrun/internal/serve/modelconfig"
	"github.com/wdlrun/wdlrun/internal/serve/rescue"
	"github.com/wdlrun/wdlrun/internal/serve/versions"
)

func Command(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "serve",
		Usage:     "answer requests for predictions, with TensorFlow Serving's API",
		UsageText: "wdlrun serve -model NAME=DIR [flags]",
		Description: `Serves exported models over gRPC and REST to clients of TensorFlow Serving. DIR holds a folder
for each version, as wdlrun export writes it: DIR/640. The latest version is served. A new one is
opened, verified and warmed up while the old one is served, and then replaces it between two
requests.

-host 127.0.0.1, the default, accepts requests only from this machine. -host 0.0.0.0 accepts them
from everywhere: use it with -ssl_config_file, or in a network that only clients can reach.

Flags with underscores are TensorFlow Serving's. All its flags are accepted; serve names those that
have no effect. docs/serving.md lists the differences.

On SIGTERM or Ctrl-C, the health check reports NOT_SERVING, requests that have arrived are
answered, and the server ends with exit code 0. A second signal ends it at once.

Examples:
   wdlrun serve -model ctr=MODELS/ctr
   wdlrun serve -model ctr=MODELS/ctr -model cvr=MODELS/cvr -port 9000 -rest-port 0
   wdlrun serve -model_config_file models.config -model_config_file_poll_wait_seconds 60
   curl -d '{"instances": [{"age": 38, "education": "Masters"}]}' localhost:8501/v1/models/ctr:predict`,
		Flags:  serveFlags(),
		Action: func(c *cli.Context) error { return serving{p, c}.run() },
	}
}

func serveFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringSliceFlag{Name: "model", Usage: "serve the model `NAME=DIR`, where DIR holds its versions; may be repeated"},
		&cli.StringFlag{Name: "host", Value: "127.0.0.1", Usage: "listen on `ADDRESS`"},
		&cli.IntFlag{Name: "port", Value: 8500, Usage: "serve gRPC on `PORT`; 0: no gRPC"},
		&cli.IntFlag{Name: "rest-port", Aliases: []string{"rest_api_port"}, Value: 8501, Usage: "serve REST and /metrics on `PORT`; 0: neither"},
		&cli.IntFlag{Name: "threads", Usage: "compute `N` requests at once", DefaultText: "the number of CPUs"},
		&cli.StringFlag{Name: "precision", Value: "fp32", Usage: "multiply in `TYPE`: fp32 gives the logits of eval; bf16 is faster, needs AVX512_BF16 or AMX, and rounds"},
		&cli.IntFlag{Name: "max-queue", Usage: "let `N` more requests wait and reject others with RESOURCE_EXHAUSTED; -1: none wait", DefaultText: "64 per thread"},
		&cli.IntFlag{Name: "max-bytes", Value: 16 << 20, Usage: "reject requests of more than `N` bytes"},
		&cli.IntFlag{Name: "max-body-bytes", Usage: "hold at most `N` bytes of REST requests at once and reject others with RESOURCE_EXHAUSTED; as much for incomplete gRPC messages, whose clients wait", DefaultText: "48 MiB, or 3 requests of -max-bytes"},
		&cli.Float64Flag{Name: "guard", Value: 3, Usage: "refuse a new version whose mean logit differs from the current version's by more than `N` standard deviations, or whose standard deviation differs N-fold; 0: never"},
		&cli.BoolFlag{Name: "wait", Usage: "start even if there is no version yet, and wait for one"},
		&cli.BoolFlag{Name: "reuse-port", Usage: "share the ports, and the memory of the model, with other servers of the same model"},
		&cli.DurationFlag{Name: "drain", Value: 30 * time.Second, Usage: "cancel requests that still run after `DURATION` when the server ends"},
		&cli.StringFlag{Name: "model_name", Usage: "call the model of -model_base_path `NAME`", DefaultText: "default"},
		&cli.StringFlag{Name: "model_base_path", Usage: "serve the versions in `DIR` as -model_name"},
		&cli.StringFlag{Name: "model_config_file", Usage: "serve the models in `FILE`, a ModelServerConfig as text"},
		&cli.IntFlag{Name: "model_config_file_poll_wait_seconds", Usage: "read that file again every `N` seconds; 0: once"},
		&cli.Float64Flag{Name: "file_system_poll_wait_seconds", Value: 1, Usage: "look for new versions every `N` seconds; 0: once"},
		&cli.StringFlag{Name: "grpc_socket_path", Usage: "also serve gRPC on the Unix socket `FILE`"},
		&cli.StringFlag{Name: "ssl_config_file", Usage: "read keys and certificates from `FILE`, an SSLConfig as text; a changed file is read again"},
		&cli.StringFlag{Name: "admin", Usage: "move /metrics and the configuration of models to `ADDRESS`, such as 127.0.0.1:8502, which also has profiles"},
		&cli.StringFlag{Name: "admin-token-file", Usage: "require the token in `FILE` for requests to -admin"},
		&cli.StringFlag{Name: "invalid", Value: "missing", Usage: "treat numbers that are NaN, infinite or beyond 32 bits, and dates that are none, as `KIND`: missing values, or reject the request"},
		&cli.StringSliceFlag{Name: "output", Usage: "answer Predict with the output `NAME=SOURCE` instead of score and logit, or with NAME=SOURCE[N,1] of that shape; may be repeated"},
		&cli.IntFlag{Name: "rest_api_timeout_in_ms", Usage: "answer 504 to REST requests that wait for more than `N` ms", DefaultText: "none"},
		&cli.BoolFlag{Name: "rest_api_enable_cors_support", Usage: "let web pages of every origin send REST requests"},
		&cli.StringFlag{Name: "grpc_channel_arguments", Usage: "limit gRPC connections by `NAME=N,…`, such as grpc.max_connection_age_ms=60000"},
	}, foreignFlags()...)
}

// run serves until a signal.
func (p serving) run() error {
	c := p.c
	if c.Bool("version") {
		p.PrintVersion(c)
		return nil
	}
	if c.Args().Present() {
		return fmt.Errorf("serve takes no arguments, but got %q; models are given as -model NAME=DIR", c.Args().First())
	}
	if err := command.Positive(c, "threads", "max-bytes", "max-body-bytes", "drain", "rest_api_timeout_in_ms"); err != nil {
		return err
	}
	models, err := servedModels(c)
	if err != nil {
		return err
	}
	log := newVersionLog(p.Stdout, p.Stderr)
	if log.bf16, err = bf16(c.String("precision")); err != nil {
		return err
	}
	if g := c.Float64("guard"); !(g == 0 || g >= 1) {
		return fmt.Errorf("serve: -guard %v: expected a number of at least 1, or 0 for none", g)
	}
	invalid := c.String("invalid")
	if invalid != "missing" && invalid != "reject" {
		return fmt.Errorf("serve: -invalid %q is not known; there are missing and reject", invalid)
	}
	o := serve.Options{
		Guard: c.Float64("guard"), RejectInvalid: invalid == "reject", RESTTimeout: time.Duration(c.Int("rest_api_timeout_in_ms")) * time.Millisecond, CORS: c.Bool("rest_api_enable_cors_support"),
		Open: log.open, Threads: c.Int("threads"), Queue: c.Int("max-queue"), MaxBytes: c.Int("max-bytes"), BodyBytes: c.Int("max-body-bytes"), Report: log.changed, Panicked: log.panicked, Broken: log.broken, Ignored: log.ignored, IgnoredMember: log.ignoredMember,
		Poll: time.Duration(c.Float64("file_system_poll_wait_seconds") * float64(time.Second)),
	}
	if o.TLS, err = p.serveTLS(c.String("ssl_config_file")); err != nil {
		return err
	}
	if o.Admin, err = adminOf(c); err != nil {
		return err
	}
	if o.Outputs, err = outputsOf(c.StringSlice("output")); err != nil {
		return err
	}
	if err := errors.Join(channelArguments(c.String("grpc_channel_arguments"), &o, p.Stderr), foreign(c, p.Stderr)); err != nil {
		return err
	}
	p.limitMemory()
	p.OwnsRanks.Store(true) // the server ends by itself, without StartGrace
	s := serve.New(o)
	listeners, err := listen(c, s)
	if err == nil {
		err = p.models(s, models, listeners)
	}
	for _, l := range listeners {
		l.Close()
	}
	return err
}

// models opens the models, serves them, and shuts the server down.
func (p serving) models(s *serve.Server, models []versions.Config, listeners []listener) error {
	c, ctx := p.c, p.c.Context
	err := s.Set(ctx, models)
	switch {
	case err == nil || ctx.Err() != nil:
	case c.Bool("wait"):
		fmt.Fprintf(p.Stderr, "wdlrun: %v; waiting for a version\n", err)
		err = nil
	default:
		err = fmt.Errorf("%w; with -wait, serve starts and waits for a version", err)
	}
	failed := make(chan error, len(listeners))
	var all sync.WaitGroup
	if err == nil {
		for _, l := range listeners {
			all.Go(func() { failed <- l.serve(l.Listener) })
		}
		p.announce(models, listeners)
		p.watchConfig(s, models)
		select {
		case <-ctx.Done():
			fmt.Fprintf(p.Stderr, "wdlrun: serve: %v: answering the requests that have arrived\n", context.Cause(ctx))
		case err = <-failed:
		}
	} else if ctx.Err() != nil {
		err = nil // the signal came while the models were opened
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Duration("drain"))
	defer cancel()
	if late := s.Shutdown(end); late != nil && err == nil {
		err = fmt.Errorf("serve: shut down: requests were cancelled after -drain %v: %w", c.Duration("drain"), late)
	}
	all.Wait()
	return err
}

// bf16 reports whether a precision is bf16, and fails if this machine does not support it.
func bf16(precision string) (bool, error) {
	switch precision {
	case "fp32":
		return false, nil
	case "bf16":
		if err := f32.NoBF16(); err != nil {
			return false, fmt.Errorf("serve: -precision bf16 would be slower than fp32 on this machine: %w: use fp32", err)
		}
		return true, nil
	}
	return false, fmt.Errorf("serve: -precision %q is not known; there are fp32 and bf16", precision)
}

// announce prints the addresses of the server.
func (p serving) announce(models []versions.Config, listeners []listener) {
	for _, l := range listeners {
		fmt.Fprintf(p.Stdout, "serve: %s on %s\n", l.what, l.Addr())
		if l.what == restName {
			fmt.Fprintf(p.Stdout, "serve: try %s://%s/v1/models/%s\n", l.scheme, l.Addr(), models[0].Name)
		}
	}
}

// servedModels returns the models that the flags name.
func servedModels(c *cli.Context) (all []versions.Config, err error) {
	file := c.String("model_config_file")
	if file != "" {
		if c.IsSet("model") {
			return nil, errors.New("serve: -model_config_file names the models: leave -model out")
		}
		return readModels(file)
	}
	for _, m := range c.StringSlice("model") {
		name, dir, ok := strings.Cut(m, "=")
		if !ok || name == "" || dir == "" {
			return nil, fmt.Errorf("serve: -model %q is not NAME=DIR, such as ctr=MODELS/ctr", m)
		}
		all = append(all, versions.Config{Name: name, Base: dir})
	}
	if dir := c.String("model_base_path"); dir != "" {
		name := "default"
		if c.IsSet("model_name") {
			name = c.String("model_name")
		}
		all = append(all, versions.Config{Name: name, Base: dir})
	}
	if len(all) == 0 {
		return nil, errors.New("serve: no model: give -model NAME=DIR, such as ctr=MODELS/ctr")
	}
	for _, m := range all {
		if why := noBase(m); why != "" {
			return nil, fmt.Errorf("serve: -model %s=%s: %s", m.Name, m.Base, why)
		}
	}
	return all, versions.Check(all)
}

// noBase returns why a folder is not one of versions, if its contents show that.
func noBase(m versions.Config) string {
	if _, err := os.Stat(filepath.Join(m.Base, "MANIFEST.json")); err == nil {
		return "this folder is one version; give the folder that holds it: " + filepath.Dir(filepath.Clean(m.Base))
	}
	if _, err := os.Stat(filepath.Join(m.Base, "checkpoints")); err == nil {
		return fmt.Sprintf("this is a run directory; export its model first: wdlrun export -resume %s -out models -name %s", command.QuotedPath(m.Base), command.QuotedPath(m.Name))
	}
	own, err := fs.Glob(os.DirFS(m.Base), "*/MANIFEST.json")
	below, err2 := fs.Glob(os.DirFS(m.Base), "*/*/MANIFEST.json")
	if err == nil && err2 == nil && len(own) == 0 && len(below) > 0 {
		model, _, _ := strings.Cut(below[0], "/")
		return "this folder holds models; give the folder of one model: " + filepath.Join(m.Base, model)
	}
	return ""
}

// readModels reads a file of models.
func readModels(file string) ([]versions.Config, error) {
	text, err := regular.ReadFile(file, modelconfig.MaxBytes)
	var all []versions.Config
	if err == nil {
		all, err = modelconfig.ParseModels(text)
	}
	if err == nil && len(all) == 0 {
		err = errors.New("it names no model; see docs/serving.md")
	}
	if err != nil {
		return nil, fmt.Errorf("serve: -model_config_file %s: %w", file, err)
	}
	return all, nil
}

// watchConfig reads the file of models again periodically and applies changes since
// applied. A change that fails, such as a label of a version that does not exist yet, is
// tried again after twice the time, at most a minute or the period if that is longer, because its models are opened for it.
func (p serving) watchConfig(s *serve.Server, applied []versions.Config) {
	c := p.c
	file, every := c.String("model_config_file"), time.Duration(c.Int("model_config_file_poll_wait_seconds"))*time.Second
	if file == "" || every <= 0 {
		return
	}
	go func() {
		reported, failed, wait := "", []versions.Config(nil), every
		var next time.Time // when failed is tried again
		for {
			select {
			case <-c.Context.Done():
				return
			case <-time.After(every):
			}
			fault, waits := "", false
			err := rescue.Call(func() error {
				models, err := readModels(file)
				if err != nil || reflect.DeepEqual(models, applied) {
					return err
				}
				if reflect.DeepEqual(models, failed) {
					waits = time.Now().Before(next)
				} else {
					wait = every
				}
				if waits {
					return nil
				}
				if err = s.Replace(c.Context, models); err == nil {
					applied, failed = models, nil
					return nil
				}
				wait = min(2*wait, max(every, time.Minute))
				failed, next = models, time.Now().Add(wait)
				return err
			})
			if waits {
				continue
			}
			if err != nil && c.Context.Err() == nil {
				if fault = err.Error(); fault != reported {
					fmt.Fprintf(p.Stderr, "wdlrun: %v\n", err)
				}
			}
			reported = fault
		}
	}()
}

// listener is one address of the server.
type listener struct {
	net.Listener
	what, scheme string
	serve        func(net.Listener) error
}

const (
	grpcName = "gRPC"
	restName = "REST"

	adminName = "metrics and control"
)

// instead returns what to do if another program listens on a port.
func instead(err error, flag, what string) string {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return ""
	}
	return fmt.Sprintf(": another program listens there: give another port, -%s N, or -%s 0 for no %s", flag, flag, what)
}

// listen opens the requested addresses.
func listen(c *cli.Context, s *serve.Server) (all []listener, err error) {
	config := net.ListenConfig{}
	if c.Bool("reuse-port") {
		if config.Control = reusePort; config.Control == nil {
			return nil, errors.New("serve: -reuse-port is not available on this system")
		}
	}
	scheme := "http"
	if c.String("ssl_config_file") != "" {
		scheme = "https"
	}
	if address := c.String("admin"); address != "" {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("serve: -admin %s: %w", address, err)
		}
		all = append(all, listener{l, adminName, scheme, s.ServeAdmin})
	}
	for _, x := range []listener{{nil, grpcName, scheme, s.ServeGRPC}, {nil, restName, scheme, s.ServeREST}} {
		flag := map[string]string{grpcName: "port", restName: "rest-port"}[x.what]
		port := c.Int(flag)
		if port == 0 {
			continue
		}
		if x.Listener, err = config.Listen(c.Context, "tcp", net.JoinHostPort(c.String("host"), fmt.Sprint(port))); err != nil {
			return all, fmt.Errorf("serve: -%s %d: %w%s", flag, port, err, instead(err, flag, x.what))
		}
		all = append(all, x)
	}
	if path := c.String("grpc_socket_path"); path != "" {
		if err := removeStale(path); err != nil {
			return all, err
		}
		l, err := net.Listen("unix", path) // cannot be shared
		if err != nil {
			return all, fmt.Errorf("serve: -grpc_socket_path %s: %w", path, err)
		}
		all = append(all, listener{l, grpcName, scheme, s.ServeGRPC})
	}
	if !slices.ContainsFunc(all, func(l listener) bool { return l.what != adminName }) {
		return all, errors.New("serve: -port and -rest-port are 0: the server would listen nowhere")
	}
	return all, nil
}

// removeStale removes a socket that no process listens on.
func removeStale(path string) error {
	st, err := os.Lstat(path)
	if err != nil || st.Mode()&os.ModeSocket == 0 {
		return nil // listening will report the error
	}
	if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
		conn.Close()
		return fmt.Errorf("serve: -grpc_socket_path %s: another server listens there", path)
	}
	return os.Remove(path)
}

// limitMemory makes the garbage collector work harder near the memory limit of the container, unless
// GOMEMLIMIT is set. The tables of models are mapped files, which the limit does not count.
func (p serving) limitMemory() {
	const share = 10 // 1/10 is left for mapped files and the stacks of threads
	if limit := cgroup.Read().Limit; limit < math.MaxInt64 && p.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit - limit/share)
	}
}
