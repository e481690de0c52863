package trace

import (
	"io"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// BenchmarkStep measures the cost of recording a step with six phases and five exchanges.
func BenchmarkStep(b *testing.B) {
	r := New(1 << 16)
	b.ReportAllocs()
	for step := int64(0); b.Loop(); step++ {
		oneStep(r, step)
	}
}

// BenchmarkWriteChrome measures writing the timeline of about ten thousand steps.
func BenchmarkWriteChrome(b *testing.B) {
	at := time.Now()
	r := newAt(1<<16, func() time.Time { at = at.Add(34567 * time.Nanosecond); return at })
	for step := range int64(11000) {
		oneStep(r, step)
	}
	b.ReportAllocs()
	for b.Loop() {
		fatal.If(b, r.WriteChrome(io.Discard, Source{Rank: 1, Size: 2}))
	}
}

func oneStep(r *Recorder, step int64) {
	r.Step(step)
	for p := Input; p <= Update; p++ {
		r.Enter(p)
		switch p {
		case Pull:
			for i := range uint64(3) {
				r.Exchange(uint64(5*step) + i)
			}
			r.Count(4700, 359)
		case Push, Sync:
			r.Exchange(uint64(5*step) + uint64(p-Push) + 3)
		}
	}
}
