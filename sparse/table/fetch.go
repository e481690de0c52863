package table

import (
	"slices"
	"unsafe"

	"github.com/wdlrun/wdlrun/optim"
)

const (
	chunk     = 128 // keys or rows whose memory is asked for before the first is used
	ahead     = 32  // rows whose memory is asked for before one is copied; internal/gen/table knows it
	lineBytes = 64  // of a cache line
)

// gatherPlain is the specification of gather, which copies width floats at each of
// the first n addresses to dst, stride floats apart. The data at the others is only
// asked for.
func gatherPlain(dst []float32, stride int, addrs []*byte, n, width int) {
	for i, p := range addrs[:n] {
		copy(dst[i*stride:i*stride+width], unsafe.Slice((*float32)(unsafe.Pointer(p)), width))
	}
}

// locatePlain is the specification of locate, which writes where records and stamps of
// rows are to at.
func (t *memory) locatePlain(rows []Row, at []optim.Record) {
	for i, r := range rows {
		at[i] = optim.Record{At: (*float32)(t.records.at(uint32(r))), Mark: (*uint32)(t.notes.stamps.at(uint32(r)))}
	}
}

// copyFoundPlain is the specification of copyFound, which copies rows and reports
// whether one of them is 0.
func copyFoundPlain(dst, src []Row) (missing bool) {
	copy(dst, src)
	return slices.Contains(src, 0)
}
