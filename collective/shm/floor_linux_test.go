package shm

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// BenchmarkLines reads memory that another core has just written, on two cores concurrently.
// This is the floor of a call on buffers that are rewritten before it and read after it: each of
// two ranks reads half of n bytes to sum them and, after the call, the other half of the result,
// n bytes at this rate. The benchmark also measures the rate of overwriting memory that the
// other core has just read, as every socket and message ring does. On some hosts this rate is
// far lower.
func BenchmarkLines(b *testing.B) {
	for _, n := range []int{16 << 10, 256 << 10, 1_400_000} {
		b.Run(fmt.Sprintf("bytes=%d", n), func(b *testing.B) { benchLines(b, n) })
	}
}

func benchLines(b *testing.B, n int) {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil || may.Count() < 2 {
		b.Skip("this process may run on one core only")
	}
	var memory [2][]byte
	for i := range memory {
		m, fd, err := create(n, n)
		fatal.If(b, err)
		unix.Close(fd)
		defer m.unmap()
		memory[i] = m.bytes()[:n]
	}
	var met [2]atomic.Int64
	var seen [2]int
	var took, wrote [2][]float64 // times in seconds
	meet := func(r, i int) {
		met[r].Store(int64(i))
		for met[1-r].Load() < int64(i) {
		}
	}
	var both sync.WaitGroup
	cpu := 0
	for r := range memory {
		for ; !may.IsSet(cpu); cpu++ {
		}
		own := cpu
		cpu++
		both.Go(func() {
			runtime.LockOSThread() // never unlocked, so the thread ends with its core binding
			bind(b, own)
			for i := range b.N {
				start := time.Now()
				for rest := range slices.Chunk(memory[r], 1<<10) { // a large clear may bypass the caches
					clear(rest)
				}
				wrote[r] = append(wrote[r], time.Since(start).Seconds())
				meet(r, 2*i+1)
				start = time.Now()
				seen[r] += bytes.Count(memory[1-r], []byte{1})
				took[r] = append(took[r], time.Since(start).Seconds())
				meet(r, 2*i+2)
			}
		})
	}
	both.Wait()
	for unit, seconds := range map[string][]float64{"GB/s": took[0], "rewritten-GB/s": wrote[0]} {
		slices.Sort(seconds)
		b.ReportMetric(float64(n)/seconds[len(seconds)/2]*1e-9, unit)
	}
}

func bind(t testing.TB, core int) {
	t.Helper()
	var one unix.CPUSet
	one.Set(core)
	fatal.If(t, unix.SchedSetaffinity(0, &one))
}
