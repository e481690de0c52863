package step

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// Machine holds the rates of one thread of this machine, measured while every rank
// measures, as in a step.
type Machine struct {
	Device         string  `json:"device"`                    // of the dense layers: cpu, or gpu, whose peaks and floors are not measured
	PeakFLOPS      float64 `json:"peak_flops"`                // of float32, on registers; a multiply-add counts as two
	PeakP10        float64 `json:"peak_flops_p10"`            // first decile
	PeakP90        float64 `json:"peak_flops_p90"`            // ninth decile
	PeakBF16FLOPS  float64 `json:"peak_bf16_flops,omitempty"` // of bfloat16 products in tiles or vectors; 0 unless the step uses them
	Bandwidth      float64 `json:"bandwidth"`                 // bytes per second, read and written by a copy in memory
	Lines          float64 `json:"lines"`                     // cache lines per second, read at random places in memory, as many at once as a core can wait for
	CacheBandwidth float64 `json:"cache_bandwidth"`           // the same in the second-level cache
}

const (
	peakEvery  = 4 // interval in steps
	copyBytes  = 64 << 20
	linesBytes = 128 << 20 // exceeds the third-level cache
	linesRead  = 1 << 16   // in a try that is short enough for few interruptions
	cacheBytes = 256 << 10 // exceeds the first-level cache, fits in the second
	tries      = 5         // the best counts, because other work only slows it down
)

// peak returns this thread's multiply-adds per second over flop of them, as many as in a
// step, because a core lowers its clock after a while of wide vectors. On a shared machine
// the rate changes over time, as do the steps; it is therefore measured between them, and
// the medians of both are compared. run executes about n and returns the number. The rate
// is 0 for the portable kernels, which have no such loop.
func peak(run func(n int) int, flop int64) float64 {
	round := run(1)
	if round == 0 {
		return 0
	}
	start := time.Now()
	done := run(int(flop/int64(round)) + 1)
	return float64(done) / time.Since(start).Seconds()
}

// bandwidth copies between two buffers of size bytes until copyBytes have been copied,
// which takes some tens of milliseconds.
func bandwidth(size int) (best float64) {
	from, to := make([]byte, size), make([]byte, size)
	for i := 0; i < size; i += 1 << 12 { // touches each page
		from[i], to[i] = 1, 1
	}
	for range tries {
		start := time.Now()
		for range copyBytes / size {
			copy(to, from)
		}
		best = max(best, 2*copyBytes/time.Since(start).Seconds())
	}
	return best
}

// lineRate reads cache lines at random places of memory in huge pages, like the rows of a table. No
// read depends on another one, so a core waits for as many at once as it can.
func lineRate() (best float64) {
	mem, free := hugeMemory(linesBytes)
	defer free()
	for i := 0; i < len(mem); i += 1 << 12 { // touches each page
		mem[i] = 1
	}
	x, sum := uint64(1), 0
	for range 4 * tries {
		start := time.Now()
		for range linesRead {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			sum += int(mem[x%linesBytes])
		}
		best = max(best, linesRead/time.Since(start).Seconds())
	}
	runtime.KeepAlive(sum)
	return best
}

// write prints the rates.
func (m Machine) write(b *strings.Builder) {
	fmt.Fprintf(b, "a thread's peak %.0f GFLOP/s of float32", m.PeakFLOPS*1e-9)
	if m.PeakBF16FLOPS > 0 {
		fmt.Fprintf(b, ", %.0f of bfloat16", m.PeakBF16FLOPS*1e-9)
	}
	fmt.Fprintf(b, "; %.1f GB/s in memory, %.1f in the second-level cache; %.0f million random cache lines/s\n", m.Bandwidth*1e-9, m.CacheBandwidth*1e-9, m.Lines*1e-6)
}
