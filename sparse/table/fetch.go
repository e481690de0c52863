package table

import "unsafe"

const (
	chunk     = 128 // keys or rows whose memory is asked for before the first is used
	ahead     = 32  // rows whose memory is asked for before one is copied; internal/gen/table knows it
	lineBytes = 64  // of a cache line
)

// gatherPlain is the specification of gather, which copies width floats at each of
// the first n addresses to dst, stride floats apart. What lies at the others is only
// asked for.
func gatherPlain(dst []float32, stride int, addrs []*byte, n, width int) {
	for i, p := range addrs[:n] {
		copy(dst[i*stride:i*stride+width], unsafe.Slice((*float32)(unsafe.Pointer(p)), width))
	}
}
