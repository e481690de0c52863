package step

import (
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/encode"
)

// parcels are the buffers of what ranks send each other apart from rows.
type parcels struct {
	sendCounts, recvCounts []int
	sizes, heard           []int64
	bytes, taken           []byte
	floats, arrived        []float32
}

func (p *parcels) init(size int) {
	p.sendCounts, p.recvCounts = make([]int, size), make([]int, size)
	p.sizes, p.heard = make([]int64, size), make([]int64, size)
}

func (p *parcels) reset() {
	clear(p.sendCounts)
	clear(p.recvCounts)
}

// maxParcel bounds a microbatch on its way to another rank.
const maxParcel = 1 << 30

// forward gives w the microbatch that this rank is to compute: its own, or one that
// its home sends. Nothing is sent where all are computed at home.
func (x *Tolerant) forward(w *work) error {
	p := &x.parcels
	p.reset()
	clear(p.sizes)
	p.bytes = p.bytes[:0]
	away := false
	for to := range x.size {
		for _, l := range x.leases {
			home := x.home(l.Batch.First)
			if l.Rank != to {
				continue
			}
			if to == x.rank {
				w.given, w.Lease = true, l
			}
			away = away || home != to
			if home != x.rank {
				continue
			}
			b, err := x.source.Batch(l.Batch.First / int64(x.size))
			if err != nil {
				return err
			}
			if to == x.rank {
				w.batch = b
				continue
			}
			n := len(p.bytes)
			p.bytes = appendBatch(p.bytes, b)
			p.sizes[to] = int64(len(p.bytes) - n)
			p.sendCounts[to] = len(p.bytes) - n
		}
	}
	if !away {
		return nil
	}
	if err := collective.AllToAll(x.t.comm, p.sizes, p.heard); err != nil {
		return err
	}
	total := 0
	for r, n := range p.heard {
		if n < 0 || n > maxParcel || total > maxParcel {
			return fmt.Errorf("wdl: microbatch from rank %d: %d bytes, at most %d are allowed: make train.batch smaller", r, n, maxParcel)
		}
		p.recvCounts[r] = int(n)
		total += int(n)
	}
	p.taken = slices.Grow(p.taken[:0], total)[:total]
	if err := collective.AllToAllV(x.t.comm, p.bytes, p.sendCounts, p.taken, p.recvCounts); err != nil {
		return err
	}
	if total == 0 {
		return nil
	}
	w.batch = &w.room
	if err := decodeBatch(&w.room, p.taken, x.t.model.reads()); err != nil {
		return fmt.Errorf("wdl: microbatch %d from rank %d: %w", w.Batch.First, x.home(w.Batch.First), err)
	}
	return nil
}

// emptyBatch has no rows of features sparse features.
func emptyBatch(features int) encode.Batch {
	b := encode.Batch{Sparse: make([]encode.Jagged, features)}
	for f := range b.Sparse {
		b.Sparse[f].Offsets = []int32{0}
	}
	return b
}
