package online

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/wdlrun/wdlrun/internal/runs/live"
)

//go:embed page.html online.js
var files embed.FS

// servePage serves the page and status.json at an address of this machine, until closePage is called. status returns
// status.json.
func servePage(ctx context.Context, address string, log io.Writer, status func() []byte) (closePage func(), err error) {
	if err := live.Check(address, true); err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	if host, _, _ := net.SplitHostPort(address); host != "localhost" && !net.ParseIP(host).IsLoopback() {
		return nil, fmt.Errorf("web: other machines would reach %s: listen on 127.0.0.1 and use a tunnel, such as ssh -L", address)
	}
	ln, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("web: another program has %s: end it, or give another port, such as web: 127.0.0.1:0", address)
	}
	if err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	mux := http.NewServeMux()
	live.Common(mux)
	mux.HandleFunc("GET /{$}", live.File(files, "page.html"))
	mux.HandleFunc("GET /online.js", live.File(files, "online.js"))
	mux.HandleFunc("GET /status.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(status()) // the browser may be gone
	})
	server := live.NewServer(ctx, live.Guarded("", mux))
	go server.Serve(ln)
	fmt.Fprintf(log, "online: page: http://%s/\n", ln.Addr())
	return func() { server.Close() }, nil
}
