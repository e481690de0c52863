package rank

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// ErrWrongKey is returned by a TLS handshake with a peer of another key.
var ErrWrongKey = errors.New("rank: tls: the other side does not hold this job's key")

// TLS returns the configuration of both sides of a link between holders of the key. It is
// mutual TLS 1.3 in which each side presents the same self-signed certificate and accepts
// no other.
//
// The certificate's Ed25519 key is derived from the job's key, so every member
// computes it and no other process can. No authority, name or date is checked: TLS
// proves that the peer holds the private key, and comparing its public key with
// one's own proves that it is the job's. A listener's answer to a stranger is a
// failed handshake; a caller learns the same from a listener of another job.
func (k Key) TLS() (*tls.Config, error) {
	if k == (Key{}) {
		return nil, errors.New("rank: tls: no job key is set")
	}
	private := ed25519.NewKeyFromSeed(k.Derive("control tls"))
	public := private.Public().(ed25519.PublicKey)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "wdlrun job"},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(nil, template, template, public, private)
	if err != nil {
		return nil, fmt.Errorf("rank: tls: certificate: %w", err)
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // replaced by VerifyConnection, which is stricter
		SessionTicketsDisabled: true, // each connection proves the key itself
		NextProtos:             []string{"h2"},
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) != 1 {
				return ErrWrongKey
			}
			got, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
			if !ok || !public.Equal(got) {
				return ErrWrongKey
			}
			return nil
		},
	}, nil
}
