package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"path"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/wdlrun/wdlrun/internal/serve/versions"
)

// Server answers requests. Its methods may be called concurrently.
type Server struct {
	*core
	bodies budget
	inflow *inflow
	grpc   *grpc.Server
	http   *http.Server
	admin  *http.Server // nil without Options.Admin
}

// New returns a server without models; see Set.
func New(o Options) *Server {
	o.fill()
	s := &Server{inflow: newInflow(int64(o.BodyBytes))}
	s.bodies.most = int64(o.BodyBytes)
	s.core = newCore(o, &s.bodies, s.inflow)
	options := []grpc.ServerOption{grpc.ForceServerCodecV2(newCodec()), grpc.MaxRecvMsgSize(o.MaxBytes), grpc.WaitForHandlers(true),
		grpc.NumStreamWorkers(uint32(o.Threads)), grpc.InitialWindowSize(windowBytes), grpc.InitialConnWindowSize(windowBytes),
		grpc.ReadBufferSize(readBytes), grpc.MaxConcurrentStreams(uint32(o.Streams)), grpc.ConnectionTimeout(headerWait), grpc.KeepaliveParams(o.Keepalive), grpc.StatsHandler(s.inflow)}
	options = append(options, // for health and reflection; the other methods count their panics by name
		grpc.UnaryInterceptor(func(ctx context.Context, in any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (out any, err error) {
			err = s.panics.rescue(path.Base(info.FullMethod), func() (err error) {
				out, err = next(ctx, in)
				return err
			})
			return out, err
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			return s.panics.rescue(path.Base(info.FullMethod), func() error { return next(srv, stream) })
		}))
	if o.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	s.grpc = grpc.NewServer(options...)
	clients := grpcServer{s.core, newRequests()}
	for _, d := range clients.services() {
		s.grpc.RegisterService(d, nil)
	}
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health.server)
	if o.Admin == nil {
		reflect(s.grpc)
	}
	s.http = &http.Server{Handler: restServer{s.core, &s.bodies}.handler(), ReadHeaderTimeout: headerWait, ReadTimeout: bodyWait, IdleTimeout: idleWait, MaxHeaderBytes: maxHeader}
	if o.Admin != nil {
		s.admin = adminServer{clients}.server()
	}
	return s
}

// Set sets the models that are served; see versions.Registry.Set.
func (s *Server) Set(ctx context.Context, all []versions.Config) error {
	err := s.registry.Set(ctx, all)
	s.health.update(s.registry.Ready)
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

// ServeAdmin answers requests at the administrative address until Shutdown.
func (s *Server) ServeAdmin(l net.Listener) (err error) {
	if c := s.options.TLS; c != nil {
		s.admin.TLSConfig = withHTTP2(c)
		err = s.admin.ServeTLS(l, "", "")
	} else {
		err = s.admin.Serve(l)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown reports NOT_SERVING, accepts no more connections, answers the requests that
// have arrived, and closes the models. Requests not answered when ctx ends are cancelled.
func (s *Server) Shutdown(ctx context.Context) error {
	s.health.server.Shutdown() // all are NOT_SERVING from here
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

// closeAdmin ends the administrative address, if there is one.
func closeAdmin(ctx context.Context, admin *http.Server) error {
	if admin == nil {
		return nil
	}
	if err := admin.Shutdown(ctx); err != nil {
		return errors.Join(err, admin.Close())
	}
	return nil
}
