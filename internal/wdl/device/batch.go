//go:build gpu

package device

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/kernel"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
)

// memory is device memory and pinned host memory of the same layout.
type memory struct {
	pool   *cuda.Pool
	pinned *cuda.Pinned
}

// region is a part of both.
type region struct {
	on cuda.Buffer
	at []float32
}

func newMemory(d *cuda.Device, floats int) (m memory, err error) {
	if m.pool, err = d.Pool(floats); err != nil {
		return m, err
	}
	m.pinned, err = d.Pin(floats)
	return m, err
}

func (m memory) cut(n int) region { return region{m.pool.Cut(n), m.pinned.Cut(n)} }

func (r region) part(lo, hi int) region { return region{r.on.Part(lo, hi), r.at[lo:hi]} }

func (m memory) close() (err error) {
	if m.pool != nil {
		err = m.pool.Close()
	}
	if m.pinned != nil {
		err = errors.Join(err, m.pinned.Close())
	}
	return err
}

// staged is the part of a batch that is copied. in and out are contiguous, so each is one
// copy. Both contain the logits.
type staged struct {
	in                    region // x, label, weight, row, logit
	x, label, weight, row region
	logit                 region
	dlogit, loss          region
	out                   region    // logit, dlogit, loss
	dx                    []float32 // pinned
}

// lengths returns the numbers of floats of the fields of staged, in order.
func (d *Device) lengths(rows int) (x, label, weight, row, logit, dlogit, loss int) {
	if d.labels[0].net != nil {
		x = rows * d.width
	}
	if d.weigh {
		weight = rows
	}
	towers := rows * len(d.labels)
	return x, towers, weight, 2 * rows, towers, towers, towers
}

// sizes returns numbers of floats for a batch: on the device, of the part that is copied and
// of the other part, and in pinned memory. dx has its own pinned memory, as long as x.
func (d *Device) sizes(rows int) (copied, alone, pinned int) {
	x, label, weight, row, logit, dlogit, loss := d.lengths(rows)
	for _, n := range []int{x, label, weight, row, logit, dlogit, loss} {
		copied += cuda.Room(n)
	}
	d.alone(rows, func(n int) cuda.Buffer {
		alone += cuda.Room(n)
		return cuda.Buffer{}
	})
	return copied, alone, copied + cuda.Room(x)
}

// alone allocates the buffers that are not copied.
func (d *Device) alone(rows int, take cut) {
	d.work.partial = take(kernel.PartialSums(rows, d.work.widest))
	for _, l := range d.labels {
		if l.net != nil {
			l.net.room(rows, take)
		}
	}
}

// Begin implements step.Device.
func (d *Device) Begin(rows int) (*step.DeviceBatch, error) {
	if rows > d.most {
		if err := d.grow(rows); err != nil {
			return nil, fmt.Errorf("train.device: gpu: %v: %w", d.device, err)
		}
	}
	if rows == d.work.rows {
		return &d.room, nil
	}
	d.work.rows = rows
	d.batch.pool.Reset()
	d.batch.pinned.Reset()
	copied, _, _ := d.sizes(rows)
	all, at, s := d.batch.cut(copied), 0, &d.staged
	take := func(n int) region {
		at += cuda.Room(n)
		return all.part(at-cuda.Room(n), at-cuda.Room(n)+n)
	}
	x, label, weight, row, logit, dlogit, loss := d.lengths(rows)
	s.x, s.label, s.weight, s.row = take(x), take(label), take(weight), take(row)
	from := at
	s.logit = take(logit)
	s.in = all.part(0, at)
	s.dlogit, s.loss = take(dlogit), take(loss)
	s.out, s.dx = all.part(from, at), d.batch.pinned.Cut(x)
	d.work.row = s.row.on
	d.alone(rows, d.batch.pool.Cut)
	d.room = step.DeviceBatch{
		X: s.x.at, Logit: s.logit.at, Label: s.label.at, Weight: s.weight.at,
		Row: unsafe.Slice((*uint64)(unsafe.Pointer(&s.row.at[0])), rows), DX: s.dx, DLogit: s.dlogit.at,
	}
	return &d.room, nil
}

// grow allocates memory for batches of up to rows rows.
func (d *Device) grow(rows int) (err error) {
	if err := errors.Join(d.compute.Wait(), d.copies.Wait(), d.batch.close()); err != nil {
		return err
	}
	d.batch, d.most, d.work.rows = memory{}, 0, 0
	copied, alone, pinned := d.sizes(rows)
	d.batch.pool, err = d.device.Pool(copied + alone)
	if short, ok := cuda.IsMemory(err); ok {
		fit := int(float64(rows) * float64(short.Free) / float64(short.Requested))
		for c, a, _ := d.sizes(fit); fit > 0 && 4*int64(c+a) > short.Free; c, a, _ = d.sizes(fit) {
			fit -= max(1, fit/64)
		}
		users := ""
		if d.users != nil {
			users = d.users()
		}
		return fmt.Errorf("a batch of %d rows does not fit: %w%s: give train.batch at most %d", rows, err, users, fit)
	} else if err != nil {
		return err
	}
	if d.batch.pinned, err = d.device.Pin(pinned); err != nil {
		return err
	}
	d.most = rows
	return nil
}

// Compute implements step.Device.
func (d *Device) Compute(n int64) (loss float64, err error) {
	w, s := &d.work, &d.staged
	w.step = n
	w.start()
	w.do(d.refresh())
	w.do(d.compute.CopyIn(s.in.on, s.in.at))
	for t := range d.labels {
		d.forward(t)
	}
	d.send(0, s.out.on, s.out.at)
	if dx := d.back(); dx.Len > 0 {
		d.send(1, dx, s.dx)
	}
	w.do(d.copied.Record(d.copies))
	for t := len(d.labels) - 1; t >= 0; t-- {
		l := &d.labels[t]
		if l.bias != nil {
			w.sums(l.bias.grad, d.of(s.dlogit.on, t), 1)
			w.ready(l.bias)
		}
		if l.net != nil {
			l.net.gradients(w)
		}
	}
	if w.finish(); !d.Sums() {
		d.send(2, d.grads.on, d.grads.at)
	}
	w.do(d.copied.Wait())
	if err := d.fault(); err != nil {
		return 0, err
	}
	for _, x := range s.loss.at {
		loss += float64(x)
	}
	return loss, nil
}

// of returns the part of a buffer that belongs to label t.
func (d *Device) of(b cuda.Buffer, t int) cuda.Buffer {
	return b.Part(t*d.work.rows, (t+1)*d.work.rows)
}

// forward computes the logits and the loss of label t.
func (d *Device) forward(t int) {
	l, w, s := &d.labels[t], &d.work, &d.staged
	losses := kernel.Losses{
		Logit: d.of(s.logit.on, t), Label: d.of(s.label.on, t),
		DLogit: d.of(s.dlogit.on, t), Loss: d.of(s.loss.on, t), Share: l.share, Kind: l.kind,
	}
	if d.weigh {
		losses.Weight = s.weight.on
	}
	if l.bias != nil {
		losses.Bias = l.bias.value
	}
	if l.net != nil {
		losses.Net = l.net.forward(w, s.x.on)
	}
	w.do(w.Loss(w.on, losses))
}

// back returns the gradient of the input, summed over the labels.
func (d *Device) back() (dx cuda.Buffer) {
	for t := len(d.labels) - 1; t >= 0 && d.labels[t].net != nil; t-- {
		of := d.labels[t].net.back(&d.work, d.of(d.staged.dlogit.on, t))
		if dx.Len > 0 {
			d.work.do(d.work.Add(d.compute, of, dx))
		}
		dx = of
	}
	return dx
}

// send starts copying a result of the compute stream, which continues meanwhile.
func (d *Device) send(event int, from cuda.Buffer, to []float32) {
	e := d.computed[event]
	d.work.do(e.Record(d.compute))
	d.work.do(d.copies.After(e))
	d.work.do(d.copies.CopyOut(to, from))
}
