//go:build !amd64 || noasm

package table

func prefetch([]*byte, int) {}

func prefetchSet([]setSlot, []uint64) {}

func (s *slabs) locate(items []Row, addrs []*byte) { s.locatePlain(items, addrs) }

func (s *slabs) ask(items []Row, addrs []*byte) { s.locatePlain(items, addrs) }

func gather(dst []float32, stride int, addrs []*byte, n, width int) {
	gatherPlain(dst, stride, addrs, n, width)
}
