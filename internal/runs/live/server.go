package live

import (
	"context"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	every       = time.Second      // interval of messages to a browser, and of reads of the run directory
	writeWithin = 10 * time.Second // for a browser to accept a message
	maxClients  = 32
	tokenCookie = "wdlrun-token"
)

//go:embed page
var files embed.FS

// Server serves the page and the metrics of a board.
type Server struct {
	board   *Board
	clients chan struct{}
	servers []*http.Server
	stop    context.CancelFunc
	life    context.Context
	running sync.WaitGroup
}

// Serve serves the page and the metrics on each listener of web, and only the metrics on
// each of metrics. token protects web; "" is for loopback addresses.
func Serve(b *Board, token string, web, metrics []net.Listener) *Server {
	s := &Server{board: b, clients: make(chan struct{}, maxClients)}
	s.life, s.stop = context.WithCancel(context.Background())
	prom := promhttp.HandlerFor(b.registry(), promhttp.HandlerOpts{MaxRequestsInFlight: 8})
	page := http.NewServeMux()
	Common(page)
	page.HandleFunc("GET /{$}", File(files, "page/page.html"))
	page.HandleFunc("GET /live.js", File(files, "page/live.js"))
	page.HandleFunc("GET /events", s.events)
	page.Handle("GET /metrics", prom)
	alone := http.NewServeMux()
	alone.Handle("GET /metrics", prom)
	for _, ln := range web {
		s.serve(ln, Guarded(token, page))
	}
	for _, ln := range metrics {
		s.serve(ln, alone)
	}
	s.running.Go(s.poll)
	return s
}

func (s *Server) serve(ln net.Listener, h http.Handler) {
	server := NewServer(s.life, h)
	s.servers = append(s.servers, server)
	s.running.Go(func() { server.Serve(ln) })
}

// poll reads the run directory periodically.
func (s *Server) poll() {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		s.board.readRun()
		select {
		case <-tick.C:
		case <-s.life.Done():
			return
		}
	}
}

// Close sends browsers the outcome of the job, if there is one, and stops the server,
// within about a second.
func (s *Server) Close() {
	if s == nil {
		return
	}
	late, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, server := range s.servers {
		if server.Shutdown(late) != nil {
			server.Close()
		}
	}
	s.stop()
	s.running.Wait()
}

// NewServer returns a server with limits of size and time. Its requests end when life
// ends.
func NewServer(life context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0), BaseContext: func(net.Listener) context.Context { return life },
	}
}

// Common serves the shared files of wdlrun's pages: /live.css, /parts.js and no icon.
func Common(mux *http.ServeMux) {
	mux.HandleFunc("GET /live.css", File(files, "page/live.css"))
	mux.HandleFunc("GET /parts.js", File(files, "page/parts.js"))
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
}

// File returns a handler of an embedded file. It panics if there is none.
func File(from embed.FS, name string) http.HandlerFunc {
	b, err := from.ReadFile(name)
	if err != nil {
		panic(err)
	}
	kind := map[string]string{".html": "text/html", ".js": "text/javascript", ".css": "text/css"}[path.Ext(name)] + "; charset=utf-8"
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Write(b)
	}
}

// Guarded sets the headers of all responses. It rejects requests without the token or, if
// token is "", requests whose host is not this machine.
func Guarded(token string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cache-Control", "no-store")
		switch given := r.URL.Query().Get("token"); {
		case token == "" && !loopback(r.Host):
			http.Error(w, "wdlrun: the page is served only to this machine: open it at 127.0.0.1", http.StatusForbidden)
		case token == "" || admits(token, r):
			h.ServeHTTP(w, r)
		case equal(token, given):
			http.SetCookie(w, &http.Cookie{Name: tokenCookie, Value: given, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			http.Redirect(w, r, r.URL.Path, http.StatusSeeOther)
		default:
			http.Error(w, "wdlrun: the token is missing or wrong: open /?token=TOKEN", http.StatusUnauthorized)
		}
	})
}

func admits(token string, r *http.Request) bool {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && equal(token, bearer) {
		return true
	}
	c, err := r.Cookie(tokenCookie)
	return err == nil && equal(token, c.Value)
}

func equal(token, given string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}

// loopback reports whether a host, with or without a port, is this machine.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// events sends a browser what is new, once a second, until the job or the browser ends.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	select {
	case s.clients <- struct{}{}:
		defer func() { <-s.clients }()
	default:
		http.Error(w, fmt.Sprintf("wdlrun: %d browsers show the page already: close one", maxClients), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for at := (cursor{}); ; {
		var m message
		m, at = s.board.since(at)
		if out.SetWriteDeadline(time.Now().Add(writeWithin)) != nil || write(w, m) != nil || out.Flush() != nil || m.End != nil {
			return
		}
		select {
		case <-tick.C:
		case <-s.board.done:
		case <-r.Context().Done():
			return
		}
	}
}

func write(w io.Writer, m message) error {
	b, err := json.Marshal(m)
	if err == nil {
		_, err = fmt.Fprintf(w, "data: %s\n\n", b)
	}
	return err
}

// Check returns an error if the page cannot be served at an address: it is not an address,
// or other machines can reach it and no token protects it.
func Check(addr string, protected bool) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q is not an address: give HOST:PORT, such as 127.0.0.1:6060", addr)
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil || port == "" {
		return fmt.Errorf("%q has no port: give HOST:PORT, such as 127.0.0.1:6060", addr)
	}
	if !protected && !loopback(host) {
		if port = strconv.Itoa(number); number == 0 {
			port = "PORT"
		}
		return fmt.Errorf("other machines reach %s: give -web-token FILE with a secret, or listen on 127.0.0.1 and use a tunnel: ssh -L %s:127.0.0.1:%s HOST", addr, port, port)
	}
	return nil
}
