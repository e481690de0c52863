package peerfile

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/rank"
)

// serve serves the files in a folder whose names end in .ok.
func serve(t testing.TB, key rank.Key) (s *Server, dir string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	if s, err = Serve(ln, key, func(path string) bool { return strings.HasSuffix(path, ".ok") }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, t.TempDir()
}

func client(t testing.TB, key rank.Key) *Client {
	t.Helper()
	c, err := NewClient(key)
	fatal.If(t, err)
	t.Cleanup(c.Close)
	return c
}

// TestRanges reads ranges of a file, also beyond one piece and beyond its end.
func TestRanges(t *testing.T) {
	key := rank.NewKey()
	s, dir := serve(t, key)
	c, path := client(t, key), filepath.Join(dir, "a?&b.ok")
	want := make([]byte, pieceBytes+1000)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range want {
		want[i] = byte(rng.Uint32())
	}
	fatal.If(t, os.WriteFile(path, want, 0o600))
	f, err := c.Open(t.Context(), s.Addr(), path)
	if err != nil || f.Size() != int64(len(want)) {
		t.Fatalf("size %d, %v", f.Size(), err)
	}
	for _, x := range [][2]int{{0, 1}, {0, len(want)}, {5, 1000}, {len(want) - 7, 7}, {pieceBytes - 1, 2}} {
		got := make([]byte, x[1])
		if n, err := f.ReadAt(got, int64(x[0])); n != x[1] || err != nil || !bytes.Equal(got, want[x[0]:x[0]+x[1]]) {
			t.Errorf("%d bytes at %d: %d, %v", x[1], x[0], n, err)
		}
	}
	if n, err := f.ReadAt(make([]byte, 10), int64(len(want)-3)); n != 3 || err != io.EOF {
		t.Errorf("over the end: %d, %v", n, err)
	}
	fatal.If(t, os.Truncate(path, 10))
	if _, err := f.ReadAt(make([]byte, 100), 5); err == nil {
		t.Error("a file that became shorter gives no error")
	}
}

// TestNotes: a note is a file until it is removed.
func TestNotes(t *testing.T) {
	key := rank.NewKey()
	s, _ := serve(t, key)
	c := client(t, key)
	s.Note("x/note", []byte("hello"))
	if b, err := c.Read(t.Context(), s.Addr(), "x/note", 5); string(b) != "hello" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := c.Read(t.Context(), s.Addr(), "x/note", 4); err == nil || !strings.Contains(err.Error(), "more than 4 bytes") {
		t.Errorf("over the limit: %v", err)
	}
	s.Note("x/note", nil)
	if _, err := c.Read(t.Context(), s.Addr(), "x/note", 5); err == nil {
		t.Error("a removed note is served")
	}
}

// TestNotServed: paths that are not allowed, missing files and folders.
func TestNotServed(t *testing.T) {
	key := rank.NewKey()
	s, dir := serve(t, key)
	c := client(t, key)
	fatal.If(t, errors.Join(os.WriteFile(filepath.Join(dir, "secret"), nil, 0o600), os.Mkdir(filepath.Join(dir, "d.ok"), 0o700)))
	for name, want := range map[string]string{"secret": "403 Forbidden", "": "403 Forbidden", "d.ok": "500 Internal"} {
		if _, err := c.Open(t.Context(), s.Addr(), filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
	if _, err := c.Open(t.Context(), s.Addr(), filepath.Join(dir, "none.ok")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// TestStrangers: a peer without the key, of another service of the job, or that speaks no TLS
// is rejected, and a server of another job is no server of this one.
func TestStrangers(t *testing.T) {
	key := rank.NewKey()
	s, _ := serve(t, key)
	s.Note("x", []byte("secret"))
	if _, err := client(t, rank.NewKey()).Read(t.Context(), s.Addr(), "x", 100); err == nil {
		t.Error("a client with another key reads")
	}
	conf, err := key.TLS() // the control plane's
	fatal.If(t, err)
	if conn, err := tls.Dial("tcp", s.Addr(), conf); err == nil {
		conn.Close()
		t.Error("a client of another protocol is accepted")
	}
	for _, said := range []string{"GET /?path=x HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02\x00", ""} {
		conn, err := net.Dial("tcp", s.Addr())
		fatal.If(t, err)
		conn.Write([]byte(said))
		if said != "" {
			conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			if b, _ := io.ReadAll(conn); bytes.Contains(b, []byte("secret")) {
				t.Errorf("%q is answered with %q", said, b)
			}
		}
		conn.Close()
	}
	if b, err := client(t, key).Read(t.Context(), s.Addr(), "x", 100); string(b) != "secret" || err != nil {
		t.Errorf("after strangers: %q, %v", b, err)
	}
}

// TestLiars: answers that are not what was asked for are errors.
func TestLiars(t *testing.T) {
	key := rank.NewKey()
	for name, lie := range map[string]http.HandlerFunc{
		"another range": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes 7-16/1000")
			w.WriteHeader(http.StatusPartialContent)
			w.Write(make([]byte, 10))
		},
		"the whole file": func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 1000)) },
		"too few bytes": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-9/1000")
			w.WriteHeader(http.StatusPartialContent)
			w.Write(make([]byte, 9))
		},
		"another place": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://127.0.0.1:1/", http.StatusFound)
		},
		"a long reason": func(w http.ResponseWriter, r *http.Request) { http.Error(w, strings.Repeat("x", 1<<20), 500) },
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		fatal.If(t, err)
		s := new(Server)
		fatal.If(t, s.serve(ln, key, lie))
		f := &File{client: client(t, key), ctx: context.Background(), addr: ln.Addr().String(), path: "x", size: 1000}
		if _, err := f.ReadAt(make([]byte, 10), 0); err == nil || len(err.Error()) > 2*maxReason {
			t.Errorf("%s: %.300v", name, err)
		}
		s.Close()
	}
}

// TestRangeOfAVersion: only the version that was asked for is read.
func TestRangeOfAVersion(t *testing.T) {
	key := rank.NewKey()
	s, dir := serve(t, key)
	c, path := client(t, key), filepath.Join(dir, "x.ok")
	fatal.If(t, os.WriteFile(path, []byte("0123456789"), 0o600))
	info, err := os.Stat(path)
	fatal.If(t, err)
	version := Version(info.Size(), info.ModTime())
	if b, err := c.Range(t.Context(), s.Addr(), path, version, 3, 7); string(b) != "3456" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	fatal.If(t, os.Chtimes(path, time.Time{}, info.ModTime().Add(1)))
	if _, err := c.Range(t.Context(), s.Addr(), path, version, 3, 7); !errors.Is(err, ErrChanged) {
		t.Errorf("another version: %v", err)
	}
	if _, err := c.Range(t.Context(), s.Addr(), filepath.Join(dir, "../secret"), version, 0, 1); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file that is not served: %v", err)
	}
}
