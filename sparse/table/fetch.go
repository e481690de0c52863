package table

import "unsafe"

const (
	chunk     = 128 // keys or rows whose memory is asked for before the first is used
	ahead     = 32  // rows whose memory is asked for before one is copied; internal/gen/table knows it
	lineBytes = 64  // of a cache line
)

// gatherPlain is the specification of gather.
func gatherPlain(dst []float32, stride int, addrs []*byte, width int) {
	for i, p := range addrs[:len(addrs)-ahead] {
		copy(dst[i*stride:i*stride+width], unsafe.Slice((*float32)(unsafe.Pointer(p)), width))
	}
}
