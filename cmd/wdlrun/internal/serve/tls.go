package serve

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/serve"
	"github.com/wdlrun/wdlrun/internal/serve/modelconfig"
)

// serveTLS reads an SSLConfig; nil without a file. When the file changes, new connections use it.
func (p serving) serveTLS(file string) (*tls.Config, error) {
	if file == "" {
		return nil, nil
	}
	f := &tlsFile{path: file, report: func(err error) { fmt.Fprintf(p.Stderr, "wdlrun: %v; the previous certificates stay in use\n", err) }}
	first, err := f.read()
	if err != nil {
		return nil, err
	}
	f.now = first
	c := first.Clone()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.current(time.Now()), nil }
	return c, nil
}

// tlsFile is an SSLConfig that is read again when its file has changed.
type tlsFile struct {
	path   string
	report func(error)

	mu      sync.Mutex
	now     *tls.Config
	seen    string // state of the file when it was read last
	checked time.Time
}

// tlsEvery is the minimum time between two looks at the file.
const tlsEvery = time.Second

// current returns the configuration of a new connection. A file that cannot be used is reported
// once, and the previous configuration stays.
func (f *tlsFile) current(at time.Time) *tls.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at.Sub(f.checked) < tlsEvery {
		return f.now
	}
	f.checked = at
	if f.state() == f.seen {
		return f.now
	}
	if c, err := f.read(); err != nil {
		f.report(err)
	} else {
		f.now = c
	}
	return f.now
}

func (f *tlsFile) state() string {
	st, err := os.Stat(f.path)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(st.ModTime().UnixNano(), st.Size())
}

func (f *tlsFile) read() (*tls.Config, error) {
	f.seen = f.state() // before the contents
	text, err := regular.ReadFile(f.path, modelconfig.MaxBytes)
	var c *tls.Config
	if err == nil {
		c, err = newTLS(text)
	}
	if err != nil {
		return nil, fmt.Errorf("serve: -ssl_config_file %s: %w", f.path, err)
	}
	return c, nil
}

func newTLS(text []byte) (*tls.Config, error) {
	t, err := modelconfig.ParseTLS(text)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair([]byte(t.Certificate), []byte(t.Key))
	if err != nil {
		return nil, fmt.Errorf("server_key and server_cert: %w", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if t.ClientCA != "" {
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM([]byte(t.ClientCA)) {
			return nil, errors.New("custom_ca holds no PEM certificate")
		}
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	if t.Verify {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

const maxToken = 4 << 10 // bytes of -admin-token-file

// adminOf returns the configuration of -admin; nil without the flag.
func adminOf(c *cli.Context) (*serve.Admin, error) {
	address, file := c.String("admin"), c.String("admin-token-file")
	if address == "" {
		if file != "" {
			return nil, errors.New("serve: -admin-token-file needs -admin ADDRESS, such as 127.0.0.1:8502")
		}
		return nil, nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("serve: -admin %q: expected HOST:PORT, such as 127.0.0.1:8502: %w", address, err)
	}
	ip := net.ParseIP(host)
	if file == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("serve: -admin %s is open to other machines: give -admin-token-file FILE, or an address of this machine such as 127.0.0.1:8502", address)
	}
	if file == "" {
		return &serve.Admin{Token: func() (string, error) { return "", nil }}, nil
	}
	read := func() (string, error) {
		b, err := regular.ReadFile(file, maxToken)
		token := strings.TrimSpace(string(b))
		if err == nil && token == "" {
			err = errors.New("the file is empty")
		}
		if err != nil {
			return "", fmt.Errorf("serve: -admin-token-file %s: %w", file, err)
		}
		return token, nil
	}
	_, err = read()
	return &serve.Admin{Token: read}, err
}

// serving is one run of the command serve.
type serving struct {
	*command.Program
	c *cli.Context
}
