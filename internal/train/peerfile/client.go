package peerfile

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/rank"
)

const (
	pieceBytes  = 8 << 20
	pieceTime   = 30 * time.Second
	answerTime  = 10 * time.Second
	connections = 8 // to one server
	maxReason   = 4 << 10
)

// ErrChanged means that a file has another version than the one that was asked for.
var ErrChanged = errors.New("the file changed while the job ran")

// Client reads files that servers of the same job serve.
type Client struct{ http *http.Client }

// NewClient returns a client that proves the key.
func NewClient(key rank.Key) (*Client, error) {
	conf, err := key.TLS()
	if err != nil {
		return nil, err
	}
	conf.NextProtos = []string{protocol}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(conn, conf)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return struct{ net.Conn }{secure}, nil // net/http does not know the protocol
	}
	return &Client{&http.Client{
		Transport: &http.Transport{
			DialTLSContext: dial, DisableCompression: true, MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections,
			IdleConnTimeout: idleTime / 2, ResponseHeaderTimeout: answerTime,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// File is a file on another host. It holds no connection, and ReadAt may be called by many
// goroutines.
type File struct {
	client *Client
	ctx    context.Context
	addr   string
	path   string
	size   int64

	version string // that the file must have; "": any
}

// Open finds a file at the server with an address. Reads of the file end with ctx.
func (c *Client) Open(ctx context.Context, addr, path string) (*File, error) {
	f := &File{client: c, ctx: ctx, addr: addr, path: path}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	r, err := f.request(ctx, http.MethodHead, "")
	if err != nil {
		return nil, err
	}
	r.Body.Close()
	if f.size = r.ContentLength; f.size < 0 {
		return nil, f.fail(fmt.Errorf("the answer has no size"))
	}
	return f, nil
}

// Read returns the content of a small file. One of more than limit bytes is an error.
func (c *Client) Read(ctx context.Context, addr, path string, limit int64) ([]byte, error) {
	f := &File{client: c, ctx: ctx, addr: addr, path: path}
	ctx, cancel := context.WithTimeout(ctx, pieceTime)
	defer cancel()
	r, err := f.request(ctx, http.MethodGet, "")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	if err != nil {
		return nil, f.fail(err)
	}
	return b, nil
}

// Range returns the bytes from lo up to, not including, hi of a file that has a Version. A
// file of another version is ErrChanged.
func (c *Client) Range(ctx context.Context, addr, path, version string, lo, hi int64) ([]byte, error) {
	f := &File{client: c, ctx: ctx, addr: addr, path: path, size: hi, version: version}
	b := make([]byte, hi-lo)
	_, err := f.ReadAt(b, lo)
	return b, err
}

// Size returns the size of the file when it was opened, in bytes.
func (f *File) Size() int64 { return f.size }

// ReadAt is part of io.ReaderAt.
func (f *File) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		at := off + int64(n)
		if at >= f.size {
			return n, io.EOF
		}
		piece := b[n:min(len(b), n+pieceBytes)]
		piece = piece[:min(int64(len(piece)), f.size-at)]
		if err := f.read(piece, at); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

// read reads one piece.
func (f *File) read(b []byte, at int64) error {
	ctx, cancel := context.WithTimeout(f.ctx, pieceTime)
	defer cancel()
	last := at + int64(len(b)) - 1
	r, err := f.request(ctx, http.MethodGet, fmt.Sprintf("bytes=%d-%d", at, last))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if got := r.Header.Get("Content-Range"); r.StatusCode != http.StatusPartialContent || !strings.HasPrefix(got, fmt.Sprintf("bytes %d-%d/", at, last)) {
		return f.fail(fmt.Errorf("bytes %d to %d were asked for, and the answer is %s with range %.100q", at, last, r.Status, got))
	}
	if _, err := io.ReadFull(r.Body, b); err != nil {
		return f.fail(fmt.Errorf("bytes %d to %d: %w", at, last, err))
	}
	return nil
}

// request returns a successful answer.
func (f *File) request(ctx context.Context, method, span string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "https://"+f.addr+"/?path="+url.QueryEscape(f.path), nil)
	if err != nil {
		return nil, f.fail(err)
	}
	if span != "" {
		r.Header.Set("Range", span)
	}
	if f.version != "" {
		r.Header.Set("If-Match", strconv.Quote(f.version))
	}
	a, err := f.client.http.Do(r)
	if err != nil {
		if u, ok := err.(*url.Error); ok {
			err = u.Err // without the query
		}
		return nil, f.fail(err)
	}
	switch a.StatusCode {
	case http.StatusOK, http.StatusPartialContent:
		return a, nil
	}
	reason, _ := io.ReadAll(io.LimitReader(a.Body, maxReason))
	a.Body.Close()
	switch a.StatusCode {
	case http.StatusNotFound:
		return nil, f.fail(fs.ErrNotExist)
	case http.StatusForbidden:
		return nil, f.fail(fmt.Errorf("%w: %s %s", fs.ErrPermission, a.Status, strings.TrimSpace(string(reason))))
	case http.StatusPreconditionFailed:
		return nil, f.fail(ErrChanged)
	}
	return nil, f.fail(fmt.Errorf("%s %s", a.Status, strings.TrimSpace(string(reason))))
}

func (f *File) fail(err error) error { return fmt.Errorf("%s at %s: %w", f.path, f.addr, err) }
