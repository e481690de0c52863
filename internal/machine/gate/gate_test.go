package gate

import (
	"net"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestGate: a gate closes its oldest unproven connection for a new one, and all of them with itself.
// It keeps connections that have proved the key.
func TestGate(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	g := New(ln, 2)
	defer g.Close()
	var dialed, accepted []net.Conn
	for i := range 5 {
		d, err := net.Dial("tcp", g.Addr().String())
		fatal.If(t, err)
		defer d.Close()
		a, err := g.Accept()
		fatal.If(t, err)
		defer a.Close()
		dialed, accepted = append(dialed, d), append(accepted, a)
		if i == 1 {
			a.(*Conn).Proved()
		}
	}
	for i, open := range []bool{false, true, false, true, true} {
		accepted[i].Write([]byte("x"))
		if _, err := dialed[i].Read(make([]byte, 1)); (err == nil) != open {
			t.Errorf("connection %d is open: %v, want %v", i, err == nil, open)
		}
	}
	accepted[3].Close()
	if len(g.unproven) != 1 {
		t.Errorf("%d unproven connections are kept, want the last", len(g.unproven))
	}
	g.Close()
	if _, err := dialed[4].Read(make([]byte, 1)); err == nil {
		t.Error("the last unproven connection is still open")
	}
	if _, err := accepted[1].Write([]byte("x")); err != nil {
		t.Errorf("the proved connection is closed: %v", err)
	}
}
