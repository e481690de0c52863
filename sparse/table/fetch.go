package table

import "unsafe"

const (
	chunk     = 128 // keys or rows whose memory is asked for before the first is used
	lineBytes = 64  // of a cache line
)

// prefetchRecords asks for the first n bytes at each of addrs. What lies beyond
// the fourth line the processor has foreseen by then.
func prefetchRecords(addrs []*byte, n int) {
	for at := 0; at < min(n, 4*lineBytes); at += lineBytes {
		prefetch(addrs, at)
	}
	if n < 4*lineBytes {
		prefetch(addrs, n-1) // a record need not begin on a line
	}
}

// gatherPlain is the specification of gather.
func gatherPlain(dst []float32, stride int, addrs []*byte, width int) {
	for i, p := range addrs {
		copy(dst[i*stride:i*stride+width], unsafe.Slice((*float32)(unsafe.Pointer(p)), width))
	}
}
