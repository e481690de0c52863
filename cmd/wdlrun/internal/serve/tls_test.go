package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// sslConfig returns an SSLConfig with a new certificate of this serial number.
func sslConfig(t *testing.T, serial int64) string {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatal.If(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	fatal.If(t, err)
	b, err := x509.MarshalECPrivateKey(k)
	fatal.If(t, err)
	text := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return fmt.Sprintf("server_key: %q server_cert: %q", text("EC PRIVATE KEY", b), text("CERTIFICATE", der))
}

// TestCertificatesAreReadAgain: a changed file is used within a second; one that cannot be used is
// reported once, and the previous certificate stays.
func TestCertificatesAreReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ssl.config")
	write := func(text string) { fatal.If(t, os.WriteFile(path, []byte(text), 0o600)) }
	var faults []string
	f := &tlsFile{path: path, report: func(err error) { faults = append(faults, err.Error()) }}
	write(sslConfig(t, 1))
	first, err := f.read()
	fatal.If(t, err)
	f.now = first
	now := time.Now()
	serial := func(after time.Duration) int64 {
		now = now.Add(after)
		leaf, err := x509.ParseCertificate(f.current(now).Certificates[0].Certificate[0])
		fatal.If(t, err)
		return leaf.SerialNumber.Int64()
	}
	if got := serial(0); got != 1 {
		t.Errorf("serial %d", got)
	}
	write(sslConfig(t, 2) + " ") // of another size, whatever the resolution of the clock
	if got := serial(tlsEvery / 2); got != 1 {
		t.Errorf("serial %d within a second", got)
	}
	if got := serial(tlsEvery); got != 2 {
		t.Errorf("serial %d after a change", got)
	}
	write("server_key: 'x'")
	for range 3 {
		if got := serial(tlsEvery); got != 2 {
			t.Errorf("serial %d after a fault", got)
		}
	}
	fatal.If(t, os.Remove(path))
	if got := serial(tlsEvery); got != 2 || len(faults) != 2 || !strings.Contains(faults[0], "-ssl_config_file "+path) {
		t.Errorf("serial %d, faults %q", got, faults)
	}
	write(sslConfig(t, 3))
	if got := serial(tlsEvery); got != 3 {
		t.Errorf("serial %d after the fault", got)
	}
}
