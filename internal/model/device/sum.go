//go:build gpu

package device

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/nccl"
)

// ranks sums the gradients of all ranks by NCCL, in place, on its own stream. Meanwhile the
// device computes the gradients of other buckets, and the host sums the gradients of rows.
type ranks struct {
	comm     *nccl.Comm
	stream   *cuda.Stream
	computed *cuda.Event
	buckets  []bucket // in the order of their launches
	next     int      // first bucket that is not launched in this step
	pending  bool     // a sum has begun and is not known to be complete
}

// SumOver makes the device sum gradients over the ranks of a communicator, which must have
// the context of the device. Call it before the first step.
func (d *Device) SumOver(comm *nccl.Comm) error {
	s, err := d.device.Stream()
	if err != nil {
		return err
	}
	d.work.ranks = &ranks{comm: comm, stream: s, computed: d.computed[2], buckets: d.divide(d.bucket)}
	// The sum includes the padding between parameters, which must be finite. Skip copies
	// the zeros in pinned memory too.
	clear(d.grads.at)
	return errors.Join(d.compute.CopyIn(d.grads.on, d.grads.at), d.compute.Wait())
}

// Sums implements step.DeviceSum.
func (d *Device) Sums() bool { return d.work.ranks != nil }

// Skip implements step.DeviceStep.
func (d *Device) Skip() error {
	if err := d.absent(); err != nil {
		return fmt.Errorf("train.device: gpu: %v: %w", d.device, err)
	}
	if !d.Sums() {
		clear(d.arena.Grads())
		return nil
	}
	d.work.do(d.compute.CopyIn(d.grads.on, d.grads.at))
	d.work.start()
	d.work.finish()
	return d.fault()
}

// Sum implements step.DeviceSum. The host waits, because an aborted sum leaves gradients
// undefined, and the update must not read them.
func (d *Device) Sum() error {
	r := d.work.ranks
	if err := r.comm.Wait(context.Background(), nccl.Stream(r.stream.Handle())); err != nil {
		return fmt.Errorf("train.device: gpu: %v: %w", d.device, err)
	}
	r.pending = false
	return nil
}

// endTime is the time that a rank waits for the others after the last step.
const endTime = 30 * time.Second

// End implements step.DeviceSum. All sums are complete, so it ignores an error. Close then
// aborts the communicator.
func (d *Device) End() {
	if r := d.work.ranks; r != nil {
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		r.comm.Close(ctx)
	}
}

// close frees the stream. If the training failed, all ranks abort their communicators at the
// job's verdict. freed is false if a pending sum may still use the stream and memory of the
// device. They are freed when the process ends, which follows a failed training.
func (r *ranks) close() (freed bool, err error) {
	switch {
	case r == nil:
		return true, nil
	case r.pending:
		return false, nil
	}
	return true, r.stream.Close()
}
