//go:build gpu

package check

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/kernel"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

const (
	// areas are the buffers of a comparison, of areaFloats each.
	areas, areaFloats = 8, 1 << 15
	// updated is the number of parameters of an update.
	updated = areaFloats/2 - 7
)

// use launches kernels on buffers. Their contents before and after are compared.
type use struct {
	name string
	fill func(x []float32) // if not nil: replaces the first buffer's contents before
	run  func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error
}

// uses launch every kernel.
func uses() (all []use) {
	const n = rows * cols
	matrix := func(b cuda.Buffer) cuda.Buffer { return b.Part(0, n) }
	row := func(b cuda.Buffer) cuda.Buffer { return b.Part(0, cols) }
	column := func(b cuda.Buffer) cuda.Buffer { return b.Part(0, rows) }
	add := func(name string, run func(*kernel.Set, *cuda.Stream, []cuda.Buffer) error) {
		all = append(all, use{name: name, run: run})
	}
	for act := kernel.Identity; act <= kernel.Sigmoid; act++ {
		add(fmt.Sprint("activation ", act), func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
			return errors.Join(s.BiasAct(on, matrix(b[0]), row(b[1]), cols, act), s.ActGrad(on, matrix(b[2]), matrix(b[0]), act))
		})
	}
	add("dropout", func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
		return s.Dropout(on, matrix(b[0]), matrix(b[1]), b[2].Part(0, 2*rows), cols, kernel.Mask{Batch: 7, Keep: 3 << 30, Scale: 4. / 3})
	})
	add("sums of columns", func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
		return s.ColumnSums(on, row(b[0]), matrix(b[1]), b[2], rows, cols)
	})
	add("sum", func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
		return s.Add(on, matrix(b[0]), matrix(b[1]))
	})
	add("batch normalisation", func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
		part := func(i int) cuda.Buffer { return b[3].Part(i*cols, (i+1)*cols) }
		n := kernel.Norm{Rows: rows, Cols: cols, Mean: part(0), InvStd: part(1), MeanDy: part(2), MeanDyX: part(3), Scale: part(4), Shift: part(5), Partial: b[4]}
		return errors.Join(n.Sums(s, on, part(6), matrix(b[0])), n.Squares(s, on, part(7), matrix(b[0])), n.Products(s, on, part(8), matrix(b[1]), matrix(b[0])),
			n.Forward(s, on, matrix(b[2]), matrix(b[0])), n.Backward(s, on, matrix(b[1]), matrix(b[0])))
	})
	for kind := kernel.LogLoss; kind <= kernel.PoissonLoss; kind++ {
		add(fmt.Sprint("loss ", kind), func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
			return s.Loss(on, kernel.Losses{Logit: column(b[0]), Net: column(b[1]), Bias: b[2].Part(0, 1), Label: column(b[3]), Weight: column(b[4]),
				DLogit: column(b[5]), Loss: column(b[6]), Share: .7, Kind: kind})
		})
	}
	add("cross network", func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
		return errors.Join(s.CrossForward(on, matrix(b[0]), matrix(b[1]), row(b[2]), matrix(b[3]), matrix(b[4])),
			s.CrossBackward(on, matrix(b[5]), matrix(b[6]), matrix(b[0]), matrix(b[3]), matrix(b[1]), false))
	})
	add("factorization machine", func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
		f := kernel.FM{Rows: 300, Fields: 9, Embed: 9, Width: 83}
		return errors.Join(f.Forward(s, on, column(b[0]), b[1], b[2], b[3]), f.Backward(s, on, b[4], column(b[0]), b[3], b[1]))
	})
	add("interaction network", interactions)
	for _, u := range []f32.Update{
		{Rule: f32.SGD, Rate: .3},
		{Rule: f32.Adagrad, Rate: .05, Epsilon: 1e-10},
		{Rule: f32.Adam, Rate: .001, Beta1: .9, Beta2: .999, Unbias1: 1 / .19, Unbias2: 1 / .001999, Epsilon: 1e-8, Keep: .99999},
		{Rule: f32.FTRL, Rate: .1, Beta: 1, L1: .5, L2: .25},
	} {
		constants := u.Constants(f32.Gradient{Scale: 1. / 3, Decay: .01, Clip: .9})
		x := use{name: fmt.Sprint("update rule ", u.Rule), run: func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
			return s.Update(on, u.Rule, constants, b[1].Part(0, updated), b[2].Part(0, updated), b[0])
		}}
		signed := 0
		if u.Rule == f32.FTRL {
			signed = updated // the other half has squares
		}
		x.fill = func(state []float32) {
			for i := range state[signed:] {
				state[signed+i] = max(state[signed+i], -state[signed+i])
			}
		}
		all = append(all, x)
	}
	add("sums of squares", func(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
		return s.SquareSums(on, b[0], b[3], matrix(b[1]), matrix(b[2]), .5, .25)
	})
	return append(all, use{"pooling", fillBags, bags})
}

// interactions launches the kernels of the compressed interaction network.
func interactions(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
	const fields, embed, maps, out, lines = 5, 9, 5, 6, 60 * 9
	c := kernel.CIN{Rows: 60, Fields: fields, Embed: embed, Width: 47, Out: out}
	return errors.Join(
		c.Transpose(s, on, b[0], b[1]),
		c.Products(s, on, b[2], b[3], b[0], lines, maps),
		c.Sums(s, on, b[4], b[3], maps, 1),
		c.Spread(s, on, b[3], b[4], maps, 1, true),
		c.MapsGrad(s, on, b[5], b[2], b[0], lines, maps, true),
		c.FieldsGrad(s, on, b[6], b[2], b[3], lines, maps, false),
		c.FieldsGrad(s, on, b[5], b[2], b[3], lines, maps, true),
		c.AddTransposed(s, on, b[1], b[6]),
	)
}

// comparison runs kernels on a device and their twins on the CPU.
type comparison struct {
	room *room
	set  *kernel.Set
	own  []float32 // the twins' memory
	cpu  *kernel.Set
}

func newComparison(d *cuda.Device) (c comparison, err error) {
	if c.set, err = kernel.Load(d); err != nil {
		return c, err
	}
	if c.room, err = newRoom(d, areas*areaFloats); err != nil {
		return c, err
	}
	c.own = make([]float32, len(c.room.host))
	c.cpu = kernel.Twins(c.room.device.At, c.own)
	return c, nil
}

// compare compares the bits that the kernels of a use leave in memory with the twins'.
func (c comparison) compare(u use) error {
	m := c.room
	fill(m.host)
	if u.fill != nil {
		u.fill(m.host[:areaFloats])
	}
	copy(c.own, m.host)
	var b []cuda.Buffer
	for i := range areas {
		b = append(b, m.device.Part(i*areaFloats, (i+1)*areaFloats))
	}
	err := errors.Join(m.stream.CopyIn(m.device, m.host), u.run(c.set, m.stream, b), m.stream.CopyOut(m.host, m.device), m.stream.Wait())
	if err == nil {
		err = u.run(c.cpu, nil, b)
	}
	if err == nil {
		err = sameBits(m.host, c.own)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", u.name, err)
	}
	return nil
}

// kernels compares all kernels with their twins.
func kernels(d *cuda.Device) (is measured, err error) {
	c, err := newComparison(d)
	if err != nil {
		return is, err
	}
	for _, u := range uses() {
		if err := c.compare(u); err != nil {
			return is, err
		}
	}
	if unused := c.cpu.Unused(); len(unused) > 0 {
		return is, fmt.Errorf("not compared: %s", strings.Join(unused, ", "))
	}
	is.text = "all kernels give the same bits as their CPU versions"
	return is, errors.Join(c.room.close(), c.set.Close())
}

// sameBits compares the memory of a device with the twins'.
func sameBits(got, want []float32) error {
	first, n := -1, 0
	for i, x := range got {
		if math.Float32bits(x) != math.Float32bits(want[i]) {
			if n++; first < 0 {
				first = i
			}
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d values differ from the CPU's: value %d of buffer %d is %v, want %v", n, first%areaFloats, first/areaFloats, got[first], want[first])
}
