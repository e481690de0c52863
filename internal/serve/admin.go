package serve

import (
	"crypto/subtle"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/pprof"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/wdlrun/wdlrun/internal/serve/modelconfig"
)

const configPath = "/v1/config"

// adminServer answers requests at the administrative address.
type adminServer struct{ grpcServer }

// server returns the server of the administrative address: metrics, profiles, the configuration
// of models, and the services ModelService, Health and ServerReflection over gRPC, on one port.
func (s adminServer) server() *http.Server {
	control := grpc.NewServer(grpc.ForceServerCodecV2(newCodec()), grpc.MaxRecvMsgSize(modelconfig.MaxBytes))
	control.RegisterService(s.service("ModelService", map[string]method{"GetModelStatus": s.grpcStatus, "HandleReloadConfigRequest": s.grpcReload}), nil)
	grpc_health_v1.RegisterHealthServer(control, s.health.server)
	reflect(control)
	mux := http.NewServeMux()
	for _, path := range metricsPaths {
		mux.Handle(path, s.metrics.page())
	}
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("POST "+configPath, s.restReload)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			control.ServeHTTP(w, r)
			return
		}
		writeFault(w, status.Errorf(codes.NotFound, "serve: %s %s: there are /metrics, /debug/pprof/ and POST %s", r.Method, r.URL.Path, configPath))
	})
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return &http.Server{Handler: s.authorised(mux), Protocols: p, ReadHeaderTimeout: headerWait, IdleTimeout: idleWait, MaxHeaderBytes: maxHeader}
}

// authorised rejects requests without the token.
func (s adminServer) authorised(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, err := s.options.Admin.Token()
		given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if err != nil || token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			text := "serve: the request needs the header Authorization: Bearer TOKEN, with the token of -admin-token-file"
			if err != nil {
				text = err.Error()
			}
			http.Error(w, text, http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// restReload replaces the models by those of the body, a ModelServerConfig as text.
func (s adminServer) restReload(w http.ResponseWriter, r *http.Request) {
	err := s.panics.rescue("rest config", func() error {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, modelconfig.MaxBytes))
		if err != nil {
			return invalid("the body cannot be read: %v", err)
		}
		all, err := modelconfig.ParseModels(text)
		if err != nil {
			return broken(err)
		}
		return s.reload(r.Context(), all)
	})
	if err != nil {
		writeFault(w, err)
		return
	}
	writeAnswer(w, r, []byte("{}\n"))
}

// withHTTP2 returns a configuration that offers HTTP/2 and HTTP/1.1.
func withHTTP2(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.NextProtos = []string{"h2", "http/1.1"}
	if current := c.GetConfigForClient; current != nil {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			now, err := current(hello)
			if now == nil || err != nil {
				return nil, err
			}
			return withHTTP2(now), nil
		}
	}
	return c
}
