package tcp

import (
	"testing"

	"github.com/wdlrun/wdlrun/collective"
)

// BenchmarkLink sends messages in one direction over a link: plain, and encrypted over one and
// two streams.
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

// both runs two ranks concurrently.
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
