package data

import "testing"

func TestGrowth(t *testing.T) {
	g := Growth{Least: 256, Share: 32}
	for _, x := range []struct {
		trained int64
		want    int
	}{{0, 256}, {8192, 256}, {8224, 257}, {32768, 1024}, {1 << 40, 4096}} {
		if got := g.Batch(x.trained, 4096); got != x.want {
			t.Errorf("after %d records a step takes %d, want %d", x.trained, got, x.want)
		}
	}
	if got := g.Batch(0, 64); got != 64 {
		t.Errorf("a batch of 64 begins with %d", got)
	}
	if got := (Growth{}).Batch(0, 4096); got != 4096 {
		t.Errorf("without growth a step takes %d", got)
	}
	for _, batch := range []int{1, 100, 256, 1000, 50_000} {
		for _, start := range []int64{0, 999, 10_000} {
			const rows, epochs, before = 10_000, 7, 5_000
			want := int64(0)
			for e := range int64(epochs) {
				x := start
				if e > 0 {
					x = 0
				}
				for ; x < rows; want++ {
					x += int64(g.Batch(before+e*rows+x, batch))
				}
			}
			if got := g.Steps(before, start, rows, epochs, batch); got != want {
				t.Errorf("batch %d from %d: %d steps, want %d", batch, start, got, want)
			}
		}
	}
}
