package control

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/rank"
)

// TestHostsAnswer: the socket option limits how long a coordinator's host may leave
// heartbeats unacknowledged.
func TestHostsAnswer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	fatal.If(t, err)
	defer conn.Close()
	answeredWithin(conn.(*net.TCPConn), 7*time.Second)
	sock, err := conn.(*net.TCPConn).SyscallConn()
	fatal.If(t, err)
	var ms int
	var fault error
	if err := sock.Control(func(fd uintptr) { ms, fault = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) }); err != nil || fault != nil || ms != 7000 {
		t.Errorf("%d ms, %v, %v", ms, err, fault)
	}
	if !local(conn) || local(&ended{}) {
		t.Error("the wrong host is reported")
	}
}

// TestHostThatNoLongerAnswersIsReported: a rank without a coordinator reports whether the other
// host is lost or only the coordinator.
func TestHostThatNoLongerAnswersIsReported(t *testing.T) {
	const silent = ": its host has not answered for 6s, so it or the network to it is down"
	for fault, told := range map[error]bool{syscall.ETIMEDOUT: true, syscall.EHOSTUNREACH: true, syscall.ECONNRESET: false, io.EOF: false} {
		for name, call := range map[string]func(*begun) (int, error){
			"read":  func(b *begun) (int, error) { return b.Read(make([]byte, 1)) },
			"write": func(b *begun) (int, error) { return b.Write(make([]byte, 1)) },
		} {
			b := &begun{Conn: &ended{fault: fault}}
			if _, err := call(b); err == nil {
				t.Fatal("no error")
			}
			s := &Session{world: rank.World{Rank: 1, Size: 2}, link: &link{conn: b}}
			if v := s.gone(); v.Kind != rank.Gone || strings.HasSuffix(v.Cause, silent) != told {
				t.Errorf("%s, %v: %v", name, fault, v)
			}
		}
	}
}

// TestControlPacketsAreSmall: both sides of the connection to a coordinator send small
// packets, even on a network with large ones, such as the loopback device.
func TestControlPacketsAreSmall(t *testing.T) {
	ln := listen(t)
	defer ln.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		if conn, err := ln.Accept(); err == nil {
			accepted <- conn
		}
		ln.Close()
	}()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go try(ctx, func() (string, rank.Key, error) { return ln.Addr().String(), rank.NewKey(), nil })
	conn := <-accepted
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	fatal.If(t, err)
	var size int
	if err := raw.Control(func(fd uintptr) { size, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG) }); err != nil || size > smallSegment {
		t.Errorf("the coordinator sends segments of %d bytes, want at most %d (%v)", size, smallSegment, err)
	}
}

// ended is a connection to another host that has ended with an error.
type ended struct {
	net.Conn
	fault error
}

func (e *ended) Read([]byte) (int, error) { return 0, fmt.Errorf("read tcp: %w", e.fault) }

func (e *ended) Write([]byte) (int, error) { return 0, fmt.Errorf("write tcp: %w", e.fault) }

func (*ended) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 1} }
