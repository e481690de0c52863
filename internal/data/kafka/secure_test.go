package kafka

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// secret must be in no error and in no address.
const secret = "pass=word, 7 "

// certificate makes a self-signed certificate of 127.0.0.1, and the file of its authority.
func certificate(t *testing.T) (c tls.Certificate, ca string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatal.If(t, err)
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	fatal.If(t, err)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file(t, "ca.pem", string(text))
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// secured starts brokers with TLS and a user of a mechanism, and produces records.
func secured(t *testing.T, mechanism string, with ...kfake.Opt) (*kfake.Cluster, Address) {
	t.Helper()
	cert, ca := certificate(t)
	with = append(with, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}), kfake.EnableSASL(), kfake.Superuser(strings.ToUpper(mechanism), "ctr", secret))
	c, a := broker(t, 1, with...)
	a.TLS, a.CA, a.SASL = true, ca, mechanism
	a.Credentials = file(t, "kafka", "# of the training\r\n\r\nusername=ctr\r\npassword="+secret+"\r\n")
	options, err := a.security()
	fatal.If(t, err)
	produce(t, a, 0, 0, 3, options...)
	return c, a
}

// refused reads marks and expects a one-line error without the secret that contains all
// parts.
func refused(t *testing.T, a Address, parts ...string) {
	t.Helper()
	if err := refusal(a, parts...); err != nil {
		t.Error(err)
	}
}

// refusal is refused for tests that may retry.
func refusal(a Address, parts ...string) (faults error) {
	l := NewLog(a)
	err := l.Open()
	if err == nil {
		defer l.Close()
		_, err = l.Marks(context.Background())
	}
	if err == nil {
		return fmt.Errorf("no error; want %q", parts)
	}
	text := err.Error()
	for _, p := range append(parts, "topic clicks at "+a.Brokers[0]) {
		if !strings.Contains(text, p) {
			faults = errors.Join(faults, fmt.Errorf("%s\nlacks %q", text, p))
		}
	}
	if a.Timeout >= time.Minute && strings.Contains(text, "given up") && !slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(p, "given up") }) {
		faults = errors.Join(faults, fmt.Errorf("asked until patience ended: %s", text))
	}
	if strings.Contains(text, "\n") || strings.Contains(text, "word, 7") || strings.Contains(text, "hunter2") {
		faults = errors.Join(faults, fmt.Errorf("more than a line, or a secret: %s", text))
	}
	return faults
}

// TestClientCertificate: the certificate is read again at each handshake, and a broker that wants one
// is named.
func TestClientCertificate(t *testing.T) {
	server, ca := certificate(t)
	mine, authority := certificate(t)
	pool, err := readAuthorities(authority)
	fatal.If(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(mine.PrivateKey)
	fatal.If(t, err)
	_, a := broker(t, 1, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}))
	a.TLS, a.CA, a.Timeout = true, ca, time.Minute
	refused(t, a, "TLS: ", "certificate required", "give cert=FILE and key=FILE")
	a.Cert, a.Key = authority, file(t, "key.pem", "none")
	refused(t, a, "cert "+authority+" and key ", "PEM")
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	fatal.If(t, os.WriteFile(a.Key, text, 0o600))
	l := open(t, a)
	if marks, err := l.Marks(context.Background()); err != nil || len(marks) != 1 {
		t.Errorf("%v: %v", marks, err)
	}
	a.Cert, a.Key = file(t, "other.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate[0]}))), file(t, "other.key", "")
	secret, err = x509.MarshalPKCS8PrivateKey(server.PrivateKey)
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(a.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	refused(t, a, "TLS: ", "certificate", "give cert=FILE and key=FILE")
	fatal.If(t, os.WriteFile(a.Key, nil, 0o600))
	refused(t, a, "cert "+a.Cert)
}

// web answers every connection as a web server without TLS does.
func web(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 64))
			c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func TestSecuredTopic(t *testing.T) {
	for _, mechanism := range []string{saslPlain, saslSHA256, saslSHA512} {
		t.Run(mechanism, func(t *testing.T) {
			_, a := secured(t, mechanism)
			parsed, err := ParseAddress(a.String())
			if err != nil || strings.Contains(a.String(), "word") {
				t.Fatalf("%s: %v", a, err)
			}
			l := open(t, parsed)
			marks, err := l.Marks(context.Background())
			if err != nil || len(marks) != 1 || marks[0].High != 3 {
				t.Fatalf("marks %v: %v", marks, err)
			}
			if got := readRange(t, l, Range{0, 0, 3}); len(got) != 3 || got[2] != "0-2" {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestRefusedByABroker: a client that the broker rejects gets the reason and advice at
// once, because retrying does not help.
func TestRefusedByABroker(t *testing.T) {
	c, a := secured(t, saslSHA512)
	a.Timeout = time.Minute // none of these waits for it
	wrong := a
	wrong.Credentials = file(t, "other", "username=ctr\npassword=hunter2\n")
	authenticate := kmsg.NewPtrSASLAuthenticateRequest().Key()
	c.ControlKey(authenticate, func(r kmsg.Request) (kmsg.Response, error, bool) { // as Kafka answers; kfake closes the connection
		c.KeepControl()
		resp := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return resp, nil, true
	})
	refused(t, wrong, "SCRAM-SHA-512: SASL_AUTHENTICATION_FAILED", "check user and password in ")

	stranger := a
	stranger.CA = ""
	refused(t, stranger, "TLS: ", "certificate", "give ca=FILE")

	refused(t, Address{Brokers: []string{web(t)}, Topic: "clicks", Timeout: a.Timeout, TLS: true}, "TLS: ", "does not use TLS")

	none := a
	none.Credentials += "-none"
	refused(t, none, "credentials: open ", "no such file")
	none = a
	none.CA = a.Credentials
	refused(t, none, "ca: ", "holds no certificate in PEM")
}

// TestBrokerHangsUp: a broker that closes connections may be starting, so it is retried
// until the patience ends; the error then names possible causes.
func TestBrokerHangsUp(t *testing.T) {
	_, a := secured(t, saslPlain)
	a.Credentials = file(t, "other", "username=ctr\npassword=hunter2\n")
	patient.Try(t, 300*time.Millisecond, func(limit time.Duration) error {
		a.Timeout = limit
		return refusal(a, fmt.Sprintf("PLAIN: given up after %v", limit), "check user and password in "+a.Credentials)
	})
}

// TestNewCredentials: later connections use the replaced file.
func TestNewCredentials(t *testing.T) {
	_, a := secured(t, saslSHA256)
	good, err := os.ReadFile(a.Credentials)
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(a.Credentials, []byte("username=old\npassword=old"), 0o600))
	l := open(t, a)
	fatal.If(t, os.WriteFile(a.Credentials, good, 0o600))
	if _, err := l.Marks(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestOAuth: a token is in the file, or comes from an authorization server.
func TestOAuth(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "kafka" || id != "ctr" || secret != url.QueryEscape("a b") {
			http.Error(w, `{"error": "hunter2"}`, http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"access_token": "issued", "token_type": "Bearer"}`)
	}))
	t.Cleanup(server.Close)
	client := "token_url=" + server.URL + "\nclient_id=ctr\nscope=kafka\nclient_secret="
	for _, x := range []struct{ file, token string }{{"token=given\n", "given"}, {client + "a b\n", "issued"}, {client + "hunter2\n", ""}} {
		c, a := broker(t, 1)
		c.ControlKey(kmsg.NewPtrSASLHandshakeRequest().Key(), func(r kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			resp := r.ResponseKind().(*kmsg.SASLHandshakeResponse)
			resp.SupportedMechanisms = []string{r.(*kmsg.SASLHandshakeRequest).Mechanism}
			return resp, nil, true
		})
		var sent atomic.Value
		c.ControlKey(kmsg.NewPtrSASLAuthenticateRequest().Key(), func(r kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			sent.Store(string(r.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes))
			return r.ResponseKind(), nil, true
		})
		a.SASL, a.Credentials, a.Timeout = saslOAuth, file(t, "oauth", x.file), time.Minute
		if x.token == "" {
			refused(t, a, "issues no token: 401 Unauthorized; check client_id")
			continue
		}
		_, err := open(t, a).Marks(t.Context())
		if got, _ := sent.Load().(string); err != nil || !strings.Contains(got, "auth=Bearer "+x.token+"\x01") {
			t.Errorf("%s: sent %q, %v", x.token, got, err)
		}
	}
	for in, want := range map[string]string{
		"token=a\ntoken_url=https://b\nclient_id=c\nclient_secret=d": "both are given", "client_id=c": "is missing", "username=a": "line 1 is neither",
		"token_url=b\nclient_id=c\nclient_secret=d": "is no URL",
	} {
		if _, err := parseOAuth([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", in, err, want)
		}
	}
}

func TestCredentials(t *testing.T) {
	for _, x := range []struct{ in, user, password, want string }{
		{"username=a\npassword=b=c ", "a", "b=c ", ""},
		{" # x\n password =b\r\nusername=a\r\n", "a", "b", ""},
		{"username=a\n", "", "", "user or password is missing"},
		{"username=a\npassword=\n", "", "", "user or password is missing"},
		{"username=a\nhunter2\n", "", "", "line 2 is neither"},
		{"password=a\npassword=b\n", "", "", "line 2 repeats a key"},
	} {
		c, err := parseCredentials([]byte(x.in))
		if c["username"] != x.user || c["password"] != x.password || fmt.Sprint(err) != x.want && err != nil || err == nil && x.want != "" {
			t.Errorf("%q: %q %q, %v; want %q", x.in, c["username"], c["password"], err, x.want)
		}
	}
	if _, err := readCredentials(file(t, "long", strings.Repeat("#", maxSecurity+1))); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a long file: %v", err)
	}
}

// TestSecretsInAddresses: the error for a password in an address names the right place for
// it, without showing it.
func TestSecretsInAddresses(t *testing.T) {
	for _, in := range []string{
		"kafka://ctr:hunter2@a:1/c", "kafka://ctr:hun/ter2@a:1/c", "kafka://ctr:hunter2?@a:1/c", "kafka://ctr:hunter2#@a:1/c", "kafka://c:hunter2@b:1,a:1/c?tls=true",
		"kafka://a:1/c?password=hunter2", "kafka://a:1/c?sasl.password=hunter2%zz", "kafka://a:1/c?password=hunter2;x", "Kafka://a:1/c?password=hunter2",
	} {
		_, err := ParseAddress(in)
		if err == nil || strings.Contains(err.Error(), "hun") {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func FuzzCredentials(f *testing.F) {
	for _, s := range []string{"username=a\npassword=b", "#\r\n\r\npassword==\nusername = \n", "username"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseCredentials(b)
		if (err == nil) != (c["username"] != "" && c["password"] != "") {
			t.Errorf("%q: %v", b, err)
		}
	})
}
