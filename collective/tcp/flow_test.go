package tcp

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestLargeFramesBothWays sends frames far larger than the system's buffers in both directions
// concurrently. One rank starts late. This exercises segments, sleeping and the writer.
func TestLargeFramesBothWays(t *testing.T) {
	for name, group := range kinds() {
		t.Run(name, func(t *testing.T) {
			ts := group(t, 3)
			defer closeAll(ts)
			largeFrames(t, ts)
		})
	}
}

func largeFrames(t *testing.T, ts []*Transport) {
	size := len(ts)
	for _, n := range []int{0, 1, smallFrame, smallFrame + 1, segmentBytes - 1, segmentBytes + 1, 6 << 20} {
		var wg sync.WaitGroup
		for r, tr := range ts {
			wg.Go(func() {
				to, from := (r+1)%size, (r+size-1)%size
				tag := collective.Tag{Call: collective.CallBarrier, Seq: uint64(n + 1)}
				send, recv := bytes.Repeat([]byte{byte(r + 1)}, n), make([]byte, n)
				if err := tr.Exchange(tag, to, send, from, recv); err != nil {
					t.Errorf("%d bytes: rank %d: %v", n, r, err)
				} else if bytes.Count(recv, []byte{byte(from + 1)}) != n {
					t.Errorf("%d bytes: rank %d received other bytes than rank %d sent", n, r, from)
				}
				for _, l := range tr.peers[to].data {
					if l.sending() || l.vec[1] != nil || l.recv != nil {
						t.Errorf("%d bytes: rank %d still refers to the caller's slice", n, r)
					}
				}
			})
		}
		wg.Wait()
	}
}

// TestJoinOnArrival: reducing data as it arrives, in any pieces that the system delivers, gives
// the bits of reducing all of it at once, for elements of 2, 4 and 8 bytes.
func TestJoinOnArrival(t *testing.T) {
	for name, group := range kinds() {
		t.Run(name, func(t *testing.T) {
			ts := group(t, 2)
			defer closeAll(ts)
			joinOnArrival(t, ts)
		})
	}
}

func joinOnArrival(t *testing.T, ts []*Transport) {
	seq := uint64(0)
	for _, typ := range []collective.Type{collective.BFloat16, collective.Float32, collective.Float64} {
		for _, n := range []int{0, 8, 24, frameSize, landBytes - 8, landBytes, landBytes + 8, 3<<20 + 24} {
			seq++
			tag := collective.Tag{Call: collective.CallReduceScatter, Op: collective.Sum, Type: typ, Seq: seq, Count: uint64(n)}
			send, own := [2][]byte{}, [2][]byte{}
			for r := range ts {
				send[r], own[r] = make([]byte, n), make([]byte, n)
				for i := range n { // bytes that encode finite numbers in every type
					send[r][i], own[r][i] = byte((i*7+r)%61), byte((i*5+r)%53)
				}
			}
			var wg sync.WaitGroup
			for r, tr := range ts {
				want := bytes.Clone(own[r])
				collective.Join(tag, want, send[1-r])
				wg.Go(func() {
					if err := tr.ExchangeJoin(tag, 1-r, send[r], 1-r, own[r]); err != nil {
						t.Error(err)
					} else if !bytes.Equal(own[r], want) {
						t.Errorf("%v, %d bytes: rank %d: the bits differ from reducing at once", typ, n, r)
					}
				})
			}
			wg.Wait()
		}
	}
}

// TestRanksOfOneProcessKnowIt: ranks detect that they share a process, because they must yield
// to each other's goroutines.
func TestRanksOfOneProcessKnowIt(t *testing.T) {
	ts := group(t, 2)
	defer closeAll(ts)
	for r, tr := range ts {
		for begin := time.Now(); !tr.together.Load(); time.Sleep(time.Millisecond) {
			if time.Since(begin) > patient.Longest {
				t.Fatalf("rank %d does not detect that both ranks are in one process", r)
			}
		}
	}
}

// TestExchangeAllocatesNothing: after the first calls, an exchange allocates no memory.
func TestExchangeAllocatesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("counts allocations")
	}
	for name, group := range kinds() {
		if name == "secured streams" {
			continue // crypto/tls allocates two objects per record
		}
		t.Run(name, func(t *testing.T) {
			ts := group(t, 2)
			defer closeAll(ts)
			if ts[0].peers[1].data[0].sock == nil {
				t.Skip("connections of this system always go through the writer")
			}
			allocatesNothing(t, ts)
		})
	}
}

func allocatesNothing(t *testing.T, ts []*Transport) {
	const rounds = 100
	exchange := func(tr *Transport, seq *uint64, buf []byte) {
		*seq++
		tag := collective.Tag{Call: collective.CallAllReduce, Seq: 1 + *seq}
		if err := tr.Exchange(tag, 1-tr.rank, buf[:len(buf)/2], 1-tr.rank, buf[len(buf)/2:]); err != nil {
			t.Error(err)
		}
	}
	for _, n := range []int{64, 1 << 20} {
		var seq [2]uint64
		done := make(chan struct{})
		go func() {
			defer close(done)
			buf := make([]byte, 2*n)
			for range rounds + 1 {
				exchange(ts[1], &seq[1], buf)
			}
		}()
		buf := make([]byte, 2*n)
		if a := testing.AllocsPerRun(rounds, func() { exchange(ts[0], &seq[0], buf) }); a > 0 {
			t.Errorf("%d bytes: %v allocations per call", n, a)
		}
		<-done
	}
}
