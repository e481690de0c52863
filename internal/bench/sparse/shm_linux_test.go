package sparse

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/shm"
)

// BenchmarkExchange measures two ranks as goroutines over shared memory.
func BenchmarkExchange(b *testing.B) {
	key := make([]byte, shm.KeySize)
	rand.Read(key)
	for b.Loop() {
		var wg sync.WaitGroup
		for r := range 2 {
			wg.Go(func() {
				l, err := shm.Listen(shm.Config{Rank: r, Size: 2, Key: key})
				if err != nil {
					b.Error(err)
					return
				}
				tr, err := l.Connect(context.Background())
				if err != nil {
					b.Error(err)
					return
				}
				defer tr.Close()
				err = Run(collective.New(tr), Options{Time: 300 * time.Millisecond}, func(l Line) {
					b.ReportMetric(l.MedianUS, l.Op+"_us")
					b.ReportMetric(l.Ratio, l.Op+"_ratio")
				})
				if err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
	}
}
