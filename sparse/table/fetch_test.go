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
	f.Add(uint64(1), uint8(3), uint8(8), uint8(0), uint8(40))
	f.Add(uint64(2), uint8(130), uint8(31), uint8(5), uint8(7))
	f.Add(uint64(3), uint8(1), uint8(1), uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, seed uint64, rows, width, gap, coming uint8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n, w := int(rows), int(width)
		stride := w + int(gap)
		from := make([]float32, 1000)
		for i := range from {
			from[i] = float32(rng.NormFloat64())
		}
		addrs := make([]*byte, n+int(coming))
		for i := range addrs {
			addrs[i] = (*byte)(unsafe.Pointer(&from[rng.IntN(len(from)-w)]))
		}
		got := make([]float32, n*stride+3)
		for i := range got {
			got[i] = -7
		}
		want := slices.Clone(got)
		gather(got, stride, addrs, n, w)
		gatherPlain(want, stride, addrs, n, w)
		if !slices.Equal(got, want) {
			t.Fatalf("%d rows of %d, stride %d:\n%v\nwant\n%v", n, w, stride, got, want)
		}
		prefetch(addrs, 64*w) // never faults, wherever it points
	})
}

func TestLocateIsWhereItemsLie(t *testing.T) {
	for _, size := range []int{4, 36, 64, 40000} {
		s := newSlabs(size)
		addrs := make([]*byte, 300)
		if s.locate([]Row{0, 0}, addrs); addrs[0] != nil || addrs[1] != nil {
			t.Errorf("items of %d bytes: item 0 lies somewhere before there is room", size)
		}
		last := 40 << 20 / size // items that fill several slabs
		s.reserve(uint32(last))
		items := []Row{0, 1, Row(last)}
		for _, k := range s.full {
			if n := len(k.mem) / size; n > 0 && n < last { // either side of a border
				items = append(items, Row(n-1), Row(n), Row(n+1))
			}
		}
		for len(items) < 300 {
			items = append(items, Row(rand.IntN(last+1)))
		}
		for name, f := range map[string]func([]Row, []*byte){"locate": s.locate, "ask": s.ask} {
			clear(addrs)
			f(items, addrs)
			for i, item := range items {
				if want := (*byte)(s.at(uint32(item))); addrs[i] != want {
					t.Fatalf("%s: items of %d bytes: item %d lies at %p, want %p", name, size, item, addrs[i], want)
				}
			}
		}
		if err := s.free(); err != nil {
			t.Error(err)
		}
	}
}
