package tcp

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/colltest"
)

var testKey = bytes.Repeat([]byte{7}, KeySize)

// group connects size ranks of this process over loopback.
func group(t testing.TB, size int) []*Transport {
	t.Helper()
	lns, peers := listen(t, size)
	ts, errs := make([]*Transport, size), make([]error, size)
	var wg sync.WaitGroup
	for i := range size {
		cfg := Config{Rank: i, Peers: peers, Key: testKey, Generation: 3}
		wg.Go(func() { ts[i], errs[i] = lns[i].Connect(context.Background(), cfg) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", i, err)
		}
	}
	return ts
}

func listen(t testing.TB, size int) (lns []*Listener, peers []string) {
	t.Helper()
	for range size {
		ln, err := Listen("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		lns, peers = append(lns, ln), append(peers, ln.Addr())
	}
	return lns, peers
}

func closeAll(ts []*Transport) {
	for _, tr := range ts {
		if tr != nil {
			tr.Close()
		}
	}
}

func TestConformance(t *testing.T) {
	colltest.Run(t, func(t *testing.T, size int) []collective.Transport {
		var ts []collective.Transport
		for _, tr := range group(t, size) {
			ts = append(ts, tr)
		}
		return ts
	})
}
