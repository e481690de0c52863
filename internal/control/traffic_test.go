package control

import (
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/rank"
)

// counted forwards connections to a coordinator and counts the bytes in both directions.
func counted(t *testing.T, to string) (addr string, bytes *atomic.Int64) {
	bytes = new(atomic.Int64)
	ln := listen(t)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			a, err := ln.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				a.Close()
				return
			}
			for _, way := range [2][2]net.Conn{{a, b}, {b, a}} {
				go func() {
					defer way[1].Close()
					io.Copy(way[1], io.TeeReader(way[0], counter{bytes}))
				}()
			}
		}
	}()
	return ln.Addr().String(), bytes
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

// TestHeartbeatsAreSmall counts the bytes in both directions of the heartbeats of a training
// in which a channel repeatedly makes no progress for a second. At the rate of heartbeats
// they are at most 1 KB per second.
func TestHeartbeatsAreSmall(t *testing.T) {
	patient.Long(t)
	host := newWitness()
	s := serve(t, Config{Size: 1, Host: host})
	w := world(s, 0)
	var bytes *atomic.Int64
	w.Coordinator, bytes = counted(t, s.Addr())
	session, err := Join(t.Context(), w, "10.0.0.1:7", Options{})
	fatal.If(t, err)
	defer session.Close()
	var beats atomic.Int64
	start, end := make(chan int64), make(chan int64)
	const from, count = 8, 24 // heartbeats; every 6th contains a report of calls
	session.WatchLinks(func(bool) (all rank.Traffic) {
		if beats.Load()%6 != 0 {
			return all
		}
		for i := range 4 {
			all.Calls = append(all.Calls, rank.Call{Seq: uint64(1e6 + i), Hash: 1 << 63, Name: "ReduceScatter(sum) of 1048576 float32", Last: i == 3})
		}
		return all
	})
	session.Watch(func() rank.Status {
		n := beats.Add(1)
		switch n {
		case from:
			start <- bytes.Load()
		case from + count:
			end <- bytes.Load()
		}
		return rank.Status{Step: 123456 + n, Steps: 1e6, Epoch: 2, Epochs: 5, Phase: "compute", Position: fmt.Sprintf("adult.data offset 55%d, row 45%d", n, n),
			Samples: 1e8 + n, SamplesPerSecond: 64684.7, Loss: .2568, RunDir: "runs/20261122-230640"}
	})
	var took [2]int64
	for i, c := range []chan int64{start, end} {
		select {
		case took[i] = <-c:
		case <-session.Aborted():
			t.Fatal(session.Err())
		case <-t.Context().Done():
		}
	}
	each := float64(took[1]-took[0]) / count
	rate := each / interval(session.Timeout(), w).Seconds()
	t.Logf("%.0f bytes per heartbeat, %.0f bytes per second", each, rate)
	if rate > 1024 {
		t.Errorf("%.0f bytes per second, want at most 1024", rate)
	}
}
