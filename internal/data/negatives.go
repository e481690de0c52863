package data

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// dropSeed keeps the choice of negatives apart from that of HoldOut by the same seed.
const dropSeed = 0x6E65_6761_7469_7665

// KeepNegatives leaves records whose label is 0 out of Train, except a share of them.
// Which ones stay depends on seed and their place in the dataset alone. It must come
// before Scan, and be the same on every rank.
func (d *Dataset) KeepNegatives(share float64, seed uint64) error {
	if !(share > 0 && share <= 1) {
		return fmt.Errorf("data: keep negatives: the share is %v, it must be above 0 and at most 1", share)
	}
	if d.rowBase != nil {
		return errors.New("data: keep negatives: the dataset is in use already")
	}
	if share < 1 {
		d.drop = holdOut{seed: seed ^ dropSeed, limit: uint64(math.Ldexp(1-share, 64))}
	}
	return nil
}

// drops reports whether row r of block b is left out of Train as a negative.
func (d *selection) drops(b int, r int32) bool {
	return d.dropped != nil && hasBit(d.dropped[b], r)
}

// rowBits collects a bit for each record of a block, and keeps them by block: no entry if
// none is set, an empty one if all are.
type rowBits struct {
	bits []byte // of the current block
	set  int32  // of them
	of   map[int32][]byte
}

func newRowBits() rowBits { return rowBits{of: map[int32][]byte{}} }

func (x *rowBits) add(r int32) {
	for len(x.bits) <= int(r/8) {
		x.bits = append(x.bits, 0)
	}
	x.bits[r/8] |= 1 << (r % 8)
	x.set++
}

// end keeps the bits of block b, which has so many records.
func (x *rowBits) end(b, records int32) {
	switch {
	case x.set == 0:
		return
	case x.set == records:
		x.of[b] = []byte{}
	default:
		x.of[b] = append(slices.Clone(x.bits), make([]byte, int(records+7)/8-len(x.bits))...)
	}
	x.bits, x.set = x.bits[:0], 0
}

// hasBit reads bit r of what end has kept of a block.
func hasBit(bits []byte, r int32) bool {
	return bits != nil && (len(bits) == 0 || bits[r/8]>>(r%8)&1 == 1)
}
