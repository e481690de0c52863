package table

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

// BenchmarkTier performs steps with keys that follow Zipf's law, most of whose rows do not fit
// in memory. The next batch is announced, as by Prepare, while the previous one is looked up,
// read and applied. The benchmark reports the rows per step that moved to disk and back.
func BenchmarkTier(b *testing.B) {
	const rows, batch, dim = 1 << 18, 1 << 12, 16
	const record, always = 4 * (2 * dim), 40 // bytes: values and state; index and stamps
	for _, share := range []int64{50, 10} {
		for _, ahead := range []bool{false, true} {
			b.Run(fmt.Sprintf("records=%d%%/ahead=%t", share, ahead), func(b *testing.B) {
				x, err := Open(Config{Name: "x", Parts: []Part{{Name: "p", Dim: dim, Rule: optim.Rule{Kind: "adagrad"}}}}, 1, 1024)
				if err == nil {
					err = x.OpenTier(b.TempDir(), rows*always+rows*record*share/100)
				}
				fatal.If(b, err)
				defer x.Close()
				rng := rand.New(rand.NewPCG(1, 2))
				zipf := rand.NewZipf(rng, 1.05, 20, rows-1)
				draw := func() (keys []uint64) {
					for range batch {
						keys = append(keys, zipf.Uint64()*f32.Golden)
					}
					slices.Sort(keys)
					return slices.Compact(keys)
				}
				all := make([]uint64, 0, rows)
				for i := range uint64(rows) {
					all = append(all, i*f32.Golden)
				}
				n := int64(0)
				step := func(keys, next []uint64) {
					n++
					g := Gradients{Keys: keys, Rows: make([]Row, len(keys)), Values: make([]float32, len(keys)*dim)}
					fatal.If(b, x.Find(keys, g.Rows))
					g.Epoch = x.Epoch()
					if ahead && next != nil {
						x.Prefetch(next)
					}
					x.Read(keys, g.Rows, g.Values, dim)
					if _, err := x.Apply(optim.Step{N: n, Scale: 1e-3, Rate: 1}, g); err != nil {
						b.Fatal(err)
					}
				}
				for lo := 0; lo < rows; lo += batch {
					step(all[lo:lo+batch], nil)
				}
				keys := draw()
				for range 100 { // until the frequent keys are in memory
					next := draw()
					step(keys, next)
					keys = next
				}
				before := x.Counters()
				b.ResetTimer()
				for range b.N {
					b.StopTimer()
					next := draw()
					b.StartTimer()
					step(keys, next)
					keys = next
				}
				after := x.Counters()
				per := func(n int64) float64 { return float64(n) / float64(b.N) }
				b.ReportMetric(per(after.ToDisk-before.ToDisk), "todisk/step")
				b.ReportMetric(per(after.FromDisk-before.FromDisk), "back/step")
				b.ReportMetric(per(after.ReadAhead-before.ReadAhead), "ahead/step")
			})
		}
	}
}
