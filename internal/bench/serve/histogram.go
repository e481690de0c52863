package serve

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(minLatency, maxLatency, digits)
}

func count(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(int64(d), minLatency), maxLatency)) // the value is in the histogram's range
}

// Quantiles are latencies in milliseconds.
type Quantiles struct {
	P50  float64 `json:"p50_ms"`
	P90  float64 `json:"p90_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p99_9_ms"`
	Max  float64 `json:"max_ms"`
}

func quantilesOf(h *hdrhistogram.Histogram) Quantiles {
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e6 }
	return Quantiles{at(50), at(90), at(99), at(99.9), float64(h.Max()) / 1e6}
}

// Latencies from 1 µs to 100 s are distinguished by three digits.
const (
	minLatency = int64(time.Microsecond)
	maxLatency = int64(100 * time.Second)
	digits     = 3
)
