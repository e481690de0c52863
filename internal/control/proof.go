package control

import (
	"net"

	"google.golang.org/grpc/credentials"

	"github.com/wdlrun/wdlrun/internal/machine/gate"
)

// proof wraps credentials and reports to the gate.Gate which connections have proved the key.
type proof struct {
	credentials.TransportCredentials
}

func (p proof) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := p.TransportCredentials.ServerHandshake(conn)
	if c, ok := conn.(*gate.Conn); ok && err == nil {
		c.Proved()
	}
	return secure, info, err
}

func (p proof) Clone() credentials.TransportCredentials {
	return proof{p.TransportCredentials.Clone()}
}
