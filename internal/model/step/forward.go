package step

import (
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/encode"
)

// maxParcel is the largest size of a microbatch sent to another rank, in bytes.
const maxParcel = 1 << 30

// forward sets the batch of w to the microbatch that this rank computes: one of its own, or
// one that its home rank sends. If every rank computes its own, nothing is sent.
func (x *Tolerant) forward(w *work) error {
	p := &x.forwardBuffers
	p.reset()
	clear(p.sendSizes)
	p.sendBytes = p.sendBytes[:0]
	away := false
	for to := range x.size {
		for _, l := range x.leases {
			home := x.readerOf(l.Batch.First)
			if l.Rank != to {
				continue
			}
			if to == x.rank {
				w.assigned, w.Lease = true, l
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
			n := len(p.sendBytes)
			p.sendBytes = appendBatch(p.sendBytes, b)
			p.sendSizes[to] = int64(len(p.sendBytes) - n)
			p.sendCounts[to] = len(p.sendBytes) - n
		}
	}
	if !away {
		return nil
	}
	if err := collective.AllToAll(x.t.comm, p.sendSizes, p.recvSizes); err != nil {
		return err
	}
	total := 0
	for r, n := range p.recvSizes {
		if n < 0 || n > maxParcel || total > maxParcel {
			return fmt.Errorf("microbatch from rank %d: %d bytes, at most %d are allowed: make train.batch smaller", r, n, maxParcel)
		}
		p.recvCounts[r] = int(n)
		total += int(n)
	}
	p.recvBytes = slices.Grow(p.recvBytes[:0], total)[:total]
	if err := collective.AllToAllV(x.t.comm, p.sendBytes, p.sendCounts, p.recvBytes, p.recvCounts); err != nil {
		return err
	}
	if total == 0 {
		return nil
	}
	w.batch = &w.received
	if err := decodeBatch(&w.received, p.recvBytes, x.t.model.reads()); err != nil {
		return fmt.Errorf("microbatch %d from rank %d: %w", w.Batch.First, x.readerOf(w.Batch.First), err)
	}
	return nil
}

// emptyBatch returns a batch without rows.
func emptyBatch(features int) encode.Batch {
	b := encode.Batch{Sparse: make([]encode.Jagged, features)}
	for f := range b.Sparse {
		b.Sparse[f].Offsets = []int32{0}
	}
	return b
}

// readerOf returns the rank that reads the samples of a microbatch. Its gradients take the
// place of that rank in the sum.
func (x *Tolerant) readerOf(item int64) int { return int(item % int64(x.size)) }
