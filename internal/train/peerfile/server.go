package peerfile

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/internal/machine/gate"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/rank"
)

const (
	protocol = "wdlrun files 1" // a client of another service of the job is rejected in the handshake

	unprovenMax = 64
	proofTime   = 5 * time.Second
	maxRequest  = 16 << 10
	idleTime    = time.Minute
)

// Server serves files of this host.
type Server struct {
	http  *http.Server
	addr  string
	allow func(path string) bool

	mu    sync.Mutex
	notes map[string][]byte
}

// Serve serves the files whose paths allow accepts. It closes ln with the Server.
func Serve(ln net.Listener, key rank.Key, allow func(path string) bool) (*Server, error) {
	s := &Server{addr: ln.Addr().String(), allow: allow, notes: map[string][]byte{}}
	return s, s.serve(ln, key, s.answer)
}

func (s *Server) serve(ln net.Listener, key rank.Key, answer http.HandlerFunc) error {
	conf, err := key.TLS()
	if err != nil {
		return err
	}
	conf.NextProtos = []string{protocol}
	s.http = &http.Server{
		Handler: answer, ReadHeaderTimeout: proofTime, IdleTimeout: idleTime, MaxHeaderBytes: maxRequest,
		ErrorLog: log.New(io.Discard, "", 0), // failed handshakes of strangers
	}
	go s.http.Serve(&prover{gate.New(ln, unprovenMax), conf})
	return nil
}

// prover accepts connections that prove the key with their first byte.
type prover struct {
	*gate.Gate
	conf *tls.Config
}

func (p *prover) Accept() (net.Conn, error) {
	conn, err := p.Gate.Accept()
	if err != nil {
		return nil, err
	}
	return &proving{tls.Server(conn, p.conf), conn.(*gate.Conn)}, nil
}

// proving is a connection whose first Read is the handshake.
type proving struct {
	net.Conn
	under *gate.Conn
}

func (p *proving) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if n > 0 {
		p.under.Proved()
	}
	return n, err
}

// Addr returns the address that other ranks dial.
func (s *Server) Addr() string { return s.addr }

// Note serves b as the file of a path, in place of a file on disk. A nil b removes the note.
func (s *Server) Note(path string, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b == nil {
		delete(s.notes, path)
	} else {
		s.notes[path] = b
	}
}

// Close ends the service and all requests.
func (s *Server) Close() error { return s.http.Close() }

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	path := r.URL.Query().Get("path")
	s.mu.Lock()
	note, noted := s.notes[path]
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/octet-stream")
	if noted {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(note))
		return
	}
	if !s.allow(path) {
		http.Error(w, fmt.Sprintf("%q is not served", path), http.StatusForbidden)
		return
	}
	f, err := regular.Open(path)
	if err != nil {
		code := http.StatusInternalServerError
		if errors.Is(err, fs.ErrNotExist) {
			code = http.StatusNotFound
		}
		http.Error(w, err.Error(), code)
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		w.Header().Set("ETag", strconv.Quote(Version(info.Size(), info.ModTime())))
	}
	http.ServeContent(w, r, "", time.Time{}, f)
}

// Version returns a text that changes when a file is written.
func Version(size int64, modified time.Time) string {
	return fmt.Sprintf("%d-%d", size, modified.UnixNano())
}
