package tcp

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// BenchmarkPosts measures the CPU time of one rank for the small parts of an all-to-all with 63
// others: to send them, and to receive the others' parts after all have arrived. Over loopback
// the sender's system call also delivers the packet to the receiver's socket. Between hosts this
// is work of the receiver's system.
func BenchmarkPosts(b *testing.B) {
	ts := group(b, 64)
	defer closeAll(ts)
	rounds := uint64(0) // number of rounds of all benchmarks, so that each round has its own tags
	for _, n := range []int{8, 256, 4 << 10, 32 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", n), func(b *testing.B) { benchPosts(b, ts, n, &rounds) })
	}
}

func benchPosts(b *testing.B, ts []*Transport, n int, rounds *uint64) {
	var out, in []collective.Post
	part := make([]byte, n)
	for r := 1; r < len(ts); r++ {
		out = append(out, collective.Post{To: r, Send: part, From: -1})
		in = append(in, collective.Post{To: -1, From: r, Recv: part})
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var sent, received []float64
	for range b.N {
		*rounds++
		tag := collective.Tag{Call: collective.CallAllToAllV, Seq: *rounds}
		sent = append(sent, core(b, func() error { return ts[0].ExchangeEach(tag, out) }))
		for k, tr := range ts[1:] {
			tag := tag
			tag.Step = uint32(k)
			fatal.If(b, tr.Exchange(tag, 0, part, 0, part))
		}
		received = append(received, core(b, func() error { return ts[0].ExchangeEach(tag, in) }))
	}
	for what, s := range map[string][]float64{"sent": sent, "received": received} {
		slices.Sort(s)
		b.ReportMetric(1e6*s[len(s)/2]/float64(len(out)), "µs/"+what)
	}
}

// core returns the CPU time that f uses on this thread, which is locked, in seconds.
func core(b *testing.B, f func() error) float64 {
	now := func() float64 {
		var t unix.Timespec
		fatal.If(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
		return float64(t.Nano()) * 1e-9
	}
	begin := now()
	fatal.If(b, f())
	return now() - begin
}
