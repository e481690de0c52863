package peertls

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(patient.Settled(m)) }

func secret(b byte) []byte { return bytes.Repeat([]byte{b}, SecretSize) }

func identity(t testing.TB, key []byte, rank, size int) *Rank {
	t.Helper()
	r, err := New(key, rank, size)
	fatal.If(t, err)
	return r
}

// pair returns both ends of a connection, which close with the test.
func pair(t testing.TB) (dialed, accepted net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer ln.Close()
	if dialed, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if accepted, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{dialed, accepted} {
		c.SetDeadline(time.Now().Add(patient.Longest))
		t.Cleanup(func() { c.Close() })
	}
	return dialed, accepted
}

// meet secures a link between two ranks, each with the rank that it expects.
func meet(t testing.TB, client *Rank, server *Rank, clientWants, serverWants int) (c, s net.Conn, cerr, serr error) {
	t.Helper()
	a, b := pair(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if s, serr = server.Secure(b, serverWants, true); serr != nil {
			b.Close()
		}
	}()
	if c, cerr = client.Secure(a, clientWants, false); cerr != nil {
		a.Close()
	}
	<-done
	return c, s, cerr, serr
}

func TestRanksOfAJobMeet(t *testing.T) {
	c, s, cerr, serr := meet(t, identity(t, secret(1), 2, 3), identity(t, secret(1), 0, 3), 0, 2)
	fatal.If(t, errors.Join(cerr, serr))
	if v := c.(*tls.Conn).ConnectionState().Version; v != tls.VersionTLS13 {
		t.Errorf("TLS version %x", v)
	}
	go c.Write([]byte("gradient"))
	got := make([]byte, 8)
	if _, err := io.ReadFull(s, got); err != nil || string(got) != "gradient" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestOthersAreRefusedByBothSides(t *testing.T) {
	right := identity(t, secret(1), 0, 3)
	for _, k := range []struct {
		name                     string
		client                   *Rank
		clientWants, serverWants int
	}{
		{"another key", identity(t, secret(2), 2, 3), 0, 2},
		{"another roster", identity(t, secret(1), 2, 4), 0, 2},
		{"another rank of the job", identity(t, secret(1), 1, 3), 0, 2},
	} {
		_, _, cerr, serr := meet(t, k.client, right, k.clientWants, k.serverWants)
		if cerr == nil || serr == nil {
			t.Errorf("%s: client %v, server %v", k.name, cerr, serr)
		}
		if !errors.Is(cerr, ErrWrongPeer) && !errors.Is(serr, ErrWrongPeer) {
			t.Errorf("%s: neither error names a stranger: client %v, server %v", k.name, cerr, serr)
		}
	}
}

// TestNoHandshake: the other side sends something other than a handshake of libp2p.
func TestNoHandshake(t *testing.T) {
	self := identity(t, secret(1), 0, 2)
	old := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}
	anonymous := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"libp2p"}}
	for name, say := range map[string]func(net.Conn){
		"silence, then end": func(c net.Conn) { c.Close() },
		"garbage":           func(c net.Conn) { c.Write(bytes.Repeat([]byte("GET / "), 100)); c.Close() },
		"truncated hello":   func(c net.Conn) { c.Write([]byte{22, 3, 1, 2, 0, 1, 0, 1}); c.Close() },
		"oversized record":  func(c net.Conn) { c.Write([]byte{22, 3, 1, 255, 255}); io.Copy(io.Discard, c) },
		"TLS 1.2":           func(c net.Conn) { tls.Client(c, old).Handshake(); c.Close() },
		"no certificate":    func(c net.Conn) { tls.Client(c, anonymous).Handshake(); c.Close() },
	} {
		a, b := pair(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			say(a)
		}()
		if c, err := self.Secure(b, 1, true); err == nil {
			t.Errorf("%s: accepted, %v", name, c)
		}
		b.Close()
		<-done
	}
}

func TestIdentitiesAreTheJobsAlone(t *testing.T) {
	seen := map[string]string{}
	for _, k := range []struct {
		name string
		r    *Rank
	}{{"job 1", identity(t, secret(1), 0, 3)}, {"job 2", identity(t, secret(2), 0, 3)}, {"job 1 of two", identity(t, secret(1), 0, 2)}} {
		for rank := range k.r.size {
			id, err := k.r.ID(rank)
			fatal.If(t, err)
			if other, ok := seen[string(id)]; ok {
				t.Errorf("rank %d of %s has the identity of %s", rank, k.name, other)
			}
			seen[string(id)] = k.name
		}
	}
	a, _ := identity(t, secret(1), 0, 3).ID(2)
	b, _ := identity(t, secret(1), 1, 3).ID(2)
	if a != b {
		t.Error("ranks disagree about the identity of rank 2")
	}
}

func TestWrongUse(t *testing.T) {
	if _, err := New(make([]byte, 31), 0, 2); err == nil {
		t.Error("a short secret is accepted")
	}
	if _, err := New(secret(1), 2, 2); err == nil {
		t.Error("rank 2 of 2 is accepted")
	}
	if _, err := identity(t, secret(1), 0, 2).Secure(nil, 2, true); err == nil {
		t.Error("a link with rank 2 of 2 is accepted")
	}
}
