package tcp

import (
	"fmt"
	"net"
	"runtime"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
)

// BenchmarkRound is a round of two ranks, each of which sends and receives: an
// Exchange, also over two streams and over encrypted links, compared with the bare system
// calls for as many bytes, which are its floor.
func BenchmarkRound(b *testing.B) {
	for _, n := range []int{8, 16 << 10, 256 << 10, 4 << 20} {
		b.Run(fmt.Sprintf("bytes=%d/exchange", n), func(b *testing.B) { benchExchange(b, n, Config{}) })
		b.Run(fmt.Sprintf("bytes=%d/streams", n), func(b *testing.B) { benchExchange(b, n, Config{Streams: 2}) })
		b.Run(fmt.Sprintf("bytes=%d/secured", n), func(b *testing.B) { benchExchange(b, n, Config{}, withTLS(b, 1, 0, 2), withTLS(b, 1, 1, 2)) })
		b.Run(fmt.Sprintf("bytes=%d/sockets", n), func(b *testing.B) { benchSockets(b, n) })
	}
}

func benchExchange(b *testing.B, n int, cfg Config, secure ...securer) {
	ts := groupOf(b, 2, cfg, secure...)
	defer closeAll(ts)
	b.SetBytes(int64(n))
	both(b, func(r int) error {
		send, recv := make([]byte, n), make([]byte, n)
		for i := range b.N {
			tag := collective.Tag{Call: collective.CallAllToAll, Seq: uint64(i + 1)}
			if err := ts[r].Exchange(tag, 1-r, send, 1-r, recv); err != nil {
				return err
			}
		}
		return nil
	})
}

// BenchmarkLink moves messages one way over a link: plain, and encrypted over one
// stream and two.
func BenchmarkLink(b *testing.B) {
	const n = 1 << 20
	secure := []securer{withTLS(b, 1, 0, 2), withTLS(b, 1, 1, 2)}
	for _, k := range []struct {
		name    string
		streams int
		secure  []securer
	}{{"plain", 1, nil}, {"secured", 1, secure}, {"secured, two streams", 2, secure}} {
		b.Run(k.name, func(b *testing.B) {
			ts := groupOf(b, 2, Config{Streams: k.streams}, k.secure...)
			defer closeAll(ts)
			b.SetBytes(n)
			both(b, func(r int) error {
				x := make([]byte, n)
				for i := range b.N {
					tag := collective.Tag{Call: collective.CallBroadcast, Seq: uint64(i + 1)}
					to, from, send, recv := 1, -1, x, []byte(nil)
					if r == 1 {
						to, from, send, recv = -1, 0, nil, x
					}
					if err := ts[r].Exchange(tag, to, send, from, recv); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

func benchSockets(b *testing.B, n int) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	dialed, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	accepted, err := ln.Accept()
	if err != nil {
		b.Fatal(err)
	}
	var ends [2]*socket
	for i, conn := range []net.Conn{dialed, accepted} {
		setOptions(conn.(*net.TCPConn), linkID{})
		if ends[i], err = takeSocket(conn); err != nil {
			b.Fatal(err)
		}
		defer ends[i].close()
	}
	b.SetBytes(int64(n))
	both(b, func(r int) error {
		send, recv := make([]byte, n+frameSize), make([]byte, n+frameSize)
		for range b.N {
			for out, in := send, recv; len(out)+len(in) > 0; {
				sent, received := 0, 0
				var err error
				if len(out) > 0 {
					if sent, err = ends[r].send(segment(out, 0), nil); err != nil {
						return err
					}
				}
				if len(in) > 0 {
					if received, err = ends[r].receive(segment(in, 0), nil); err != nil {
						return err
					}
				}
				out, in = out[max(sent, 0):], in[received:]
				if sent <= 0 && received == 0 {
					runtime.Gosched()
				}
			}
		}
		return nil
	})
}

// both runs two ranks at once.
func both(b *testing.B, rank func(r int) error) {
	errs := make(chan error)
	b.ResetTimer()
	for r := range 2 {
		go func() { errs <- rank(r) }()
	}
	for range 2 {
		if err := <-errs; err != nil {
			b.Error(err)
		}
	}
}
