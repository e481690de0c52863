package rank

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestKey: keys are random, can be formatted and parsed, and derive secrets that depend on the
// key and the purpose.
func TestKey(t *testing.T) {
	a, b := NewKey(), NewKey()
	if a == b || a == (Key{}) {
		t.Fatal("keys are not random")
	}
	back, err := ParseKey(a.Hex())
	if err != nil || back != a {
		t.Error(back, err)
	}
	for _, s := range []string{"", "ab", strings.Repeat("0", 64), strings.Repeat("z", 64), testKey + "0"} {
		if _, err := ParseKey(s); err == nil {
			t.Errorf("%q was accepted as a key", s)
		}
	}
	k := mustKey(testKey)
	if !bytes.Equal(k.Derive("bulk"), mustKey(testKey).Derive("bulk")) || len(k.Derive("bulk")) != 32 {
		t.Error("secrets derived for one purpose differ")
	}
	if bytes.Equal(k.Derive("bulk"), k.Derive("control")) || bytes.Equal(k.Derive("bulk"), a.Derive("bulk")) {
		t.Error("secrets derived for two purposes or from two keys are the same")
	}
}

// TestKeyIsNotPrinted: no format of a key or a World contains the secret.
func TestKeyIsNotPrinted(t *testing.T) {
	k := mustKey(testKey)
	w := World{Size: 1, Key: k}
	j, err := json.Marshal(w)
	fatal.If(t, err)
	raw := fmt.Sprint([32]byte(k)) // the bytes in decimal form
	for _, s := range []string{k.String(), fmt.Sprintf("%v %+v %#v %x %s %d", k, w, k, k, k, k), string(j)} {
		if strings.Contains(s, testKey[:16]) || strings.Contains(s, raw[1:40]) {
			t.Errorf("%q contains the secret", s)
		}
	}
}

// shake connects a client with one key to a server with another and returns the errors of both.
func shake(t *testing.T, client, server *tls.Config) (atClient, atServer error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer ln.Close()
	got := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			got <- err
			return
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patient.Longest))
		s := tls.Server(conn, server)
		if err := s.Handshake(); err != nil {
			got <- err
			return
		}
		_, err = s.Write([]byte("hi"))
		s.Close()
		got <- err
	}()
	conn, err := net.Dial("tcp", ln.Addr().String())
	fatal.If(t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patient.Longest))
	c := tls.Client(conn, client)
	if err = c.Handshake(); err == nil {
		_, err = io.ReadAll(c)
	}
	conn.Close()
	return err, <-got
}

// TestOnlyTheKeyConnects: a TLS connection needs the same key on both sides.
func TestOnlyTheKeyConnects(t *testing.T) {
	config := func(k Key) *tls.Config {
		c, err := k.TLS()
		fatal.If(t, err)
		return c
	}
	job, other := mustKey(testKey), NewKey()
	if c, s := shake(t, config(job), config(job)); c != nil || s != nil {
		t.Errorf("the same key: %v, %v", c, s)
	}
	if c, s := shake(t, config(other), config(job)); !errors.Is(c, ErrWrongKey) || s == nil {
		t.Errorf("a client of another key: %v, %v", c, s)
	}
	// A client that does not check the server's key is rejected by the server.
	careless := config(other)
	careless.VerifyConnection = nil
	if c, s := shake(t, careless, config(job)); c == nil || !errors.Is(s, ErrWrongKey) {
		t.Errorf("a careless stranger: %v, %v", c, s)
	}
	// A client with the right certificate but without its private key is also rejected.
	thief := config(other)
	thief.VerifyConnection = nil
	thief.Certificates[0].Certificate = config(job).Certificates[0].Certificate
	if c, s := shake(t, thief, config(job)); c == nil || s == nil {
		t.Errorf("a thief of the certificate: %v, %v", c, s)
	}
	none := config(job)
	none.Certificates = nil
	if c, s := shake(t, none, config(job)); c == nil || s == nil {
		t.Errorf("no certificate: %v, %v", c, s)
	}
	if _, err := (Key{}).TLS(); err == nil {
		t.Error("the zero key makes a configuration")
	}
}
