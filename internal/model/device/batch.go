//go:build gpu

package device

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/kernel"
	"github.com/wdlrun/wdlrun/internal/model/step"
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
	in                        region // what begins as the host's
	dense, label, weight, row region
	rows, logit               region
	loss                      region
	out                       region // logit, loss
	grads                     region
}

// lengths returns the numbers of floats of the parts of in before the logits, in order.
func (d *Device) lengths(z step.DeviceSize) [13]int {
	weight, inputs := 0, 0
	if d.weigh {
		weight = z.Rows
	}
	if d.labels[0].net != nil {
		inputs = z.Rows * d.bags.Inputs
	}
	return [...]int{
		inputs, z.Rows * len(d.labels), weight, 2 * z.Rows,
		featureWords * d.bags.Features, tableWords * d.bags.Tables, len(d.columns), z.Offsets, z.Factors, z.Keys, z.Keys + 1, z.Values, z.Floats,
	}
}

// featureWords and tableWords are the numbers of words of a description.
const (
	featureWords = int(unsafe.Sizeof(step.DeviceFeature{})) / 4
	tableWords   = int(unsafe.Sizeof(step.DeviceTable{})) / 4
)

// capacity holds numbers of floats for a batch: on the device, in pinned memory, and in the largest
// buffer or launch.
type capacity struct{ device, pinned, largest int }

// sizes returns the memory of a batch, and of what is copied the part other than the gradients.
func (d *Device) sizes(z step.DeviceSize) (c capacity, copied int) {
	for _, n := range d.lengths(z) {
		copied += cuda.Room(n)
		c.largest = max(c.largest, n)
	}
	copied += 2 * cuda.Room(z.Rows*len(d.labels))
	d.alone(z, func(n int) cuda.Buffer {
		c.device += cuda.Room(n)
		c.largest = max(c.largest, n)
		return cuda.Buffer{}
	})
	c.largest = max(c.largest, z.Keys*d.bags.Widest)
	c.device += copied + cuda.Room(z.Floats)
	c.pinned = copied + cuda.Room(z.Floats)
	return c, copied
}

// larger returns a size whose number of values is a quarter larger, so that batches of nearly
// equal size do not each allocate.
func larger(z step.DeviceSize) step.DeviceSize { return scaled(z, z.Rows, 5, 4) }

// scaled returns a size with other numbers of rows and, multiplied by a fraction, of values.
func scaled(z step.DeviceSize, rows, times, over int) step.DeviceSize {
	of := func(n int) int { return n * times / over }
	return step.DeviceSize{Rows: rows, Values: of(z.Values), Keys: of(z.Keys), Floats: of(z.Floats), Offsets: of(z.Offsets), Factors: of(z.Factors)}
}

// alone allocates the buffers that are not copied.
func (d *Device) alone(z step.DeviceSize, take cut) {
	b := &d.bags
	b.At, b.Deep, b.Wide, b.Factor = take(z.Values), take(z.Values), take(z.Values), cuda.Buffer{}
	if z.Factors > 0 {
		b.Factor = take(z.Values)
	}
	d.work.dlogit = take(z.Rows * len(d.labels))
	d.work.partial = take(kernel.PartialSums(z.Rows, d.work.widest))
	if d.work.x = (cuda.Buffer{}); d.labels[0].net != nil {
		d.work.x = take(z.Rows * d.bags.Width)
	}
	for _, l := range d.labels {
		if l.net != nil {
			l.net.room(z.Rows, take)
		}
	}
}

// Begin implements step.Device.
func (d *Device) Begin(z step.DeviceSize) (*step.DeviceBatch, error) {
	c, copied := d.sizes(z)
	if c.largest > kernel.MaxElements {
		return nil, fmt.Errorf("train.device: gpu: %v: %w", d.device, d.tooLarge(z, c))
	}
	if c.device > d.have.device || c.pinned > d.have.pinned {
		if err := d.grow(z); err != nil {
			return nil, fmt.Errorf("train.device: gpu: %v: %w", d.device, err)
		}
	}
	d.work.rows = z.Rows
	d.batch.pool.Reset()
	d.batch.pinned.Reset()
	all, at, s, b := d.batch.cut(copied), 0, &d.staged, &d.bags
	take := func(n int) region {
		at += cuda.Room(n)
		return all.part(at-cuda.Room(n), at-cuda.Room(n)+n)
	}
	var parts [13]region
	for i, n := range d.lengths(z) {
		parts[i] = take(n)
	}
	s.dense, s.label, s.weight, s.row, s.rows = parts[0], parts[1], parts[2], parts[3], parts[12]
	b.Samples, b.Keys, b.Values = z.Rows, z.Keys, z.Values
	b.Feature, b.Table, b.Column, b.Offsets, b.Factors = parts[4].on, parts[5].on, parts[6].on, parts[7].on, parts[8].on
	b.Place, b.Start, b.Order, b.Row = parts[9].on, parts[10].on, parts[11].on, parts[12].on
	from := at
	s.logit = take(z.Rows * len(d.labels))
	s.in = all.part(0, at)
	s.loss = take(z.Rows * len(d.labels))
	s.out, s.grads = all.part(from, at), d.batch.cut(z.Floats)
	d.work.row = s.row.on
	d.alone(z, d.batch.pool.Cut)
	copy(words(parts[6].at), d.columns)
	d.room = step.DeviceBatch{
		Dense: s.dense.at, Logit: s.logit.at, Label: s.label.at, Weight: s.weight.at, Row: as[uint64](s.row.at, z.Rows), Rows: s.rows.at, Grads: s.grads.at,
		Index: step.DeviceIndex{
			Features: as[step.DeviceFeature](parts[4].at, b.Features), Tables: as[step.DeviceTable](parts[5].at, b.Tables),
			Offsets: words(parts[7].at), Factors: parts[8].at, Place: words(parts[9].at), Start: words(parts[10].at), Order: words(parts[11].at),
		},
	}
	return &d.room, nil
}

// as returns pinned memory as n values of another type.
func as[T any](x []float32, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(x))), n)
}

func words(x []float32) []uint32 { return as[uint32](x, len(x)) }

// tooLarge is the error of a batch with more elements than a kernel counts.
func (d *Device) tooLarge(z step.DeviceSize, c capacity) error {
	fit := d.fit(z, float64(kernel.MaxElements)/float64(c.largest), func(c capacity) bool { return c.largest <= kernel.MaxElements })
	return fmt.Errorf("a batch of %d rows needs a buffer of %d elements, and the kernels count to %d: give train.batch at most %d", z.Rows, c.largest, kernel.MaxElements, fit)
}

// fit returns about the most rows with which a batch fits, given the share that probably does.
func (d *Device) fit(z step.DeviceSize, share float64, fits func(capacity) bool) int {
	rows := int(float64(z.Rows) * share)
	for rows > 0 {
		if c, _ := d.sizes(larger(scaled(z, rows, rows, z.Rows))); fits(c) {
			break
		}
		rows -= max(1, rows/64)
	}
	return rows
}

// grow allocates memory for batches of up to a size, and somewhat more values.
func (d *Device) grow(z step.DeviceSize) (err error) {
	if err := errors.Join(d.compute.Wait(), d.copies.Wait(), d.batch.close()); err != nil {
		return err
	}
	d.batch, d.have = memory{}, capacity{}
	need, _ := d.sizes(larger(z))
	d.batch.pool, err = d.device.Pool(need.device)
	if short, ok := cuda.IsMemory(err); ok {
		fit := d.fit(z, float64(short.Free)/float64(short.Requested), func(c capacity) bool { return 4*int64(c.device) <= short.Free })
		users := ""
		if d.users != nil {
			users = d.users()
		}
		return fmt.Errorf("a batch of %d rows does not fit: %w%s: give train.batch at most %d", z.Rows, err, users, fit)
	} else if err != nil {
		return err
	}
	if d.batch.pinned, err = d.device.Pin(need.pinned); err != nil {
		return err
	}
	d.have = need
	return nil
}

// Compute implements step.Device.
func (d *Device) Compute(n int64) (loss float64, err error) {
	w, s := &d.work, &d.staged
	w.step = n
	w.start()
	w.do(d.refreshValues())
	w.do(d.compute.CopyIn(s.in.on, s.in.at))
	d.pool()
	for t := range d.labels {
		d.forward(t)
	}
	d.send(0, s.out.on, s.out.at)
	w.dx = d.back()
	w.do(d.bags.Grad(w.Set, w.on, s.grads.on, w.dx, w.dlogit))
	d.send(1, s.grads.on, s.grads.at)
	w.do(d.copied.Record(d.copies))
	for t := len(d.labels) - 1; t >= 0; t-- {
		l := &d.labels[t]
		if l.bias != nil {
			w.sums(l.bias.grad, d.of(w.dlogit, t), 1)
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

// pool computes the input of the networks and the logits of the wide model.
func (d *Device) pool() {
	w, b := &d.work, &d.bags
	w.do(b.Index(w.Set, w.on))
	if w.x.Len > 0 {
		w.do(b.Pool(w.Set, w.on, w.x, d.staged.dense.on))
	}
	if d.labels[0].bias != nil {
		w.do(b.PoolWide(w.Set, w.on, d.staged.logit.on))
	}
}

// forward computes the logits and the loss of label t.
func (d *Device) forward(t int) {
	l, w, s := &d.labels[t], &d.work, &d.staged
	losses := kernel.Losses{
		Logit: d.of(s.logit.on, t), Label: d.of(s.label.on, t),
		DLogit: d.of(w.dlogit, t), Loss: d.of(s.loss.on, t), Share: l.share, Kind: l.kind,
	}
	if d.weigh {
		losses.Weight = s.weight.on
	}
	if l.bias != nil {
		losses.Bias = l.bias.value
	}
	if l.net != nil {
		losses.Net = l.net.forward(w, w.x)
	}
	w.do(w.Loss(w.on, losses))
}

// back returns the gradient of the input, summed over the labels.
func (d *Device) back() (dx cuda.Buffer) {
	for t := len(d.labels) - 1; t >= 0 && d.labels[t].net != nil; t-- {
		of := d.labels[t].net.back(&d.work, d.of(d.work.dlogit, t))
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
