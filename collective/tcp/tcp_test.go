package tcp

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/colltest"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

var testKey = bytes.Repeat([]byte{7}, keySize)

// group connects size ranks of this process over the loopback network.
func group(t testing.TB, size int) []*Transport { t.Helper(); return groupOf(t, size, Config{}) }

// striped returns a group that divides even short messages between two streams.
func striped(t testing.TB, size int) []*Transport {
	t.Helper()
	return groupOf(t, size, Config{Streams: 2, stripe: 16})
}

// sealed returns a striped group with encryption.
func sealed(t testing.TB, size int) []*Transport {
	t.Helper()
	secure := make([]securer, size)
	for r := range secure {
		secure[r] = withTLS(t, 1, r, size)
	}
	return groupOf(t, size, Config{Streams: 2, stripe: 16}, secure...)
}

// kinds returns the ways in which links transfer messages.
func kinds() map[string]func(t testing.TB, size int) []*Transport {
	return map[string]func(t testing.TB, size int) []*Transport{"plain": group, "streams": striped, "secured streams": sealed}
}

// groupOf connects size ranks with the options of cfg.
func groupOf(t testing.TB, size int, cfg Config, secure ...securer) []*Transport {
	t.Helper()
	lns, peers := listen(t, size)
	ts, errs := make([]*Transport, size), make([]error, size)
	var wg sync.WaitGroup
	for i := range size {
		cfg := cfg
		cfg.Rank, cfg.Peers, cfg.Key, cfg.Generation, cfg.Timeout = i, peers, testKey, 3, patient.Longest
		if secure != nil {
			cfg.Secure = secure[i]
		}
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
		fatal.If(t, err)
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

// TestConformance: runs the conformance suite with two and three ranks.
func TestConformance(t *testing.T) { colltest.Run(t, transports(group), 2, 3) }

// TestConformanceOfOtherSizes runs the suite with the sizes that TestConformance omits.
func TestConformanceOfOtherSizes(t *testing.T) {
	patient.Long(t)
	colltest.Run(t, transports(group), 1, 4, 5, 8)
}

// TestConformanceOfStreams: runs the suite with two streams per channel.
func TestConformanceOfStreams(t *testing.T) {
	patient.Long(t)
	colltest.Run(t, transports(striped), 2, 3)
}

// TestConformanceOfSecuredStreams: runs the suite with two encrypted streams per channel.
func TestConformanceOfSecuredStreams(t *testing.T) { colltest.Run(t, transports(sealed), 3) }

func transports(group func(t testing.TB, size int) []*Transport) colltest.Make {
	return func(t *testing.T, size int) []collective.Transport {
		return transportsOf(group(t, size))
	}
}

// TestPiecesKeepTheBits: a large allreduce inside a host runs in pieces. It has the bits of an
// allreduce between goroutines, which does not.
func TestPiecesKeepTheBits(t *testing.T) {
	const n = 3<<18 + 5 // float32, a little more than 3 MiB, which gives three pieces
	for _, size := range []int{2, 3} {
		want, got := sums(t, transportsOf(mem.New(size, 1)), n), sums(t, transportsOf(group(t, size)), n)
		for r := range size {
			if !slices.Equal(got[r], want[r]) {
				t.Errorf("rank %d of %d: the sums differ from those in one piece", r, size)
			}
		}
	}
}

// sums returns the result of each rank of an allreduce of n fractions.
func sums(t *testing.T, ts []collective.Transport, n int) [][]float32 {
	t.Helper()
	xs, errs := make([][]float32, len(ts)), make([]error, len(ts))
	var wg sync.WaitGroup
	for r, tr := range ts {
		wg.Go(func() {
			defer tr.Close()
			c, x := collective.New(tr), make([]float32, n)
			for i := range x {
				x[i] = 1 / float32((i+1)*(r+1)%1009+1)
			}
			k := c.Costs()
			k.Take = collective.Ring
			k.Links.Beta = .1e-9
			c.SetCosts(k)
			if errs[r] = collective.AllReduce(c, x, collective.Sum); errs[r] == nil {
				errs[r] = collective.Barrier(c)
			}
			xs[r] = x
		})
	}
	wg.Wait()
	fatal.If(t, errors.Join(errs...))
	return xs
}

func transportsOf[T collective.Transport](ts []T) (all []collective.Transport) {
	for _, tr := range ts {
		all = append(all, tr)
	}
	return all
}
