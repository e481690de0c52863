//go:build !amd64 || noasm

package table

func prefetch([]*byte, int) {}

func prefetchSet([]setSlot, []uint64) {}

func gather(dst []float32, stride int, addrs []*byte, width int) {
	gatherPlain(dst, stride, addrs, width)
}
