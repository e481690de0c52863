package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// TestAdminIsApart: with an administrative address, clients can neither read metrics nor change
// the models. The administrative address does both, also over gRPC, and profiles, for requests
// with the token.
func TestAdminIsApart(t *testing.T) {
	token, broken := "secret-1", error(nil)
	r := start(t, Options{Admin: &Admin{Token: func() (string, error) { return token, broken }}}, nil, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var all sync.WaitGroup
	all.Go(func() { must(t, r.ServeAdmin(l)) })
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer func() {
		must(t, conn.Close())
		must(t, r.Shutdown(context.Background()))
		all.Wait()
	}()
	const reload = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"
	config := sub(nil, 1, sub(nil, 1, sub(nil, 1, sub(sub(nil, 1, "other"), 2, r.base))))
	if _, err := r.call(t.Context(), "ModelService/HandleReloadConfigRequest", config); code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "-admin") {
		t.Error(err)
	}
	if status, text := r.http("GET", "/metrics", ""); status != 404 || !strings.Contains(text, "-admin") {
		t.Errorf("%d %s", status, text)
	}
	invoke := func(token string) error {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
		return conn.Invoke(ctx, reload, &frame{b: config}, new(frame), grpc.ForceCodecV2(newCodec()))
	}
	if err := invoke("secret-2"); code(err) != codes.Unauthenticated {
		t.Error(err)
	}
	must(t, invoke("secret-1"))
	if status, _ := r.http("GET", "/v1/models/other", ""); status != 200 {
		t.Error("the reload over gRPC has no effect")
	}
	client := r.url
	r.url = "http://" + l.Addr().String()
	defer func() { r.url = client }()
	body := fmt.Sprintf("model_config_list { config { name: 'third' base_path: %q } }", r.base)
	for _, x := range []struct {
		method, path, body, token string
		status                    int
		want                      string
	}{
		{"GET", "/metrics", "", "", 401, "-admin-token-file"},
		{"GET", "/metrics", "", "secret", 401, "Bearer TOKEN"},
		{"GET", "/metrics", "", "secret-1", 200, "wdlrun_serve_version{"},
		{"GET", "/monitoring/prometheus/metrics", "", "secret-1", 200, "wdlrun_serve_version{"},
		{"GET", "/debug/pprof/goroutine?debug=1", "", "secret-1", 200, "goroutine profile"},
		{"POST", "/v1/config", "model_config_list {}", "secret-1", 400, "has no model"},
		{"POST", "/v1/config", "model_config {}", "secret-1", 400, "unknown"},
		{"POST", "/v1/config", strings.Repeat(" ", 2<<20), "secret-1", 400, "too large"},
		{"POST", "/v1/config", strings.Replace(body, "third", "x/y", 1), "secret-1", 400, "has neither / nor :"},
		{"POST", "/v1/config", `model_config_list { config { name: "new" base_path: "/nowhere" } }`, "secret-1", 400, "model new: no version is available: base path /nowhere: stat /nowhere: no such file or directory; no model has changed"},
		{"POST", "/v1/config", body, "secret-1", 200, "{}"},
		{"POST", "/v1/models/third:predict", "{}", "secret-1", 404, "there are /metrics"},
	} {
		if status, text := r.http(x.method, x.path, x.body, "Authorization", "Bearer "+x.token); status != x.status || !strings.Contains(text, x.want) {
			t.Errorf("%s %s: %d %.200s, want %d %s", x.method, x.path, status, text, x.status, x.want)
		}
	}
	if got := r.registry.Models(); len(got) != 1 || got[0] != "third" {
		t.Errorf("models %v", got)
	}
	broken = errors.New("the token cannot be read")
	if status, text := r.http("GET", "/metrics", "", "Authorization", "Bearer secret-1"); status != 401 || !strings.Contains(text, broken.Error()) {
		t.Errorf("%d %s", status, text)
	}
	http.DefaultClient.CloseIdleConnections()
}
