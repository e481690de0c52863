package tcp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/machine/peertls"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// securer is a function for Config.Secure.
type securer func(conn net.Conn, peer int, server bool) (net.Conn, error)

// withTLS returns a Secure function for rank r of size ranks that share a secret.
func withTLS(t testing.TB, secret byte, r, size int) securer {
	id, err := peertls.New(bytes.Repeat([]byte{secret}, peertls.SecretSize), r, size)
	fatal.If(t, err)
	return id.Secure
}

// connectWith connects ranks, each with its own securer for its links. With the default timeout,
// 0, no rank waits for one that has given up.
func connectWith(t *testing.T, timeout time.Duration, secure ...securer) ([]*Transport, []error) {
	lns, peers := listen(t, len(secure))
	ts, errs := make([]*Transport, len(secure)), make([]error, len(secure))
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var wg sync.WaitGroup
	for i := range ts {
		cfg := Config{Rank: i, Peers: peers, Key: testKey, Secure: secure[i], Timeout: timeout}
		wg.Go(func() {
			if ts[i], errs[i] = lns[i].Connect(ctx, cfg); errs[i] != nil && timeout == 0 {
				cancel(errs[i])
			}
		})
	}
	wg.Wait()
	t.Cleanup(func() { closeAll(ts) })
	return ts, errs
}

// TestSecuredLinks: all links are encrypted, and calls and Abort work over them.
func TestSecuredLinks(t *testing.T) {
	ts, errs := connectWith(t, 0, withTLS(t, 1, 0, 3), withTLS(t, 1, 1, 3), withTLS(t, 1, 2, 3))
	fatal.If(t, errors.Join(errs...))
	sums := make([][]float32, len(ts))
	var wg sync.WaitGroup
	for r, tr := range ts {
		sums[r] = make([]float32, 300_000)
		for i := range sums[r] {
			sums[r][i] = float32(r + i%5)
		}
		wg.Go(func() {
			if err := collective.AllReduce(collective.New(tr), sums[r], collective.Sum); err != nil {
				t.Error(err)
			}
		})
		for _, p := range tr.peers {
			if p == nil {
				continue
			}
			for _, conn := range []net.Conn{p.control.conn.(*secured).Conn, p.data[0].conn, p.data[1].conn} {
				if c, ok := conn.(*tls.Conn); !ok || c.ConnectionState().Version != tls.VersionTLS13 {
					t.Errorf("rank %d has an unencrypted link with rank %d: %T", r, p.rank, conn)
				}
			}
		}
	}
	wg.Wait()
	for r := range sums {
		for i, v := range sums[r] {
			if want := float32(3 + 3*(i%5)); v != want {
				t.Fatalf("rank %d: element %d is %v, want %v", r, i, v, want)
			}
		}
	}
	cause := errors.New("disk full")
	ts[1].Abort(cause)
	err := collective.Barrier(collective.New(ts[2]))
	if who, ok := collective.Blamed(err); !ok || who != 1 || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("after the abort by rank 1: %v", err)
	}
}

// TestOneSideSecured: a rank with encryption and a rank without it do not connect, and the error
// states the reason.
func TestOneSideSecured(t *testing.T) {
	_, errs := connectWith(t, 0, nil, withTLS(t, 1, 1, 2))
	if err := errs[1]; err == nil || !strings.Contains(err.Error(), "choice of encryption") {
		t.Errorf("rank 1: %v", err)
	}
	if errs[0] == nil {
		t.Error("rank 0 connected")
	}
}

// TestSecuredByAnotherKey: ranks with different keys do not connect.
func TestSecuredByAnotherKey(t *testing.T) {
	patient.Try(t, 300*time.Millisecond, func(timeout time.Duration) error { // the ranks retry until this timeout
		_, errs := connectWith(t, timeout, withTLS(t, 1, 0, 2), withTLS(t, 2, 1, 2))
		for r, err := range errs {
			if err == nil {
				t.Errorf("rank %d connected", r)
			}
		}
		if err := errs[1]; err == nil || !strings.Contains(err.Error(), peertls.ErrWrongPeer.Error()) {
			return fmt.Errorf("rank 1: %w, rank 0: %w", err, errs[0])
		}
		return nil
	})
}

// TestHelloAnnouncesSecuredLinks: the hello contains a flag for encrypted links.
func TestHelloAnnouncesSecuredLinks(t *testing.T) {
	h := hello{link: 1, from: 2, to: 1, size: 3, channels: 2, streams: 3, secured: true, generation: 9}
	got, err := parseHello([helloSize]byte(h.append(nil)))
	if err != nil || got != h {
		t.Errorf("%+v %v, want %+v", got, err, h)
	}
	if b := h.append(nil); !bytes.Equal(b[22:24], []byte{1, 3}) {
		t.Errorf("flags of the hello: % x", b[22:24])
	}
}
