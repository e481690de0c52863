//go:build !amd64 || noasm

package table

import "github.com/wdlrun/wdlrun/optim"

func prefetch([]*byte, int) {}

func prefetchSet([]setSlot, []uint64) {}

func hashAll(hashes, keys []uint64, salt uint64) { hashPlain(hashes, keys, salt) }

func (s *setSlots) match(keys []uint64, hashes *[setChunk]uint64, ids []uint32, missed *[setChunk]uint8) []uint8 {
	return s.matchPlain(keys, hashes, ids, missed)
}

func (x *index) prefetchFlat([]uint64) {}

func (x *index) prefetchBuckets(g *flatGroup, n int) { x.prefetchBucketsPlain(g, n) }

func (g *flatGroup) match(keys []uint64, rows []Row, missed *[group]uint8) (n int, union Row) {
	return g.matchPlain(keys, rows, missed)
}

func (s *slabs) locate(items []Row, addrs []*byte) { s.locatePlain(items, addrs) }

func (t *memory) locate(rows []Row, at []optim.Record) { t.locatePlain(rows, at) }

func copyFound(dst, src []Row) (missing bool) { return copyFoundPlain(dst, src) }

func gather(dst []float32, stride int, addrs []*byte, n, width int) {
	gatherPlain(dst, stride, addrs, n, width)
}
