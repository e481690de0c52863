package kafka

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// Mechanisms of SASL: RFC 4616, RFC 5802 with the hashes of RFC 7677, and RFC 7628.
const (
	saslPlain  = "plain"
	saslSHA256 = "scram-sha-256"
	saslSHA512 = "scram-sha-512"
	saslOAuth  = "oauthbearer"
)

const maxSecurity = 1 << 20 // bytes of a file of credentials or authorities

// security returns the options for TLS and SASL.
func (a Address) security() (options []kgo.Opt, err error) {
	if a.TLS {
		c, err := TLSConfig(a.CA, a.Cert, a.Key)
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(c))
	}
	if a.SASL == "" {
		return options, nil
	}
	if a.SASL == saslOAuth {
		_, err = readOAuth(a.Credentials)
	} else {
		_, err = readCredentials(a.Credentials)
	}
	if err != nil { // report it now, not at the first request
		return nil, err
	}
	return append(options, kgo.SASL(a.mechanism())), nil
}

// TLSConfig returns the settings of TLS with the authorities of a file and a client certificate, which
// may be "". The files of the certificate are read again at each handshake: it may be replaced while
// a training runs.
func TLSConfig(ca, cert, key string) (c *tls.Config, err error) {
	c = &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		if c.RootCAs, err = readAuthorities(ca); err != nil {
			return nil, err
		}
	}
	if cert == "" {
		return c, nil
	}
	if _, err := readCertificate(cert, key); err != nil { // report it now, not at the first request
		return nil, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return readCertificate(cert, key)
	}
	return c, nil
}

func readCertificate(cert, key string) (*tls.Certificate, error) {
	chain, err := regular.ReadFile(cert, maxSecurity)
	if err != nil {
		return nil, final{fmt.Errorf("cert: %w", err)}
	}
	secret, err := regular.ReadFile(key, maxSecurity)
	if err != nil {
		return nil, final{fmt.Errorf("key: %w", err)}
	}
	pair, err := tls.X509KeyPair(chain, secret)
	if err != nil {
		return nil, final{fmt.Errorf("cert %s and key %s: %w", cert, key, err)}
	}
	return &pair, nil
}

// ReadCredentials reads user and password from a file.
func ReadCredentials(path string) (user, password string, err error) {
	c, err := readCredentials(path)
	return c.user, c.password, err
}

// mechanism reads the credentials at each handshake, because they may be replaced while a
// training runs.
func (a Address) mechanism() sasl.Mechanism {
	challenge := func(context.Context) (scram.Auth, error) {
		c, err := readCredentials(a.Credentials)
		return scram.Auth{User: c.user, Pass: c.password}, err
	}
	switch a.SASL {
	case saslSHA256:
		return scram.Sha256(challenge)
	case saslSHA512:
		return scram.Sha512(challenge)
	case saslOAuth:
		return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
			c, err := readOAuth(a.Credentials)
			if err == nil && c["token"] == "" {
				c["token"], err = grant(ctx, c)
			}
			return oauth.Auth{Token: c["token"]}, err
		})
	}
	return plain.Plain(func(context.Context) (plain.Auth, error) {
		c, err := readCredentials(a.Credentials)
		return plain.Auth{User: c.user, Pass: c.password}, err
	})
}

// credentials are a user and a password. They are passed only to the mechanism.
type credentials struct{ user, password string }

func readCredentials(path string) (credentials, error) {
	c, err := readPairs(path, parseCredentials)
	if err != nil {
		err = fmt.Errorf("%w; the file has the lines username=NAME and password=SECRET", err)
	}
	return credentials{c["username"], c["password"]}, err
}

// readPairs reads a file of credentials.
func readPairs(path string, parse func(b []byte) (map[string]string, error)) (map[string]string, error) {
	b, err := regular.ReadFile(path, maxSecurity)
	if err != nil {
		return nil, final{fmt.Errorf("credentials: %w", err)}
	}
	c, err := parse(b)
	if err != nil {
		return nil, final{fmt.Errorf("credentials: %s: %w", path, err)}
	}
	return c, nil
}

func parseCredentials(b []byte) (map[string]string, error) {
	c, err := parsePairs(b, "username", "password")
	if err == nil && (c["username"] == "" || c["password"] == "") {
		return nil, errors.New("user or password is missing")
	}
	return c, err
}

// parsePairs parses lines KEY=VALUE with some keys. A value extends to the end of the line, because
// a password may contain blanks. Blank lines and lines that begin with # are skipped.
// Errors contain line numbers but no contents.
func parsePairs(b []byte, keys ...string) (map[string]string, error) {
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, maxSecurity+1)
	c := map[string]string{}
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if t := strings.TrimSpace(line); t == "" || t[0] == '#' {
			continue
		}
		k, v, _ := strings.Cut(line, "=")
		k = strings.TrimSpace(k)
		if !slices.Contains(keys, k) {
			return nil, fmt.Errorf("line %d is neither", n)
		}
		if c[k] != "" {
			return nil, fmt.Errorf("line %d repeats a key", n)
		}
		c[k] = v
	}
	return c, lines.Err()
}

func readAuthorities(path string) (*x509.CertPool, error) {
	b, err := regular.ReadFile(path, maxSecurity)
	if err != nil {
		return nil, fmt.Errorf("ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("ca: %s: the file holds no certificate in PEM", path)
	}
	return pool, nil
}

// aboutTLS reports whether TLS negotiation failed: trying again does not help.
func aboutTLS(err error) bool {
	var certificate *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	return errors.As(err, &certificate) || errors.As(err, &header) || isAlert(err)
}

// isAlert reports whether the broker ended a handshake of TLS.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// advise adds advice to an error of the handshake.
func (a Address) advise(err error) error {
	var certificate *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	var first *kgo.ErrFirstReadEOF
	name := strings.ToUpper(a.SASL)
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return fmt.Errorf("%s: %w; check user and password in %s, and that the user has credentials of this mechanism", name, err, a.Credentials)
	case errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		return fmt.Errorf("%s: %w; give in sasl= a mechanism of this port of the broker: plain, scram-sha-256, scram-sha-512, oauthbearer, or leave it out", name, err)
	case errors.As(err, &certificate):
		return fmt.Errorf("TLS: %w; give ca=FILE with the authority that signed the broker's certificate, and the broker's name as in the certificate", err)
	case isAlert(err):
		return fmt.Errorf("TLS: %w; give cert=FILE and key=FILE of a client certificate that the broker accepts", err)
	case errors.As(err, &header):
		return fmt.Errorf("TLS: %w; this port of the broker does not use TLS: leave tls and ca out, or give another port", err)
	case a.SASL != "" && (errors.Is(err, io.EOF) || errors.As(err, &first)):
		return fmt.Errorf("%s: %w; the broker closes connections: check user and password in %s, and whether this port needs tls=true", name, err, a.Credentials)
	case errors.As(err, &first):
		return fmt.Errorf("%w; this port of the broker may need tls=true or sasl=…", err)
	}
	return err
}
