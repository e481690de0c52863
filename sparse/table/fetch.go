package table

import (
	"slices"
	"unsafe"

	"github.com/wdlrun/wdlrun/optim"
)

const (
	chunk = 128 // keys or rows whose memory is prefetched before the first is used
	ahead = 32  // rows that are prefetched before one is copied; internal/kernel/gen/table uses the same number
)

// gatherPlain is the specification of gather, which copies width floats from each of the
// first n addresses to dst, stride floats apart. The memory at the other addresses is only
// prefetched.
func gatherPlain(dst []float32, stride int, addrs []*byte, n, width int) {
	for i, p := range addrs[:n] {
		copy(dst[i*stride:i*stride+width], unsafe.Slice((*float32)(unsafe.Pointer(p)), width))
	}
}

// locatePlain is the specification of locate, which writes the addresses of the records and
// stamps of rows to at.
func (t *memory) locatePlain(rows []Row, at []optim.Record) {
	for i, r := range rows {
		at[i] = optim.Record{At: (*float32)(t.records.at(uint32(r))), Mark: (*uint32)(t.notes.stamps.at(uint32(r)))}
	}
}

// copyFoundPlain is the specification of copyFound, which copies rows and reports whether
// any of them is 0.
func copyFoundPlain(dst, src []Row) (missing bool) {
	copy(dst, src)
	return slices.Contains(src, 0)
}
