//go:build gpu

package device

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/nccl"
)

// bucketFloats is the least size of a bucket but the last: 256 KiB. Over links of 10 to 100
// GB/s, sums of fewer bytes take little longer than the call that begins them.
const bucketFloats = 64 << 10

// bucket is a part of the gradients that one call of NCCL sums.
type bucket struct {
	call   nccl.Call
	params int // parameters in it
	left   int // of these, the ones whose gradients are not enqueued in this step
}

// divide divides the gradients into buckets of at least least floats. The last parameters are
// in the first bucket, as backward computes their gradients first.
func (d *Device) divide(least int) (all []bucket) {
	hi := d.grads.on.Len
	for i := len(d.params) - 1; i >= 0; i-- {
		if len(all) == 0 || all[len(all)-1].call.Count >= least {
			all = append(all, bucket{})
		}
		b := &all[len(all)-1]
		size := cuda.Room(len(d.params[i].of.Grad))
		hi -= size
		at := nccl.Pointer(d.grads.on.Part(hi, hi).At)
		b.call = nccl.Call{Kind: nccl.AllReduce, Type: nccl.Float32, Op: nccl.Sum, Send: at, Recv: at, Count: b.call.Count + size}
		b.params++
		d.params[i].bucket = len(all) - 1
	}
	for i := range all {
		all[i].call.Place = fmt.Sprintf("dense gradients, bucket %d of %d", i+1, len(all))
	}
	return all
}

// start begins a step: no gradient is enqueued.
func (r *ranks) start() {
	r.next = 0
	for i := range r.buckets {
		r.buckets[i].left = r.buckets[i].params
	}
}

// ready launches the sums that can start when all work now on a stream is complete. The
// gradient of p is enqueued there.
func (r *ranks) ready(on *cuda.Stream, p *param) error {
	r.buckets[p.bucket].left--
	return r.launch(on, false)
}

// launch launches the next buckets, or all that are left. The ranks launch them in the same
// order, also in steps without rows.
func (r *ranks) launch(on *cuda.Stream, all bool) error {
	for ; r.next < len(r.buckets) && (all || r.buckets[r.next].left == 0); r.next++ {
		if err := r.computed.Record(on); err != nil {
			return err
		}
		if err := r.stream.After(r.computed); err != nil {
			return err
		}
		r.pending = true
		if err := r.comm.Launch(nccl.Stream(r.stream.Handle()), r.buckets[r.next].call); err != nil {
			return err
		}
	}
	return nil
}
