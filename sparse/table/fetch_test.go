package table

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// FuzzGather compares the fast gather with its specification, and sees that no
// value beside the rows is written.
func FuzzGather(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(8), uint8(0))
	f.Add(uint64(2), uint8(130), uint8(31), uint8(5))
	f.Add(uint64(3), uint8(1), uint8(1), uint8(1))
	f.Fuzz(func(t *testing.T, seed uint64, rows, width, gap uint8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n, w := int(rows), int(width)
		stride := w + int(gap)
		from := make([]float32, 1000)
		for i := range from {
			from[i] = float32(rng.NormFloat64())
		}
		addrs := make([]*byte, n+ahead)
		for i := range addrs {
			addrs[i] = (*byte)(unsafe.Pointer(&from[rng.IntN(len(from)-w)]))
		}
		got := make([]float32, n*stride+3)
		for i := range got {
			got[i] = -7
		}
		want := slices.Clone(got)
		gather(got, stride, addrs, w)
		gatherPlain(want, stride, addrs, w)
		if !slices.Equal(got, want) {
			t.Fatalf("%d rows of %d, stride %d:\n%v\nwant\n%v", n, w, stride, got, want)
		}
		prefetch(addrs, 64*w) // never faults, wherever it points
	})
}
