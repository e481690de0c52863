//go:build remote

package remote

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// newTransport returns the transport of one object or listing: requests to a host share
// connections during its lifetime.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second, ResponseHeaderTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
	}
}

// isHidden reports whether an object below a folder is in a hidden folder, or is hidden in a folder in it.
func isHidden(below string) bool {
	parts := strings.Split(below, "/")
	return len(parts) > 1 && slices.ContainsFunc(parts, func(part string) bool { return strings.HasPrefix(part, ".") || strings.HasPrefix(part, "_") })
}

// status returns the error for an unexpected status code.
func status(code int, text string) error {
	switch {
	case code == http.StatusNotFound:
		return fmt.Errorf("%w: there is no such file (404)", ErrFinal)
	case code == http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %w", ErrFinal, ErrChanged)
	case code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code >= 500 || code == 0:
		return fmt.Errorf("answer %d %s", code, text)
	}
	return fmt.Errorf("%w: %d %s", ErrFinal, code, text)
}

// web is a web server.
type web struct{ transport *http.Transport }

func (w web) request(ctx context.Context, method, address string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFinal, err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	return (&http.Client{Transport: w.transport}).Do(req)
}

func (w web) stat(ctx context.Context, address string) (*Object, error) {
	resp, err := w.request(ctx, http.MethodHead, address, nil)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, status(resp.StatusCode, "")
	}
	if resp.ContentLength < 0 {
		return nil, fmt.Errorf("%w: it does not report the length of the file", ErrFinal)
	}
	o := &Object{Name: address, Bytes: resp.ContentLength, Tag: resp.Header.Get("ETag"), from: w, key: address}
	o.Time, _ = http.ParseTime(resp.Header.Get("Last-Modified"))
	return o, nil
}

func (w web) list(context.Context, string, bool) ([]*Object, error) {
	return nil, fmt.Errorf("%w: a web server cannot list files", ErrFinal)
}

func (w web) get(ctx context.Context, o *Object, off, n int64) (io.ReadCloser, error) {
	header := http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", off, off+n-1)}}
	if o.Tag != "" && !strings.HasPrefix(o.Tag, "W/") {
		header.Set("If-Match", o.Tag)
	}
	resp, err := w.request(ctx, http.MethodGet, o.key, header)
	if err != nil {
		return nil, err
	}
	want := fmt.Sprintf("bytes %d-%d/%d", off, off+n-1, o.Bytes)
	switch {
	case resp.StatusCode == http.StatusOK:
		err = fmt.Errorf("%w: it does not support ranges", ErrFinal)
	case resp.StatusCode != http.StatusPartialContent:
		err = status(resp.StatusCode, "")
	case resp.Header.Get("Content-Range") != want || o.Tag != "" && resp.Header.Get("ETag") != o.Tag:
		err = fmt.Errorf("%w: %w", ErrFinal, ErrChanged)
	}
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp.Body, nil
}
