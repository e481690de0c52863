//go:build unix

package jobs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// pemPair returns a self-signed certificate for 127.0.0.1 and its key in PEM format.
func pemPair(t *testing.T) (certificate, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatal.If(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	fatal.If(t, err)
	b, err := x509.MarshalECPrivateKey(k)
	fatal.If(t, err)
	text := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return text("CERTIFICATE", der), text("EC PRIVATE KEY", b)
}

// exportedModel trains and exports model ctr as versions 1 and 2.
func exportedModel(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	model := train(t, dir, 1, "-set", "train.epochs=1").RunDir
	for n := range 2 {
		must(t, dir, fmt.Sprintf("export -resume %s -out models -name ctr -version %d", model, n+1))
	}
	return dir
}

// TestServeEncrypted: both ports use TLS and require a certificate of the client. The file of
// models is reloaded after a change.
func TestServeEncrypted(t *testing.T) {
	if testing.Short() {
		t.Skip("trains a model")
	}
	t.Parallel()
	dir := exportedModel(t)
	certificate, key := pemPair(t)
	write := func(name, text string) {
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("ssl.config", fmt.Sprintf("server_key: %q server_cert: %q custom_ca: %q client_verify: true", key, certificate, certificate))
	models := func(version int) string {
		return fmt.Sprintf(`model_config_list { config { name: "ctr" base_path: "models/ctr" model_version_policy { all {} }
			version_labels { key: "stable" value: %d } } }`, version)
	}
	write("models.config", models(1))
	s := startServer(t, dir, "-model_config_file", "models.config", "-model_config_file_poll_wait_seconds", "1", "-ssl_config_file", "ssl.config")
	defer s.stop()
	pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	fatal.If(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(certificate))
	config := &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	defer client.CloseIdleConnections()
	url := strings.Replace(s.rest, "http:", "https:", 1) + "/v1/models/ctr/labels/stable"
	stable := func() string {
		a, err := client.Get(url)
		fatal.If(t, err)
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		fatal.If(t, err)
		return string(b)
	}
	if text := stable(); !strings.Contains(text, `"version": "1"`) {
		t.Error(text)
	}
	write("models.config", models(2))
	eventually(t, "the label's other version", func() bool { return strings.Contains(stable(), `"version": "2"`) })

	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	fatal.If(t, err)
	defer conn.Close()
	request, answer := stringTensors("ctr", []string{"age"}, [][]string{{"17"}}), []byte(nil)
	if err := conn.Invoke(context.Background(), "/tensorflow.serving.PredictionService/Predict", &request, &answer, grpc.ForceCodecV2(bytesCodec{})); err != nil || len(logitsOf(t, answer)) != 1 {
		t.Error(err)
	}
	stranger := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	if a, err := stranger.Get(url); err == nil {
		a.Body.Close()
		t.Error("a request without a client certificate was answered")
	}
}

// TestServersShareAPort: with -reuse-port a server takes over from another without an
// interruption. Only one server can use the Unix socket.
func TestServersShareAPort(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := exportedModel(t)
	g, r := freePort(t), freePort(t)
	first := startServerAt(t, dir, g, r, "-model", "ctr=models/ctr", "-reuse-port", "-grpc_socket_path", "socket")
	second := startServerAt(t, dir, g, r, "-model", "ctr=models/ctr", "-reuse-port")
	defer second.stop()
	if o := run(t, dir, "serve", "-model", "ctr=models/ctr", "-port", fmt.Sprint(freePort(t)), "-rest-port", "0", "-grpc_socket_path", "socket"); o.code != 1 || !strings.Contains(o.stderr, "another server listens there") {
		t.Errorf("a third server on the socket: %+v", o)
	}
	if o := first.stop(); o.code != 0 {
		t.Errorf("the first server: %+v", o)
	}
	for range 20 {
		a, err := http.Post(first.rest+"/v1/models/ctr:predict", "", strings.NewReader(`{"instances": [{"age": 1}]}`))
		fatal.If(t, err)
		a.Body.Close()
		if a.StatusCode != http.StatusOK {
			t.Errorf("status %d after the first server has ended", a.StatusCode)
		}
	}
}
