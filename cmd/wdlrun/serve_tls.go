package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/serve/modelconfig"
)

// serveTLS reads an SSLConfig; nil without a file.
func serveTLS(file string) (*tls.Config, error) {
	if file == "" {
		return nil, nil
	}
	text, err := regular.ReadFile(file, modelconfig.MaxBytes)
	var c *tls.Config
	if err == nil {
		c, err = newTLS(text)
	}
	if err != nil {
		return nil, fmt.Errorf("serve: -ssl_config_file %s: %w", file, err)
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
