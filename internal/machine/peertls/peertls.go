// Package peertls encrypts the links of a group: TLS 1.3 with libp2p's handshake, in which
// each side proves a peer ID, on the plain connection.
//
// The identity of a rank is an Ed25519 key derived from the job's secret and the rank. So
// every member can compute the peer ID of every rank, and no other process can. Each side
// of a link accepts only the expected peer.
//
// See the TLS handshake of the libp2p specifications
// (https://github.com/libp2p/specs/blob/master/tls/tls.md).
package peertls

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
)

// SecretSize is the length of a job's secret in bytes.
const SecretSize = 32

// ErrWrongPeer is the error of a link whose other side is not the expected rank of the same
// job.
var ErrWrongPeer = errors.New("the other side is not the expected rank of this job")

// Rank is one rank's identity in its job. It is safe for concurrent use.
type Rank struct {
	rank, size int
	secret     []byte
	identity   *libp2ptls.Identity
}

// New returns the identity of a rank of size ranks that share a secret. It does not retain
// secret.
func New(secret []byte, rank, size int) (*Rank, error) {
	if len(secret) != SecretSize {
		return nil, fmt.Errorf("peertls: secret of %d bytes, want %d", len(secret), SecretSize)
	}
	if rank < 0 || rank >= size {
		return nil, fmt.Errorf("peertls: rank %d of %d", rank, size)
	}
	r := &Rank{rank: rank, size: size, secret: bytes.Clone(secret)}
	key, err := r.key(rank)
	if err == nil {
		r.identity, err = libp2ptls.NewIdentity(key)
	}
	if err != nil {
		return nil, fmt.Errorf("peertls: rank %d: %w", rank, err)
	}
	return r, nil
}

// key returns the private key of a rank of the job.
func (r *Rank) key(rank int) (crypto.PrivKey, error) {
	seed, err := hkdf.Key(sha256.New, r.secret, nil, fmt.Sprintf("wdlrun peer %d of %d", rank, r.size), 32)
	if err != nil {
		return nil, err
	}
	key, _, err := crypto.GenerateEd25519Key(bytes.NewReader(seed))
	return key, err
}

// ID returns the peer ID of a rank of the job.
func (r *Rank) ID(rank int) (peer.ID, error) {
	if rank < 0 || rank >= r.size {
		return "", fmt.Errorf("peertls: rank %d of %d", rank, r.size)
	}
	key, err := r.key(rank)
	if err != nil {
		return "", fmt.Errorf("peertls: rank %d: %w", rank, err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return "", fmt.Errorf("peertls: rank %d: %w", rank, err)
	}
	return id, nil
}

// Secure encrypts conn, whose other end is rank other, and returns the encrypted
// connection. server is true on the side that was dialed. The caller sets deadlines, and
// closes conn after an error.
//
// It returns when both sides have accepted each other. In TLS a client finishes before the
// server has verified it, so the server then sends one byte.
func (r *Rank) Secure(conn net.Conn, other int, server bool) (net.Conn, error) {
	id, err := r.ID(other)
	if err != nil {
		return nil, err
	}
	cfg, _ := r.identity.ConfigForPeer(id)
	cfg.DynamicRecordSizingDisabled = true // for throughput rather than a fast first byte
	c := tls.Client(conn, cfg)
	if server {
		c = tls.Server(conn, cfg)
	}
	if err := c.Handshake(); err != nil {
		return nil, fmt.Errorf("peertls: rank %d with rank %d: %w", r.rank, other, explain(err))
	}
	var welcome [1]byte
	if server {
		_, err = c.Write(welcome[:])
	} else {
		_, err = io.ReadFull(c, welcome[:])
	}
	if err != nil {
		return nil, fmt.Errorf("peertls: rank %d with rank %d: no welcome: %w", r.rank, other, explain(err))
	}
	return c, nil
}

// explain adds the usual causes to an error.
func explain(err error) error {
	var other sec.ErrPeerIDMismatch
	var alert tls.AlertError
	switch {
	case errors.As(err, &other):
		return fmt.Errorf("%w: it is peer %v, not %v", ErrWrongPeer, other.Actual, other.Expected)
	case errors.As(err, &alert):
		return fmt.Errorf("%w: it rejected this side: %w", ErrWrongPeer, err)
	}
	return err
}
